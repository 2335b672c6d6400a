# comet train with compressed activations.
# shellcheck shell=bash

needs_training
tiny_net
mkdir a
: >a/x
: >file

run 2 train $settings --compress fats
err_has "unknown way to compress 'fats'; did you mean fast?"
for share in 0 0% -1 120% 1.5 abc '1%%' ''; do run 2 train $settings --noise "$share"; done
for factor in 0 2 x; do run 2 train $settings --sigma $factor; done
for share in -1% 101% nan; do run 2 train $settings --overhead $share; done
run 2 train $settings --noise 1% --sigma 0.01
err_has '--noise and --sigma exclude each other'
for mode in off lossless; do
    run 2 train $settings --compress $mode --noise 1%
    err_has "has no effect with --compress $mode"
done
run 2 train $settings --compress fast --overhead 5%
err_has 'for --compress auto'
run 2 train $settings --compress off --checksums
run 3 train $settings --spill nowhere
err_has 'nowhere: --spill needs a folder'
run 2 train $settings --dump-step 2
err_has '--dump-step needs --dump-activations DIR'
run 2 train $settings --max-steps 2 --dump-activations beyond --dump-step 9
err_has '--dump-step 9 is after --max-steps 2'
if [ ! -e beyond ]; then pass; else fault "a folder was made for nothing"; fi
run 1 train $settings --dump-activations a
err_has 'a is not empty; -f adds files to it'
run 3 train $settings --dump-activations file
for mode in off lossless fast dense auto; do
    run 0 train $settings --compress $mode --max-steps 3 --log $mode.jsonl --out run-$mode
    out_has "compression $mode"
    if tail -1 $mode.jsonl | grep -q "\"compress\":\"$mode\""; then pass; else fault "the log's end lacks $mode"; fi
done
same run-lossless/last.safetensors run-off/last.safetensors
has auto.jsonl '"event":"start".*"n_epochs":1,"n_steps":3[,}]'
run 0 train $settings --max-steps 2 --noise 0.5% --overhead 10% --checksums --json
run 0 train $settings --max-steps 2 --sigma 0.01 --compress dense --spill . --json
err_has 'with compression dense: a peak of [0-9]* MiB is expected, .* are allowed (.*), nothing need be spilled'
# Every line of an assessment has all its keys, once there is one.
for key in step layer what eb R sigma_target sigma_measured at_limit sigma_ratio level predictor ratio bytes; do
    if grep '"event":"assess"' fast.jsonl | grep -v "\"$key\":"; then fault "an assessment lacks $key"; else pass; fi
done
run 0 train $settings --max-steps 3 --dump-activations dumped --dump-step 2
present dumped
