# comet train within a budget of memory.
# shellcheck shell=bash

needs_training
tiny_net
wide_net

# ---- a batch that does not fit ----

# A sanitizer build needs more address space than any limit here leaves.
if memory_limits; then
    shell 5 'ulimit -v 1500000; "$comet" train --net tiny.txt --data synthetic --images 120000 --classes 4 --batch 60000 -j 1 --loader-threads 1'
    err_has 'batch 60000 needs [0-9]* MiB, [0-9]* MiB are free (ulimit -v); batch [0-9]* would fit'
    shell 5 'ulimit -v 1500000; "$comet" bench train --net tiny.txt --batch 60000 -j 1 --in-process'
    err_has 'would fit'
fi

# ---- a budget of memory ----

for size in 0 4XB GiB 1e3 -1 1..5GiB 99999999999GiB; do run 2 train $settings --memory "$size"; done
run 2 train $settings --memory 400
err_has "option --memory: '400' has no unit; write 400M or 400MiB, or 400B for bytes"
run 0 train $settings --memory 2g --max-steps 1
err_has '2.00 GiB are allowed (--memory)'
run 2 train $settings --batch atuo
err_has "nor is it 'auto'"
run 5 train $settings --memory 10MiB
err_has 'batch 20 with compression [a-z]* needs [0-9.]* [GM]iB, with 5 % kept free; 10 MiB are allowed (--memory); batch 8 would need [0-9.]* [GM]iB'
run 0 train $settings --memory 2GiB --max-steps 1
err_has 'batch 20 with compression auto: a peak of [0-9]* MiB is expected, 2.00 GiB are allowed (--memory)'
run 0 train $settings --compress off --memory 2GiB --max-steps 1
err_has 'batch 20 with compression off: '
run 0 train $settings --batch auto --memory 2GiB --max-steps 1 --log auto_batch.jsonl
err_has 'batch 400 (chosen) with compression auto'
err_has 'rate 0.0015625, the default for 1 update of 400 images; --rate sets another'
has auto_batch.jsonl '"event":"note".*batch 400 (chosen)'
has auto_batch.jsonl '"event":"start".*"batch":400'
run 0 train $settings --batch auto --max-steps 1 --optimiser adamw
err_has 'rate 4e-05, the default for 1 update of 400 images'
run 0 train $settings --batch auto --max-steps 1 --rate 0.02
err_lacks 'rate 0.'
run 0 train ${settings/--images 400/--images 2000} --batch auto --memory 2GiB --max-steps 1
err_has 'batch 1024 (chosen, the most that auto takes) with compression auto'
# An epoch has ten updates or more. The steps of a schedule are those of the batch that was chosen.
run 0 train $settings --batch auto --memory 2GiB --epochs 8 --schedule step --rate 0.0125 --log auto_step.jsonl
err_has 'batch 40 (chosen, so that an epoch has about 10 updates or more) with compression auto'
has auto_step.jsonl '"event":"start".*"n_steps":80,'
has auto_step.jsonl '"step":20,.*"rate":0.0125[,}]'
has auto_step.jsonl '"step":45,.*"rate":0.00125[0-9]*[,}]'
has auto_step.jsonl '"step":80,.*"rate":0.000125'
run 2 train ${settings/--images 400/--images 7} --batch auto
err_has '\-\-batch auto is for 8 images or more'
# A run that goes on keeps its batch.
run 0 train $settings --batch auto --memory 60MiB --max-steps 2 --out keeps
batch=$(sed -n 's/.*batch \([0-9]*\) (chosen).*/\1/p' .err)
run 0 train $settings --batch auto --memory 2GiB --max-steps 3 --out keeps --resume
err_has "batch $batch with compression"
run 5 train $settings --batch auto --memory 10MiB --max-steps 3 --out keeps --resume
err_has "batch $batch with .* 10 MiB are allowed (--memory); a run that is resumed keeps its batch"

if memory_limits; then
    # ---- --memory, ulimit and control group at once: what is chosen trains ----

    auto="train --net wide.txt --data synthetic --images 1000 --classes 10 --max-steps 1 --batch auto -j 1 --loader-threads 1"
    for limit in 250000 300000 400000; do
        for memory in '' '--memory 4GiB'; do
            shell 0 "ulimit -v $limit; \"\$comet\" $auto $memory"
            err_has 'batch [1-9][0-9]* (chosen) .* a peak of [0-9]* MiB in [0-9]* MiB of addresses is expected, [0-9]* MiB are allowed (ulimit -v)'
        done
    done
    shell 0 "ulimit -d 300000; \"\$comet\" $auto --memory 4GiB"
    err_has 'batch [1-9][0-9]* (chosen) .*, 293 MiB are allowed (ulimit -d)'
    shell 0 "ulimit -v 1200000; \"\$comet\" $auto --memory 100MiB"
    err_has 'batch [1-9][0-9]* (chosen) .* is expected, 100 MiB are allowed (--memory)'
    # The limits hold for a given batch too, and where nothing fits.
    shell 0 "ulimit -v 300000; \"\$comet\" ${auto/auto/64} --memory 4GiB"
    err_has 'batch 64 with compression auto: .*, 293 MiB are allowed (ulimit -v)'
    shell 5 "ulimit -v 300000; \"\$comet\" ${auto/auto/900} --compress lossless --memory 4GiB"
    err_has 'batch 900 with .* needs [0-9.]* [GM]iB of addresses, with 5 % kept free; 293 MiB are allowed (ulimit -v); batch [0-9]* would fit'
    # A control group of 150 MB more than is used, made up in a file system of our own.
    mkdir -p groups/memory
    echo 200000000 >groups/memory/memory.limit_in_bytes
    echo 50000000 >groups/memory/memory.usage_in_bytes
    if unshare -rm mount --bind groups /sys/fs/cgroup 2>/dev/null; then
        for memory in '' '--memory 4GiB'; do
            shell 0 "unshare -rm sh -c 'mount --bind groups /sys/fs/cgroup; \"\$0\" $auto $memory' \"\$comet\""
            err_has 'batch [1-9][0-9]* (chosen) .* is expected, 1[0-9]* MiB are allowed (control group)'
        done
    fi

    # ---- the disk that activations are spilled to is full ----

    wide="--net wide.txt --data synthetic --images 400 --classes 10 --batch 192 --epochs 2 -j 1 --compress lossless"
    run 0 train $wide --out roomy
    shell 3 'ulimit -f 1000; "$comet" train $wide --memory 99MiB --spill . --out spilt --log spilt.jsonl'
    err_has 'step 1: .*could not spill [0-9]* bytes to . after [0-9]* others: File too large; spilt/last.safetensors holds step 0'
    if tail -1 spilt.jsonl | grep -q '"event":"error".*could not spill'; then pass; else fault "the log does not end with the error"; fi
    shell 3 'ulimit -f 1000; "$comet" train $wide --memory 99MiB --spill .'
    err_has 'File too large; nothing is kept'
    run 0 train $wide --memory 99MiB --spill . --out spilt --resume
    out_has 'saved activations .* compressed and [0-9.]* MiB on disk'
    same spilt/last.safetensors roomy/last.safetensors
fi

# ---- the table before the run has what the run then needs, where a few coded tensors find no room in it ----

run 0 train --model resnet18 --data synthetic --image 64 --images 64 --classes 3 --batch 32 --max-steps 1 -j 1
expected=$(sed -n 's/^  total  *\([0-9]*\) MiB$/\1/p' .out)
needed=$(sed -n 's/^peak memory .*: \([0-9]*\) MiB model.*/\1/p' .out)
if [ "$needed" -ge "$expected" ] && [ "$needed" -le $((expected + 3)) ]; then pass; else fault "$expected MiB in the table, $needed needed"; fi

# ---- saving takes no room: a weight of 64 MiB, with and without a checkpoint, and loaded again ----

if memory_limits; then
    cat >head.txt <<'NET'
net head
input 3 32 32
flat = flatten
fc1 = linear out=5461
relu1 = relu
fc2 = linear out=10
NET
    head="--net head.txt --data synthetic --images 40 --classes 10 --batch 8 --compress off -j 1 --loader-threads 1 --json"
    peak() { grep -o '"peak_rss_bytes":[0-9]*' .out | cut -d : -f 2; }
    run 0 train $head --max-steps 2
    without=$(peak)
    run 0 train $head --max-steps 2 --out head --save-steps 1
    if [ $(($(peak) - without)) -lt 4000000 ]; then pass; else fault "a checkpoint takes $(($(peak) - without)) bytes"; fi
    run 0 train $head --max-steps 4 --out head --resume
    if [ $(($(peak) - without)) -lt 4000000 ]; then pass; else fault "resuming takes $(($(peak) - without)) bytes"; fi
fi
