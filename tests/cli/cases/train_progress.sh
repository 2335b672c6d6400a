# Progress of comet train on a terminal and in a file.
# shellcheck shell=bash

needs_training
tiny_net

# ---- the progress line on a terminal ----

if command -v script >/dev/null; then
    shell 0 'script -qec "\"$comet\" train $settings" /dev/null >.terminal'
    if grep -q 'loss [0-9.]*  top-1 .* images/s  peak .* left' .terminal; then pass; else fault "no progress line on a terminal"; fi
fi

# ---- and lines of it in a file, the first after ten seconds ----

last="comet train, its progress in a file"
"$comet" train --net tiny.txt $data --batch 20 --epochs 1000000 -j 1 --json >.out 2>.err </dev/null &
pid=$!
for _ in $(seq 600); do
    grep -q 'images/s' .err && break
    sleep 0.1
done
kill -TERM $pid
wait $pid
err_has '^epoch [0-9]*/1000000  step .* loss [0-9.]*  top-1 .* images/s  peak .* left$'
