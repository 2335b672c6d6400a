# comet train: every option reaches the setting that it names. state.json has the settings of a run; numbers of the command line
# that are kept as floats have seven digits in common with it.
# shellcheck shell=bash

needs_training
tiny_net
base="--net tiny.txt ${data/400/40} --batch 20 --max-steps 1 -j 1"

# setting FOLDER NAME VALUE: the value that state.json of the run has.
setting() { has "$1/state.json" "\"$2\":\"*$3[\",}]"; }
# float FOLDER NAME DIGITS: the same for a float, by its first digits.
float() { has "$1/state.json" "\"$2\":$3[0-9]*[,}]"; }

# ---- given ----

run 0 train $base --accumulate 2 --seed 5 --momentum 0.8 --nesterov --weight-decay 0.003 --clip 5 --smoothing 0.1 \
    --schedule cosine --rate 0.07 --warmup 1.5 --no-augment --convolutions direct --no-recompute --compress fast --noise 2% --out given
setting given batch 20
setting given accumulate 2
setting given seed 5
setting given threads 1
setting given n_steps 1
setting given optimiser sgd
setting given nesterov true
float given momentum 0.800000
float given weight_decay 0.00300000
setting given clip_norm 5
float given label_smoothing 0.100000
setting given schedule cosine
setting given rate 0.07
setting given warmup_epochs 1.5
setting given augment false
setting given convolutions direct
setting given recompute false
setting given compress bounded
setting given noise 0.02
setting given sigma 0

run 0 train $base --optimiser adamw --schedule step --epochs 6 --max-steps 12 --weight-decay 0.5 --rate 0.25 \
    --sigma 0.5% --out adamw
setting adamw optimiser adamw
setting adamw schedule step
setting adamw weight_decay 0.5
setting adamw rate 0.25
setting adamw every 2
setting adamw noise 0
float adamw sigma 0.005

# ---- defaults ----

run 0 train $base --out plain
setting plain accumulate 1
setting plain seed 0
setting plain optimiser sgd
setting plain nesterov false
float plain momentum 0.8999999
float plain weight_decay 0.000500000
setting plain clip_norm 0
setting plain label_smoothing 0
setting plain schedule onecycle
setting plain warmup_epochs 0
setting plain augment true
setting plain convolutions rule
setting plain recompute true
setting plain compress bounded
run 0 train $base --optimiser adamw --compress off --out decay
float decay weight_decay 0.0099999
setting decay beta1 0.9
setting decay beta2 0.999
setting decay compress exact
for schedule in constant step cosine onecycle; do
    run 0 train $base --schedule $schedule --out schedule -f
    setting schedule schedule $schedule
done
# A default rate has a warm-up of a twentieth of the run, 3 epochs here.
run 0 train ${base/--max-steps 1/--epochs 3} --schedule cosine --out warm
float warm warmup_epochs 0.15
