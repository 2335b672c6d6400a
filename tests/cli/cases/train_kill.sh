# comet train --resume after kills at random instants: the same bits as without.
# shellcheck shell=bash

needs_training
tiny_net
random_seed

# Runs to the end in folder $1, the rest are options, and sets $took: milliseconds.
uninterrupted() {
    local folder=$1 began
    shift
    began=$(date +%s%3N)
    run 0 train "$@" --out "$folder" -f
    took=$(($(date +%s%3N) - began))
}

# Kills runs in folder $1, $2 times and, on a busy machine, until one has gone on from a checkpoint; then lets the last one finish.
# The rest are options. A kill comes at any time within what `uninterrupted` took, later where kills came too early.
kill_and_resume() {
    local folder=$1 kills=$2 tries=0 ms
    shift 2
    rm -rf "$folder"
    n_resumed=0
    while [ $tries -lt "$kills" ] || { [ $n_resumed -eq 0 ] && [ $tries -lt $((20 * kills)) ]; }; do
        "$comet" train "$@" --out "$folder" --resume --save-steps 3 >.out 2>.err </dev/null &
        local pid=$!
        ms=$((RANDOM % (took * (1 + tries / kills)) + 20))
        sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        if grep -q 'going on from' .err; then n_resumed=$((n_resumed + 1)); fi
        tries=$((tries + 1))
    done
    run 0 train "$@" --out "$folder" --resume --save-steps 3
}
long=${settings/--epochs 3/--epochs 10}
uninterrupted long $long
kill_and_resume killed 8 $long
same killed/last.safetensors long/last.safetensors
same killed/best.safetensors long/best.safetensors
if [ "$n_resumed" -ge 1 ]; then pass; else fault "no kill came after a checkpoint"; fi
# What a killed run was writing goes with the next one.
shell 0 'ls -A killed | grep -v "^\(last\|previous\|best\).safetensors$\|^\(state\|config\).json$\|^log.jsonl$\|^.lock$" | wc -l | grep -q "^0$"'
adam="$settings --optimiser adamw --accumulate 3 --clip 1 --smoothing 0.1 --schedule cosine --warmup 1"
uninterrupted adam $adam
kill_and_resume adam2 4 $adam
same adam/last.safetensors adam2/last.safetensors
# Bounds are part of a checkpoint, and so is the momentum that they need where the optimiser has none. Those above are auto's.
for rule in '--noise 2%' '--sigma 0.01'; do
    bounded="$settings --compress fast $rule --momentum 0"
    uninterrupted bounded $bounded
    kill_and_resume bounded2 4 $bounded
    err_lacks 'not as before'
    same bounded/last.safetensors bounded2/last.safetensors
done
shell 0 'grep -aq "\"bounds\":\"4 1 0.01" bounded/last.safetensors'
shell 0 'grep -aq "optimiser.momentum.conv1.weight" bounded/last.safetensors'
