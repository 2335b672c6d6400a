# comet train: a run and the same bits again, standard output closed, a loss that is not finite, early stop.
# shellcheck shell=bash

needs_training
tiny_net

# ---- a run, and the same bits again ----

run 0 train $settings --out a --log a.jsonl
out_has '^memory for batch 20$'
out_has '^  total  '
out_has '^epoch 3/3 '
out_has '^peak memory '
present a/last.safetensors
present a/previous.safetensors
present a/best.safetensors
present a/state.json
for key in top1 top5 loss images_per_s epochs seconds peak_rss_bytes weights_bytes saved_reference_bytes saved_bytes transient_bytes; do
    if tail -1 a.jsonl | grep -q "\"event\":\"end\".*\"$key\":[0-9]"; then pass; else fault "the log's end lacks $key"; fi
done
for key in compress ratio conv_ratio codec_seconds codec_share sigma_ratio_min sigma_ratio_max spilled_bytes; do
    if tail -1 a.jsonl | grep -q "\"event\":\"end\".*\"$key\":"; then pass; else fault "the log's end lacks $key"; fi
    if grep '"event":"epoch"' a.jsonl | tail -1 | grep -q "\"$key\":"; then pass; else fault "the log's epochs lack $key"; fi
done
out_has '^saved activations .* in a framework that keeps everything, .* raw here, .* compressed$'
out_has '^compression auto: .* x less than everything at the run.s peak, .* x in the last step; coding took .* % of the time$'
has a.jsonl '"event":"start".*"compress":"auto"'
for event in start step epoch checkpoint; do has a.jsonl "\"event\":\"$event\""; done
if grep -q '"epoch".*nan' a.jsonl; then fault "the log has nan"; else pass; fi
run 0 train $settings --out b
same a/last.safetensors b/last.safetensors
same a/best.safetensors b/best.safetensors
run 0 train $settings --out c --loader-threads 1 --save-steps 7
same a/last.safetensors c/last.safetensors
# The depth of the queue changes memory, and no bits.
run 0 train $settings --out c -f --queue 1 --json
shallow=$(sed 's/.*"data_bytes":\([0-9]*\).*/\1/' .out)
same a/last.safetensors c/last.safetensors
run 0 train $settings --out c -f --queue 9 --json
deep=$(sed 's/.*"data_bytes":\([0-9]*\).*/\1/' .out)
same a/last.safetensors c/last.safetensors
if [ "$deep" -gt "$((5 * shallow))" ]; then pass; else fault "data of $shallow bytes with a queue of 1, $deep with 9"; fi
for queue in 0 -1 4097 deep; do run 2 train $settings --queue $queue; done
err_has "option --queue: .*nor is it 'auto'"
run 0 train ${settings/--seed 3/--seed 4} --out c -f
differ a/last.safetensors c/last.safetensors
run 0 train $settings --json
out_has '^{"event":"end","top1":'
run 0 train $settings --max-steps 25 --out c -f
out_has '^step 25 '
has c/state.json '"step":"25"'
# Steps are thirds of the run, also where it ends inside an epoch (of 20 updates).
run 0 train $settings --schedule step --rate 0.02 --max-steps 25 --log thirds.jsonl
for at in 9:0.02 10:0.002 17:0.002 18:0.0002 25:0.0002; do
    if grep '"event":"step"' thirds.jsonl | grep "\"step\":${at%:*}," | grep -q "\"rate\":${at#*:}0*[1-9]*[,}]"; then pass; else fault "step ${at%:*} has not rate ${at#*:}"; fi
done
# Two threads: the same bits again, and within rounding of one thread.
run 0 train ${settings/-j 1/-j 2} --max-steps 6 --out two
run 0 train ${settings/-j 1/-j 2} --max-steps 6 --out two2 --json
same two/last.safetensors two2/last.safetensors
loss2=$(sed 's/.*"train_loss":\([0-9.e-]*\).*/\1/' .out)
run 0 train $settings --max-steps 6 --json
loss1=$(sed 's/.*"train_loss":\([0-9.e-]*\).*/\1/' .out)
if awk "BEGIN { d = ($loss1 - $loss2) / $loss1; exit !(d < 1e-4 && d > -1e-4) }"; then pass; else fault "one thread $loss1, two $loss2"; fi
# A run is neither overwritten nor mixed by accident.
run 1 train $settings --out a
err_has 'a already holds a run; --resume continues it, -f replaces it'
run 1 train $settings --log a.jsonl
err_has 'a.jsonl already exists; -f overwrites it'
cp a/last.safetensors whole.safetensors
run 0 train $settings --out a --resume
err_has 'the run in a is finished: it has done 60 steps, and 60 were asked for'
out_lacks memory
same a/last.safetensors whole.safetensors

# ---- standard output is closed: nothing of what is printed lands in a file of the run ----

shell 1 '"$comet" train $settings --max-steps 3 --out closed >&-'
err_has '^comet [a-z]*: standard output: '
if [ -e closed/.lock ] && [ ! -s closed/.lock ]; then pass; else fault "closed/.lock is missing or not empty"; fi
run 0 train $settings --max-steps 3 --out open
for file in last.safetensors best.safetensors; do same closed/$file open/$file; done
present closed/state.json
shell 1 '"$comet" train $settings --max-steps 3 --out closed --log closed.jsonl -f >&-'
if grep -qv '^{.*}$' closed.jsonl; then fault "the log has more than its lines"; else pass; fi
shell 0 '"$comet" train $settings --max-steps 3 --out closed -f 2>&-'
same closed/last.safetensors open/last.safetensors
if [ ! -s closed/.lock ]; then pass; else fault "closed/.lock is not empty"; fi

# ---- the loss is no longer finite ----

run 0 train $settings --out nan --max-steps 40
cp nan/last.safetensors nan.before
run 1 train $settings --out nan --resume --rate 1e6 --schedule constant --momentum 0 --log nan.jsonl
err_has 'the loss became -*\(nan\|inf\) at step [0-9]* (epoch [0-9]*, batch [0-9]*), first in layer '
err_has 'nan/last.safetensors holds step 40'
same nan/last.safetensors nan.before
if tail -1 nan.jsonl | grep -q '"event":"error".*the loss became'; then pass; else fault "the log does not end with the error"; fi

# ---- early stop ----

run 0 train $settings --epochs 9 --rate 0 --patience 2 --out early
err_has 'early stop: no better top-1 than .* for 2 epochs'
if [ "$(grep -c '^epoch' .out)" -lt 9 ]; then pass; else fault "it did not stop early"; fi
cp early/last.safetensors early.before
run 0 train $settings --epochs 9 --rate 0 --patience 2 --out early --resume
out_lacks memory
same early/last.safetensors early.before
