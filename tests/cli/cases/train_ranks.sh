# comet train on several ranks, under each MPI launcher that this build has a module for.
# shellcheck shell=bash

needs_training
tiny_net

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launchers=""
for mpi in openmpi mpich; do
    [ -e "$(dirname "$comet")/comet_mpi_$mpi.so" ] && command -v mpirun.$mpi >/dev/null && launchers="$launchers $mpi"
done
command -v "$python" >/dev/null || { echo "skipped: it needs python3"; exit 77; }
if [ -z "$launchers" ]; then
    echo "skipped: no MPI (tools/setup all installs Open MPI and MPICH)"
    exit 77
fi

# together N WORD...: the line of shell that runs comet on N ranks of $mpi, for at most 100 s.
together() {
    local n=$1 more="" program="\"\$comet\""
    shift
    [ $mpi = openmpi ] && more=--oversubscribe
    [ "$1" = other_data ] && program=./
    echo "timeout 100 mpirun.$mpi $more -n $n $program$([ $program = ./ ] || echo ' ')$*"
}

# refused N WORD...: the job ends with a code other than 0; MPICH's is not the program's.
refused() {
    last=$(together "$@")
    if (eval "$last") >.out 2>.err </dev/null; then fault "exit 0"; else pass; fi
}

# Nobody of the last job is left.
nobody_left() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        pgrep -f "^$comet train" >/dev/null || break
        sleep 0.2
    done
    if pgrep -f "^$comet train" >/dev/null; then fault "a rank is left"; else pass; fi
}

# The pid of a rank that trains, by number.
pid_of_rank() {
    local pid
    for pid in $(pgrep -f "^$comet train"); do
        if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1\|PMI_RANK=$1"; then
            echo "$pid"
            return
        fi
    done
}

# sent_bytes LOG LEAST MOST: of a log, bytes sent are those of all epochs, and LEAST to MOST times fewer than plain ones.
sent_bytes() {
    last="bytes sent in $1"
    if "$python" -c "
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
epochs, end = [e for e in events if e['event'] == 'epoch'], events[-1]
# Each of 60 updates moves 1468 gradients, with gaps that their layout has, and 16 running statistics, half of them twice from each of 2 ranks.
assert 1 <= end['exchange_plain_bytes'] / (60 * 4 * 2 * (1468 + 16)) < 1.3, end['exchange_plain_bytes']
for key in ('exchange_sent_bytes', 'exchange_plain_bytes'):
    assert sum(e[key] for e in epochs) == end[key] > 0 and len({e[key] for e in epochs}) == 1, (key, end[key])
ratio = end['exchange_plain_bytes'] / end['exchange_sent_bytes']
assert $2 <= ratio <= $3, ratio
" "$1" >.out 2>.err; then pass; else fault "they are not as expected"; fi
}

# Rank 1 sees other pixels under the same name; the labels are the same.
array_files
mkdir other
cp y.npy other
"$comet" generate relu -d 16,3,16,16 --seed 9 -o other/x.npy 2>/dev/null
cat >other_data <<'SH'
#!/bin/sh
net=$PWD/tiny.txt
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && cd other
exec "$comet" train --net "$net" --data npy:x.npy,y.npy --batch 4 -j 1
SH
chmod +x other_data
export comet

# Alone, such options change nothing, and a note says so.
run 0 train $settings --max-steps 2 --shard-optimiser
err_has 'shard-optimiser is for several ranks and changes nothing'
run 0 train $settings --max-steps 2 --compress-gradients off --reduce ordered
err_lacks 'several ranks'

for mpi in $launchers; do
    # One line of each kind, from rank 0 alone; figures are of all ranks.
    shell 0 "$(together 2 train $settings --out two-$mpi --log two-$mpi.jsonl)"
    out_has '^ranks      2 of 10 images each, 2 on this machine$'
    out_has '^length     3 epochs, 60 updates of 20 images$'
    out_has '^peaks of ranks [0-9.]* MiB, [0-9.]* MiB$'
    if [ "$(grep -c '^epoch' .out)" -eq 3 ]; then pass; else fault "not one line an epoch"; fi
    has two-$mpi.jsonl '"ranks":2'
    has two-$mpi.jsonl '"rank_peak_bytes":\[[0-9]*,[0-9]*\]'
    out_has '^ranks sent [0-9.]* MiB$'
    out_has '^waited for other ranks [0-9]\{1,2\}\.[0-9], [0-9]\{1,2\}\.[0-9] % of the time$'
    last="log fields of two ranks under $mpi"
    if "$python" "$source/tests/cli/check_log_fields" --some "$source/docs/log.md" two-$mpi.jsonl >.out 2>.err; then pass; else fault "they are not those of docs/log.md"; fi
    sent_bytes two-$mpi.jsonl 1 1
    # The same bits every time, and under either MPI; with the optimiser shared out, too, and with either kind of loader.
    shell 0 "$(together 2 train $settings --out again-$mpi)"
    same two-$mpi/last.safetensors again-$mpi/last.safetensors
    shell 0 "$(together 2 train $settings --out shared-$mpi --shard-optimiser --loader-threads 2)"
    same two-$mpi/last.safetensors shared-$mpi/last.safetensors
    # Stopped after an epoch, and gone on with: the same number of ranks gives the same bits, another one goes on.
    shell 0 "$(together 4 train $settings --out four-$mpi --sync-bn)"
    shell 0 "$(together 4 train $settings --out part-$mpi --sync-bn --max-steps 25 --schedule constant --rate 0.01)"
    shell 0 "$(together 4 train $settings --out whole-$mpi --sync-bn --schedule constant --rate 0.01 --max-steps 50)"
    shell 0 "$(together 4 train $settings --out part-$mpi --sync-bn --max-steps 50 --schedule constant --rate 0.01 --resume)"
    same whole-$mpi/last.safetensors part-$mpi/last.safetensors
    shell 0 "$(together 2 train $settings --out part-$mpi --sync-bn --max-steps 60 --schedule constant --rate 0.01 --resume)"
    err_has 'not as before: .*number of ranks'
    shell 0 "'$comet' train $settings --out part-$mpi --max-steps 60 --schedule constant --rate 0.01 --resume"
    # Gradients that travel in fewer bytes; MPI's own sums.
    for how in bf16 codec; do
        shell 0 "$(together 2 train $settings --compress-gradients $how --json --log $how-$mpi.jsonl)"
        out_has '"state":"finished"'
        has $how-$mpi.jsonl "\"compress_gradients\":\"$how\",\"reduce\":\"ordered\""
    done
    sent_bytes bf16-$mpi.jsonl 1.95 2 # running statistics stay floats
    run 0 report bf16-$mpi.jsonl -f
    has report.html '<th scope="row">ranks</th><td>2 processes, gradients travel as bf16, sent .* instead of '
    shell 0 "$(together 2 train $settings --reduce mpi --json)"
    # A search for a rate, gradients that add up or are clipped, a budget for each rank.
    shell 0 "$(together 2 train $settings --rate find --max-steps 60 --json --log find-$mpi.jsonl)"
    sent_bytes find-$mpi.jsonl 1 1 # without those of the search
    shell 0 "$(together 2 train $settings --accumulate 2 --clip 1 --shard-optimiser --max-steps 10 --json)"
    shell 0 "$(together 2 train $settings --memory 2GiB --max-steps 10 --json)"
    refused 2 train $settings --memory 10MiB
    err_has 'batch 10 of each rank with compression [a-z]* needs .*; 10 MiB are allowed (--memory)'
    shell 0 "$(together 2 bench train --net tiny.txt --batch 20 --compress off,fast --steps 3 --warm 2 --json)"
    is_json
    out_has '"ranks":2,"one_rank_images_per_s":[0-9.]*,"scaling":'
    # Refused at the start, by one sentence that names the rank.
    refused 3 train $settings
    err_has 'cannot be shared out evenly among 3; 18 and 21 can'
    refused 1 train $settings : -n 1 "\$comet" train $settings --rate 0.2
    err_has 'rank 1 on host .* was started with --rate 0.2'
    refused 2 other_data
    err_has 'rank 1 on host .* was started with images of training data (fingerprint [0-9a-f]*), rank 0 with (fingerprint '
    refused 2 train $settings --out two-$mpi
    err_has 'already holds a run'
    nobody_left

    # A rank that is killed, or does not answer, ends the job within 10 s; what was saved goes on with the same bits.
    long="--net tiny.txt $data --batch 20 --epochs 150 --seed 3 -j 1 --save-steps 5 --schedule constant --rate 0.01"
    shell 0 "$(together 2 train $long --out lived-$mpi)"
    for signal in KILL STOP; do
        rm -rf "died"
        last="kill -$signal of a rank under $mpi"
        (eval "$(together 2 train $long --out died)" >.out 2>.err </dev/null; echo $? >.code) &
        for _ in $(seq 100); do
            [ -e died/last.safetensors ] && break
            sleep 0.1
        done
        victim=$(pid_of_rank 1)
        began=$(date +%s)
        if [ -n "$victim" ]; then kill -$signal "$victim"; else fault "there is no rank 1"; fi
        wait
        if [ $(($(date +%s) - began)) -le 10 ]; then pass; else fault "it took $(($(date +%s) - began)) s"; fi
        if [ "$(cat .code)" -ne 0 ]; then pass; else fault "exit code 0"; fi
        err_has 'rank 1 '
        nobody_left
        shell 0 "$(together 2 train $long --out died --resume)"

        same died/last.safetensors lived-$mpi/last.safetensors
    done

    # A thread of rank 1 that hangs, while the rest of its process lives.
    rm -rf died
    last="a thread that hangs under $mpi"
    (eval "$(together 2 train $long --out died)" >.out 2>.err </dev/null; echo $? >.code) &
    for _ in $(seq 100); do
        [ -e died/last.safetensors ] && break
        sleep 0.1
    done
    began=$(date +%s)
    if "$python" "$source/tests/cli/hang_thread" "$(pid_of_rank 1)" >.traced 2>&1; then
        wait
        # 10 s as a rule; 56 s and a little where it was stopped while it waited for data.
        if [ $(($(date +%s) - began)) -le 70 ]; then pass; else fault "it took $(($(date +%s) - began)) s"; fi
        err_has 'rank 1 on host .* makes no progress since [0-9]* s, and others wait for it'
        nobody_left
    else
        echo "no thread was stopped: $(cat .traced)"
        wait
    fi

    # A machine that is stopped as a whole, and goes on.
    rm -rf died
    last="all ranks stopped for 12 s under $mpi"
    (eval "$(together 2 train $long --out died)" >.out 2>.err </dev/null; echo $? >.code) &
    for _ in $(seq 100); do
        [ -e died/last.safetensors ] && break
        sleep 0.1
    done
    pids=$(pgrep -f "^$comet train")
    kill -STOP $pids
    sleep 12
    kill -CONT $pids
    wait
    if [ "$(cat .code)" -eq 0 ]; then pass; else fault "exit code $(cat .code)"; fi
    same died/last.safetensors lived-$mpi/last.safetensors

    # SIGTERM to the launcher: the step is finished, the run saved, and it goes on from there.
    rm -rf died
    (eval "$(together 2 train $long --out died)" >.out 2>.err </dev/null) &
    for _ in $(seq 100); do
        [ -e died/last.safetensors ] && break
        sleep 0.1
    done
    pkill -TERM -f "^(/usr/bin/)?(mpirun.$mpi|mpiexec.hydra) .*$comet"
    wait
    nobody_left # what was said last may be lost with Open MPI's launcher
    shell 0 "$(together 2 train $long --out died --resume)"
    same died/last.safetensors lived-$mpi/last.safetensors
done
if [ -e two-openmpi ] && [ -e two-mpich ]; then same two-openmpi/last.safetensors two-mpich/last.safetensors; fi
