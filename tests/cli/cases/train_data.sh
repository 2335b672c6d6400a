# comet train with data in every form that the command line knows.
# shellcheck shell=bash

needs_training
tiny_net

# Fashion-MNIST where Debian's package puts it.
if [ -d /usr/share/datasets/fashion-mnist ]; then
    run 0 train --model cnn28 --data fashion --max-steps 1 -j 1
    out_has ' images/s, limited by '
else
    run 3 train --model cnn28 --data fashion --max-steps 1 -j 1
    err_has 'dataset-fashion-mnist'
fi
array_files
run 0 train --net tiny.txt --data npy:x.npy,y.npy --batch 4 --epochs 2 -j 1
out_has '^epoch 2/2 '
# Folders of pictures, of which one is broken.
picture=iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
for class in a b c d; do
    mkdir -p pictures/$class
    for i in 1 2 3 4 5 6; do echo $picture | base64 -d >pictures/$class/$i.png; done
done
run 0 train --net tiny.txt --data folder:pictures --image 16 --batch 4 --epochs 1 -j 1
echo 'no picture' >pictures/b/3.png
run 0 train --net tiny.txt --data folder:pictures --image 16 --batch 4 --epochs 2 -j 1
err_has 'pictures/b/3.png'
run 3 train --net tiny.txt --data folder:pictures --image 16 --batch 4 --epochs 2 -j 1 --strict
err_has 'pictures/b/3.png'

run 2 train --net tiny.txt --data pictures --batch 4
err_has "the data 'pictures' is a folder; did you mean folder:pictures?"
mkdir -p unread/a unread/b
for class in a b; do for i in 1 2 3 4 5 6; do echo no >unread/$class/$i.png; done; done
run 3 train --net tiny.txt --data folder:unread --image 16 --batch 4 -j 1
err_has 'images one after another could not be read; the last: .*unread/.*.png: neither JPEG nor PNG'
# A broken picture in a separate test part is counted apart and told once a run.
mkdir -p parts/val && cp -r pictures parts/train && cp -r pictures/[abcd] parts/val
echo $picture | base64 -d >parts/train/b/3.png
run 0 train --net tiny.txt --data folder:parts --image 16 --batch 4 --epochs 2 -j 1
err_has '^comet train: 1 broken test image skipped, the next readable one was scored instead; the first: .*parts/val/b/3.png'
if [ "$(grep -c 'broken test image' .err)" -eq 1 ]; then pass; else fault "a broken test image is not told once"; fi
out_has '^1 broken test image was skipped$'
run 0 train --net tiny.txt --data folder:parts --image 16 --batch 4 --epochs 1 -j 1 --json
out_has '"skipped_images":0,"skipped_test_images":1'
run 3 train --net tiny.txt --data folder:parts --image 16 --batch 4 --epochs 1 -j 1 --strict
