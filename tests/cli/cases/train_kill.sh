# comet train --resume after kills at random instants: the same bits as without.
# shellcheck shell=bash

needs_training
tiny_net
random_seed

# Kills runs in folder $1, $2 times and, on a busy machine, until one has gone on from a checkpoint; then lets the last one finish.
# The rest are options.
kill_and_resume() {
    local folder=$1 kills=$2 tries=0 ms
    shift 2
    rm -rf "$folder"
    n_resumed=0
    while [ $tries -lt "$kills" ] || { [ $n_resumed -eq 0 ] && [ $tries -lt $((20 * kills)) ]; }; do
        "$comet" train "$@" --out "$folder" --resume --save-steps 3 >.out 2>.err </dev/null &
        local pid=$!
        ms=$((RANDOM % (350 * (1 + tries / kills)) + 20))
        sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        if grep -q 'going on from' .err; then n_resumed=$((n_resumed + 1)); fi
        tries=$((tries + 1))
    done
    run 0 train "$@" --out "$folder" --resume --save-steps 3
}
long=${settings/--epochs 3/--epochs 10}
run 0 train $long --out long
kill_and_resume killed 8 $long
same killed/last.safetensors long/last.safetensors
same killed/best.safetensors long/best.safetensors
if [ "$n_resumed" -ge 1 ]; then pass; else fault "no kill came after a checkpoint"; fi
# What a killed run was writing goes with the next one.
shell 0 'ls -A killed | grep -v "^\(last\|previous\|best\).safetensors$\|^state.json$\|^.lock$" | wc -l | grep -q "^0$"'
adam="$settings --optimiser adamw --accumulate 3 --clip 1 --smoothing 0.1 --schedule cosine --warmup 1"
run 0 train $adam --out adam
kill_and_resume adam2 4 $adam
same adam/last.safetensors adam2/last.safetensors
# Bounds are part of a checkpoint, and so is the momentum that they need where the optimiser has none. Those above are auto's.
for rule in '--noise 2%' '--sigma 0.01'; do
    bounded="$settings --compress fast $rule --momentum 0"
    run 0 train $bounded --out bounded -f
    kill_and_resume bounded2 4 $bounded
    err_lacks 'not as before'
    same bounded/last.safetensors bounded2/last.safetensors
done
shell 0 'grep -aq "\"bounds\":\"4 1 0.01" bounded/last.safetensors'
shell 0 'grep -aq "optimiser.momentum.conv1.weight" bounded/last.safetensors'
