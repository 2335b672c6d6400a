# comet train stopped by a signal: the step is finished and saved, and --resume does the rest.
# shellcheck shell=bash

needs_training
tiny_net
long=${settings/--epochs 3/--epochs 10}
run 0 train $long --out long
run 0 train $settings --out b

for signal in INT:130 TERM:143; do
    rm -rf stopped stop.jsonl
    last="comet train $settings --out stopped, kill -${signal%:*}"
    set -m # or bash starts what is in the background with SIGINT ignored
    "$comet" train $long --out stopped --log stop.jsonl >.out 2>.err </dev/null &
    pid=$!
    set +m
    for _ in $(seq 200); do
        grep -q '"event":"step"' stop.jsonl 2>/dev/null && break
        sleep 0.01
    done
    "$comet" train $settings --out stopped --resume >.out 2>.second </dev/null
    second=$?
    kill -${signal%:*} $pid
    wait $pid
    code=$?
    if [ $second -eq 3 ] && grep -q 'stopped: another run is writing to this folder' .second; then pass; else fault "two runs in one folder: exit $second"; fi
    if [ $code -eq ${signal#*:} ]; then pass; else fault "exit $code after SIG${signal%:*}"; fi
    err_has 'stopped by a signal after step [0-9]*; --resume continues from there'
    present stopped/last.safetensors
    run 0 train $long --out stopped --log stop.jsonl --resume
    same stopped/last.safetensors long/last.safetensors
    if [ "$(grep -c '"event":"end"' stop.jsonl)" -eq 2 ]; then pass; else fault "the log does not have both ends"; fi
done

# Who starts a run with a signal ignored, as nohup does, means it.
for signal in INT TERM; do
    rm -rf ignored ignored.jsonl
    last="trap '' $signal; comet train, kill -$signal"
    (
        trap '' $signal
        exec "$comet" train $settings --out ignored --log ignored.jsonl >.out 2>.err </dev/null
    ) &
    pid=$!
    for _ in $(seq 500); do
        grep -q '"event":"step"' ignored.jsonl 2>/dev/null && break
        sleep 0.01
    done
    kill -$signal $pid
    wait $pid
    code=$?
    if [ $code -eq 0 ]; then pass; else fault "exit $code"; fi
    same ignored/last.safetensors b/last.safetensors
done
