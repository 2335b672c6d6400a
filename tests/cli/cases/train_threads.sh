# comet train: how many threads a run has.
# shellcheck shell=bash

needs_training
tiny_net
auto=${settings% -j 1}
threads() { sed -n 's/.*"event":"start".*"threads":\([0-9]*\),.*/\1/p' "$1"; }

# -j means that number, also where there are fewer cores, and 0 means one per core.
run 0 train $auto -j 3 --max-steps 2 --out three --log three.jsonl
has three.jsonl '"event":"start".*"threads":3,'
err_lacks 'other programs'
run 0 train $auto -j 0 --max-steps 2 --log all.jsonl
has all.jsonl "\"event\":\"start\".*\"threads\":$(nproc),"
# A short run is not timed.
run 0 train $auto --max-steps 2 --log short.jsonl
has short.jsonl "\"event\":\"start\".*\"threads\":$(nproc),"
err_lacks 'other programs'
# A run that goes on keeps its number; -j changes it, and a note says so.
run 0 train $auto --max-steps 4 --out three --resume --log on.jsonl
has on.jsonl '"event":"start".*"threads":3,'
err_lacks 'not as before: threads'
run 0 train $auto -j 2 --max-steps 6 --out three --resume --log changed.jsonl
has changed.jsonl '"event":"start".*"threads":2,'
err_has 'not as before:.*threads'

# On a busy machine some number is chosen; the run has the same bits as one that was given this number.
for i in $(seq "$(($(nproc) + 1))"); do
    timeout 60 sh -c 'while :; do :; done' &
done
run 0 train $auto --epochs 4 --out chosen --log chosen.jsonl
err_has 'other programs are busy: [0-9]* threads*, the fastest now ([0-9]* images/s.*); for the same bits again use -j [0-9]*$'
kill $(jobs -p) 2>/dev/null
wait
run 0 train $auto --epochs 4 -j "$(threads chosen.jsonl)" --out given
err_lacks 'other programs'
run 0 export chosen -o chosen.safetensors
run 0 export given -o given.safetensors
same chosen.safetensors given.safetensors
