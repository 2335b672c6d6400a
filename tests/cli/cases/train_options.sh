# comet train: options and files that are refused, and what is said then.
# shellcheck shell=bash

needs_training
tiny_net
array_files
run 0 train $settings --out a

run 3 train --model resnet20 --data cifar10:nowhere
err_has 'nowhere'
# A small CIFAR-10 of zeros, in which one label is 11; then with a file cut short.
mkdir cifar
for part in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    head -c $((3073 * 10)) /dev/zero >cifar/$part.bin
done
run 0 train --model resnet20 --data cifar10:cifar --batch 10 --max-steps 1 -j 1
printf '\013' | dd of=cifar/data_batch_2.bin bs=1 seek=$((3073 * 4)) conv=notrunc status=none
run 3 train --model resnet20 --data cifar10:cifar --batch 10 --max-steps 1 -j 1
err_has 'data_batch_2.bin.*label'
err_has '11'
head -c 100 /dev/zero >cifar/data_batch_2.bin
run 3 train --model resnet20 --data cifar10:cifar --batch 10 --max-steps 1 -j 1
err_has 'data_batch_2.bin'
run 3 train --net nothere.txt --data synthetic
err_has 'nothere.txt: No such file'
# A net that never ends, or is no net. A sanitizer build does not start below a limit.
limit=
if memory_limits; then limit='ulimit -v 1500000;'; fi
for file in /dev/zero endless.txt; do
    truncate -s 17M endless.txt
    for words in "train --data synthetic" "plan" "models"; do
        shell 3 "$limit \"\$comet\" $words --net $file"
        err_has "$file: too long: such a file may have at most 16777216 bytes"
    done
done
run 2 train --model cnn29 --data fashion
err_has 'cnn29'
run 2 train --data fashion
err_has 'a net is missing: give --model'
run 2 train --model cnn28
err_has 'data is missing: give --data'
run 2 train --model cnn28 --data fashon
err_has 'fashon'
run 2 train --net tiny.txt --data npy:x.npy,y.npy --image 20
err_has '--image 20: images of npy:x.npy,y.npy are 16 x 16; --image is for folder and synthetic'
run 2 train --net tiny.txt --data npy:x.npy,y.npy --images 5
err_has '--images 5: npy:x.npy,y.npy has images of its own; --images is for synthetic'
run 2 train --net tiny.txt --data synthetic --image 20 --classes 4
err_has 'takes images of 3 x 16 x 16, the training data has 3 x 20 x 20'
run 2 train --net tiny.txt --data synthetic --classes 5
err_has 'gives 4 x 1 x 1 scores, the training data has 5 classes'
run 2 train $settings --batch 500
err_has 'has 400 images, fewer than one step takes'
run 2 train $settings --rate -1
run 2 train $settings --optimiser sdg
err_has 'did you mean sgd?'
run 2 train $settings --schedule cosin
err_has 'did you mean cosine?'
# Words of other frameworks, and only for options that the verb has.
while read -r theirs ours; do
    run 2 train $settings $theirs
    err_has "unknown option '${theirs%%=*}'; did you mean $ours?"
done <<'WORDS'
--lr --rate
--lr=0.1 --rate
--learning-rate --rate
--learning_rate --rate
--batch-size --batch
--batch_size --batch
--bs --batch
--wd --weight-decay
--weight_decay --weight-decay
--workers --loader-threads
--prefetch-factor --queue
--num-workers --loader-threads
--num_workers --loader-threads
--jobs --threads
--optimizer --optimiser
--scheduler --schedule
--lr-scheduler --schedule
--output --out
--save --out
--output-dir --out
--checkpoint --weights
--pretrained --weights
--num-classes --classes
--img-size --image
--imgsz --image
--dataset --data
--arch --model
--num-epochs --epochs
--label-smoothing --smoothing
--grad-clip --clip
--max-grad-norm --clip
--gradient-accumulation-steps --accumulate
--steps --max-steps
--iterations --max-steps
--mem --memory
--compression --compress
--warmup-epochs --warmup
--random-seed --seed
WORDS
run 2 bench train --net tiny.txt --max-steps 3
err_has "unknown option '--max-steps'; did you mean --steps?"
run 2 eval a --lr 1
err_has "unknown option '--lr'$"
run 2 train $settings --xyzzy
err_has "unknown option '--xyzzy'$"
run 2 train --net tiny.txt --data fashoin
err_has 'no known kind; did you mean fashion?'
run 2 train $settings --warmup 1
err_has 'has no effect with onecycle'
run 2 train $settings --save-steps 3
run 2 train $settings --nesterov --momentum 0
run 3 train $settings --weights nothere.safetensors
err_has 'nothere.safetensors: No such file'
run 3 train $settings --weights x.pt
err_has 'x.pt: No such file'
run 3 train $settings --out a/last.safetensors
err_has 'a/last.safetensors'
: >file
run 3 train $settings --out file/x
err_has 'could not create the folder'
shell 0 'ulimit -f 1; "$comet" train $settings --log long.jsonl >/dev/null'
err_has 'could not write the log; training continues'
