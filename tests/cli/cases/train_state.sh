# comet train --optimiser-state: resumed with the same bits, converted with a note, counted, refused.
# shellcheck shell=bash

needs_training
tiny_net

for optimiser in sgd adamw; do
    for format in bf16 coded; do
        rm -rf whole cut
        run 0 train $settings --optimiser $optimiser --optimiser-state $format --out whole
        out_has "^optimiser  $optimiser,.* state $format$"
        run 0 train $settings --optimiser $optimiser --optimiser-state $format --max-steps 40 --save-steps 7 --out cut
        run 0 train $settings --optimiser $optimiser --optimiser-state $format --max-steps 40 --out once
        same cut/last.safetensors once/last.safetensors
        rm -rf once
        has whole/log.jsonl "\"optimiser_state\":\"$format\""
        has whole/state.json "\"optimiser_state\":\"$format\""
        has whole/config.json "\"optimiser-state\":	*\"$format\""
    done
done

# ---- cut after a step, gone on: the bits of a run that was not interrupted ----

rm -rf a b
run 0 train $settings --optimiser adamw --optimiser-state coded --save-steps 5 --out a
cp -r a b
cp b/previous.safetensors b/last.safetensors
run 0 train $settings --optimiser adamw --optimiser-state coded --save-steps 5 --out b --resume
same a/last.safetensors b/last.safetensors

# ---- another format ----

cp -r a c
cp c/previous.safetensors c/last.safetensors
run 0 train $settings --optimiser adamw --out c --resume
err_has "not as before: format of the optimiser's state"

# ---- sizes, and what is refused ----

run 0 plan --net tiny.txt -j 1 --batch 16 --optimiser-state coded --json
out_has '"optimiser_bytes":[1-9]'
run 0 train $settings --momentum 0 --compress off --optimiser-state coded
run 2 train $settings --optimiser-state f16
err_has "unknown format 'f16'"
