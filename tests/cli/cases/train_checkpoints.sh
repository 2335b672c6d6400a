# Checkpoints that are damaged, of another net, of other settings, or that find no room on the disk.
# shellcheck shell=bash

needs_training
tiny_net
run 0 train $settings --out a
cp a/last.safetensors whole.safetensors

# ---- damaged checkpoints ----

run 0 train $settings --max-steps 40 --save-steps 10 --out cut
rm -rf half && cp -r cut half
cut_short half/last.safetensors 100
run 0 train $settings --out half --resume
err_has 'the newest checkpoint cannot be used (half/last.safetensors: cut short'
err_has 'going on from half at step'
present half/damaged.safetensors
rm -rf half && cp -r cut half
printf 'x' | dd of=half/last.safetensors bs=1 seek=$(($(size_of half/last.safetensors) - 500)) conv=notrunc status=none
run 0 train $settings --out half --resume
err_has 'half/last.safetensors: damaged: its checksum is'
rm -rf half && cp -r cut half
cut_short half/last.safetensors 1
cut_short half/previous.safetensors 1
run 3 train $settings --out half --resume
err_has 'half/previous.safetensors: cut short'
rm half/last.safetensors half/previous.safetensors
run 0 train $settings --out half --resume
same half/last.safetensors whole.safetensors

# ---- a checkpoint of another net, other settings ----

run 3 train ${settings/tiny.txt/other.txt} --out a --resume
err_has 'another net: conv2.weight is 16 x 8 x 3 x 3 there, 12 x 8 x 3 x 3 in this net'
run 3 train ${settings/tiny.txt/renamed.txt} --out a --resume
err_has 'another net: it has no head.weight'
run 3 train ${settings/tiny.txt/silu.txt} --out a --resume
err_has 'the run has another net than this checkpoint'
run 3 train ${settings/--images 400/--images 401} --out a --resume
err_has 'the run has other data than this checkpoint'
run 3 train ${settings/--batch 20/--batch 10} --out a --resume
err_has 'batch was 20 and is now 10'
run 3 train $settings --optimiser adamw --out a --resume
err_has 'the run has the optimiser adamw, this checkpoint sgd; give the same'
run 0 train ${settings/--epochs 3/--epochs 4} --rate 0.05 --out a --resume
err_has 'not as before: number of steps, rate; the results are not those of a run that was never interrupted'
run 0 train $settings --convolutions direct --no-recompute --out a --resume
err_has 'not as before: number of steps, convolutions, recompute\(, bounds\)\?;' # bounds: where Winograd exists, other tensors lie elsewhere
run 0 train $settings --max-steps 5 --out rule
run 0 train $settings --max-steps 6 --out rule --resume --compress dense
err_has 'not as before: number of steps;'
run 0 train $settings --max-steps 6 --out rule --resume --noise 2%
err_has 'not as before: noise, bounds;'
run 0 train $settings --max-steps 6 --out rule --resume --compress off
err_has 'not as before: compress, noise, window;'
# Another instruction set has other bits, and so has another version of oneDNN.
if [ "${COMET_MAX_ISA:-}" != reference ]; then
    COMET_MAX_ISA=reference run 0 train $settings --max-steps 2 --out capped
    run 0 train $settings --max-steps 3 --out capped --resume
    err_has 'not as before: number of steps, instruction set'
    has capped/state.json '"onednn":"[23]\.[0-9]*\.[0-9]*"'
fi
run 2 train $settings --resume
err_has '--resume needs --out DIR'
run 0 train $settings --max-steps 2 --out fresh --resume
err_has 'fresh holds no run yet: this is a new one'
# A rate that throws the net far off: bounds are withdrawn, and that is told.
run 0 train $settings --schedule constant --rate 0.01 --max-steps 20 --out spike
shell 0 '"$comet" train $settings --schedule constant --rate 20 --max-steps 24 --out spike --resume --log spike.jsonl || true' # may diverge
err_has 'step 2[0-9]: the loss of a batch was far above that of the steps before (is the rate too high.); bounds are narrow until they are known again'
if [ "$(grep -c '"event":"note".*far above' spike.jsonl)" -eq 1 ]; then pass; else fault "not told once"; fi

# ---- a full disk ----

rm -rf full && cp -r cut full
cp full/last.safetensors full.before
shell 1 'ulimit -f 4; "$comet" train $settings --out full --resume'
err_has 'the checkpoint of the last step was not written to full'
err_has 'the checkpoint of step [0-9]* was not written: full/last.safetensors: could not be written: File too large; training continues'
err_has 'training continues, and the checkpoint before it is intact'
shell 1 'ulimit -f 4; "$comet" train $settings --out none'
err_has 'was not written: .*; training continues, without a checkpoint so far'
err_lacks 'is intact'
same full/last.safetensors full.before
shell 1 'ls -A full | grep "^\.comet-"'
run 0 train $settings --out full --resume
if unshare -rm true 2>/dev/null && mkdir -p small && unshare -rm mount -t tmpfs -o size=64k none small 2>/dev/null; then
    shell 0 'unshare -rm sh -c "mount -t tmpfs -o size=32k none small && \"$comet\" train $settings --out small/run; ls small/run"'
    err_has 'No space left on device; training continues'
    out_has '^epoch 3/3 '
fi
