# comet train: how convolutions are computed, by rule, direct or as a trial chooses. Its outcome is not known here, but it is in the
# checkpoint, and that is what a run goes on with.
# shellcheck shell=bash

needs_training
wide_net
wide="--net wide.txt --data synthetic --images 160 --classes 10 --batch 16 --seed 3 -j 1"
chosen() { sed -n 's/.*"convolution_choices":"\([^"]*\)".*/\1/p' "$1" | head -1; }

# By rule without a word; the trial is told, logged, and kept.
run 0 train $wide --max-steps 2 --out ruled --log ruled.jsonl
err_lacks 'convolutions'
has ruled.jsonl '"event":"start".*"convolutions":"rule",'
lacks ruled/state.json 'convolution_choices'
run 0 train $wide --epochs 2 --save-steps 13 --convolutions timed --out whole --log whole.jsonl
err_has 'convolutions: [0-3] of 3 passes by Winograd, [0-3] not as the rule says (trial of [0-9.]* s)$'
has whole.jsonl '"event":"start".*"convolutions":"timed","convolution_choices":"conv2 [a-z]* [a-z]* [a-z]*",'
has whole/state.json '"convolutions":"timed"'
if [ "$(chosen whole.jsonl)" = "$(chosen whole/state.json)" ]; then pass; else fault "the log and state.json differ"; fi

# From a checkpoint in the middle: no second trial, the same choices, the same bits. --convolutions may be left out.
mkdir resumed left && cp whole/previous.safetensors resumed/last.safetensors && cp whole/previous.safetensors left/last.safetensors
run 0 train $wide --epochs 2 --save-steps 13 --convolutions timed --out resumed --resume --log resumed.jsonl
err_has 'going on from resumed at step'
err_lacks 'trial'
err_lacks 'not as before'
if [ "$(chosen whole.jsonl)" = "$(chosen resumed.jsonl)" ]; then pass; else fault "other choices"; fi
same resumed/last.safetensors whole/last.safetensors
run 0 train $wide --epochs 2 --save-steps 13 --out left --resume
err_lacks 'trial'
same left/last.safetensors whole/last.safetensors

# Killed in the middle of its steps, and continued.
"$comet" train $wide --epochs 40 --save-steps 3 --convolutions timed --out killed >.out 2>.err </dev/null &
for _ in $(seq 200); do
    [ -e killed/previous.safetensors ] && break
    sleep 0.05
done
kill -9 $! 2>/dev/null
wait $! 2>/dev/null
kept=$(chosen killed/state.json)
run 0 train $wide --epochs 40 --max-steps 400 --out killed --resume --log killed.jsonl
err_lacks 'trial'
if [ -n "$kept" ] && [ "$kept" = "$(chosen killed.jsonl)" ]; then pass; else fault "other choices after a kill"; fi

# A run by rule that goes on timed has a trial; one that goes on by rule forgets the choices.
run 0 train $wide --max-steps 3 --convolutions timed --out ruled --resume
err_has 'passes by Winograd'
err_has 'not as before: number of steps, convolutions;'
run 0 train $wide --max-steps 4 --convolutions rule --out ruled --resume
err_has 'not as before: number of steps, convolutions;'
lacks ruled/state.json 'convolution_choices'

# The choices of another net.
sed 's/conv2/second/' wide.txt >renamed.txt
run 3 train ${wide/wide.txt/renamed.txt} --epochs 2 --out resumed --resume
err_has 'resumed/last.safetensors: its choices of convolutions name conv2, which the net wide does not have there'

# A net without such convolutions, plans and measurements.
sed 's/kernel=3 pad=1/kernel=5 pad=2/' wide.txt >five.txt
run 0 train ${wide/wide.txt/five.txt} --max-steps 2 --convolutions timed
err_has 'convolutions: there is nothing to choose'
run 0 plan --net wide.txt --batch 8 --convolutions timed -j 1
run 0 bench train --net wide.txt --batch 8 --convolutions rule,timed,direct --steps 2 --warm 1 --turns --json -j 1
if [ "$(grep -c '"convolutions":"\(rule\|timed\|direct\)"' .out)" -eq 3 ]; then pass; else fault "not three rows"; fi
if [ "$(grep -c 'trial of' .err)" -eq 1 ]; then pass; else fault "not one trial"; fi
run 0 bench train --net wide.txt --batch 8 --convolutions direct --steps 1 --warm 0 --in-process -j 1
out_has '^wide  *8  *off  *direct '

run 2 train $wide --convolutions fastest
err_has "option --convolutions: unknown choice of convolutions 'fastest'; choose rule, timed or direct"
run 2 bench train --net wide.txt --convolutions rule,
run 2 bench train --net wide.txt --convolutions rule,timed,direct --compress off,fast,dense
err_has 'make 9 rows; at most 8 are measured'
run 2 plan --net wide.txt --convolutions
run 2 train $wide --no-winograd
err_has "unknown option '--no-winograd'; did you mean --convolutions?"
