# comet train --precision: what a machine without the instructions gets, what a run says of itself, and runs that go on in the same or
# in another precision.
# shellcheck shell=bash

needs_training
wide_net
wide="--net wide.txt --data synthetic --images 160 --classes 10 --batch 16 --seed 3 -j 1"

# Without the instructions: refused, or f32 with auto.
COMET_MAX_ISA=avx2 run 3 train $wide --max-steps 2 --precision bf16
err_has 'precision bf16 needs the instructions AVX512_BF16 or AMX'
err_has 'oneDNN would emulate them'
COMET_MAX_ISA=avx2 run 0 train $wide --max-steps 2 --precision auto --log auto.jsonl
has auto.jsonl '"event":"start".*"precision":"f32"'
run 2 train $wide --precision half
err_has "f32, bf16, bf16-forced or auto"
COMET_MAX_ISA=avx2 run 0 train $wide --max-steps 2 --precision bf16-forced
run 0 train $wide --max-steps 2 --log plain.jsonl
has plain.jsonl '"event":"start".*"precision":"f32"'

"$comet" train $wide --max-steps 1 --precision bf16 >.out 2>.err </dev/null || return 0 # the rest needs them

run 0 train $wide --epochs 2 --save-steps 13 --precision bf16 --compress fast --out whole --log whole.jsonl
has whole.jsonl '"event":"start".*"precision":"bf16"'
has whole/state.json '"precision":"bf16"'

# Continued without saying so again: the same bits.
mkdir resumed && cp whole/previous.safetensors resumed/last.safetensors
run 0 train $wide --epochs 2 --save-steps 13 --compress fast --out resumed --resume
err_lacks 'not as before'
same resumed/last.safetensors whole/last.safetensors

# In the other precision: told.
mkdir other && cp whole/previous.safetensors other/last.safetensors
run 0 train $wide --epochs 2 --compress fast --precision f32 --out other --resume
err_has 'not as before: precision'
has other/state.json '"precision":"f32"'

# Where the instructions are missing a run in bf16 does not go on as if nothing were.
mkdir moved && cp whole/previous.safetensors moved/last.safetensors
COMET_MAX_ISA=avx2 run 3 train $wide --epochs 2 --compress fast --out moved --resume
err_has 'precision bf16 needs the instructions'

# Killed, and continued.
"$comet" train $wide --epochs 40 --save-steps 3 --precision bf16 --out killed >.out 2>.err </dev/null &
for _ in $(seq 200); do
    [ -e killed/previous.safetensors ] && break
    sleep 0.05
done
kill -9 $! 2>/dev/null
wait $! 2>/dev/null
run 0 train $wide --epochs 40 --max-steps 60 --save-steps 3 --out killed --resume --log killed.jsonl
has killed.jsonl '"event":"start".*"precision":"bf16"'

# Weights of such a run are floats: evaluated in either precision.
run 0 eval whole --data synthetic --images 160 --classes 10
run 0 eval whole --data synthetic --images 160 --classes 10 --precision bf16
