# comet train: default rates, --rate find, runs that learn nothing.
# shellcheck shell=bash

needs_training
tiny_net

# By default they follow the images of an update, and rise at first.
run 0 train $settings --epochs 6 --log rate.jsonl
err_has 'rate 0.0078125, the default for 120 updates of 20 images; --rate sets another'
has rate.jsonl '"event":"start".*"rate":0.0078125,'
run 0 train $settings --max-steps 50
err_has 'rate 0.00390625, the default for 50 updates of 20 images; --rate sets another'
run 0 train $settings --max-steps 10 --accumulate 4
err_has 'rate 0.003125, the default for 10 updates of 80 images'
run 0 train $settings --schedule constant --log warm.jsonl
has warm.jsonl '"event":"step","step":1,.*"rate":0.00156[0-9]*,'
has warm.jsonl '"event":"step","step":4,.*"rate":0.0046875,'
run 0 train $settings --schedule constant --warmup 0 --log cold.jsonl
has cold.jsonl '"event":"step","step":1,.*"rate":0.0046875,'
run 0 train $settings --schedule constant --rate 0.01 --max-steps 2 --log given.jsonl
has given.jsonl '"event":"step","step":1,.*"rate":0.01,'
err_lacks 'the default for'
# A run that goes on keeps its rate where none is given.
run 0 train $settings --rate 0.03 --max-steps 4 --out kept
rm kept/state.json # for people alone
run 0 train $settings --max-steps 5 --out kept --resume --log kept.jsonl
has kept.jsonl '"event":"start".*"rate":0.03,'
err_lacks 'rate'
# The range test leaves no trace in the run: the same bits as with the rate that it found.
run 0 train $settings --batch 100 --rate find --out found --log found.jsonl
err_has 'rate [0-9.e-]*, found in [0-9]* steps: the loss fell from [0-9.]* to [0-9.]*, lowest at a rate of'
has found.jsonl '"event":"rate","step":20,'
rate=$(sed -n 's/.*"event":"start".*"rate":\([0-9.e-]*\),.*/\1/p' found.jsonl)
run 0 train $settings --batch 100 --rate "$rate" --out given
run 0 export found -o found.safetensors
run 0 export given -o given.safetensors
same found.safetensors given.safetensors
run 0 train $settings --batch 100 --rate find --out found --resume
err_lacks 'found in'
err_has 'the resumed run keeps its rate; --rate find is for new runs'
run 2 train $settings --rate fnd
err_has ", nor 'find'"
# A run that learns nothing says so, and what to try.
run 1 train $settings --rate 20 --out nothing
err_has 'the training loss never fell below its start: [0-9.]* in the first 10 steps, [0-9.]* at its lowest since; try a lower rate (--rate 2), --rate find,.*; its checkpoint is in nothing'
present nothing/last.safetensors
