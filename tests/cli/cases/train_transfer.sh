# comet train --weights onto other classes and other nets, --freeze and --rate-of; comet plan --freeze.
# shellcheck shell=bash

needs_training
tiny_net
run 0 train $settings --out b
run 0 export b --last -o w.safetensors
sed 's/^fc = linear out=4/fc = linear out=6/' tiny.txt >six.txt
six="--net six.txt --data synthetic --images 400 --classes 6 --batch 20 --max-steps 3 --seed 3 -j 1"

# ---- another number of classes ----

run 0 train $six --weights w.safetensors --out six
err_has 'loaded 7 of 9 tensors from w.safetensors; begin anew: fc.weight, fc.bias (6 classes, the file has 4)$'
run 0 train $six --weights b --out folder
err_has 'loaded 7 of 9 tensors from b/best.safetensors; begin anew: fc.weight, fc.bias'
run 0 eval six --data synthetic --images 400 -j 1
# The head comes from the seed alone, the rest from the file.
run 0 train $six --rate 0 --weight-decay 0 --max-steps 1 --weights w.safetensors --out anew
run 0 train $six --rate 0 --weight-decay 0 --max-steps 1 --out seeded
for name in anew seeded; do run 0 export $name --last -o $name.safetensors; done
# elements FILE NAME: the bytes of a tensor.
elements() {
    local header range
    header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    range=$(sed -n "s/.*\"$2\":{[^}]*\"data_offsets\":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/p" "$1" | head -1)
    tail -c +$((8 + header + ${range% *} + 1)) "$1" | head -c $((${range#* } - ${range% *})) | od -An -tx1
}
for name in conv1.weight conv2.weight; do
    for file in w anew seeded; do elements $file.safetensors $name >$file.elements; done
    same anew.elements w.elements
    differ anew.elements seeded.elements
done
for file in anew seeded; do elements $file.safetensors fc.weight >$file.elements; done
if [ -s anew.elements ]; then pass; else fault "no elements were found"; fi
same anew.elements seeded.elements
# A resumed run has its own weights.
run 0 train $six --weights w.safetensors --out six --max-steps 6 --resume
err_lacks 'begin anew'
run 0 train --model cnn28 --data synthetic --classes 4 --images 40 --batch 8 --max-steps 1 -j 1 --out few
run 0 train --model cnn28 --data synthetic --images 40 --batch 8 --max-steps 1 -j 1 --weights few
err_has 'begin anew: .*\.weight, .*\.bias (10 classes, the file has 4)$'
# The search for a rate begins with the same weights.
run 0 train $six --rate find --weights w.safetensors --max-steps 2

# ---- another net ----

run 3 train ${settings/tiny.txt/other.txt} --max-steps 1 --weights w.safetensors
err_has 'another net: conv2.weight is 16 x 8 x 3 x 3 there, 12 x 8 x 3 x 3 in this net; partial loading takes what fits$'
run 3 train ${settings/tiny.txt/renamed.txt} --max-steps 1 --weights w.safetensors
err_has 'this net has no fc.weight; partial loading takes what fits$'
run 0 train ${settings/tiny.txt/renamed.txt} --max-steps 1 --weights w.safetensors --weights-partial
err_has 'loaded 7 of 9 tensors from w.safetensors; begin anew: head.weight, head.bias (4 classes, the file has none); left out: fc.weight, fc.bias$'
err_has 'begins anew: head.weight, 4 x 16; the file has none$'
err_has 'left out: fc.bias, 4; the net has none$'
run 3 train --model cnn28 --data synthetic --images 40 --batch 8 --max-steps 1 --weights w.safetensors --weights-partial
err_has 'w.safetensors: none of its tensors fits the net cnn28'
run 2 train $settings --weights-partial
err_has '--weights-partial needs --weights FILE'

# ---- frozen layers, rates of their own ----

frozen="$six --weights w.safetensors --freeze conv1,bn1 --rate-of fc=10x --max-steps 12"
run 0 train $frozen --out f
out_has '^frozen     conv1,bn1$'
out_has '^rates      fc=10x$'
has f/log.jsonl '"freeze":"conv1,bn1","rates":"fc=10x"'
run 0 report f
has report.html 'of their own: fc=10x, frozen: conv1,bn1'
for name in conv1.weight bn1.running_mean bn1.weight conv2.weight; do
    elements w.safetensors $name >w.elements
    elements f/last.safetensors $name >f.elements
    case $name in conv2.*) differ w.elements f.elements ;; *) same w.elements f.elements ;; esac
done
shell 1 'grep -q optimiser.momentum.conv1 f/last.safetensors'
shell 0 'grep -q optimiser.momentum.conv2 f/last.safetensors'
# Stopped and resumed: the same bits, with what is frozen kept from the checkpoint or given again.
for given in "" "--freeze conv1 --freeze bn1"; do
    rm -rf g
    run 0 train $frozen --out g --save-steps 5 --log g.jsonl -f
    rm g/last.safetensors # of step 12; the one before is of step 10
    run 0 train ${six/--max-steps 3/--max-steps 12} $given --out g --resume
    err_has 'going on from g at step 10 of 12'
    err_lacks 'not as before'
    same g/last.safetensors f/last.safetensors
done
run 3 train ${six/--max-steps 3/--max-steps 14} --freeze conv1 --out g --resume
err_has 'the run has other layers frozen than this checkpoint; give the same, or start a new run from its weights'
run 0 train ${six/--max-steps 3/--max-steps 14} --rate-of fc=5x --out g --resume
err_has 'not as before: rates of layers, number of steps;\|not as before: .*rates of layers'
# The head alone: saved activations are those of one layer.
run 0 train $six --weights w.safetensors --freeze '*' --freeze '!fc' --json
out_has '"saved_reference_bytes":1280,' # 20 images of 16 floats
run 0 train $six --freeze conv1
err_has 'what is frozen keeps random weights: --weights FILE begins with trained ones'
run 0 train $six --weights w.safetensors --freeze conv1 --rate-of conv2=0.001 --rate 0.01
run 2 train $six --freeze cnv1
err_has "'cnv1' names no parameter of the net tiny; did you mean conv1?"
run 2 train $six --freeze '*'
err_has 'all parameters of the net tiny are frozen: nothing is left to train'
run 2 train $six --rate-of fc=0x
err_has "the rate 'fc=0x' is 0: parameters that are not to be trained are frozen instead, with --freeze"
run 2 train $six --freeze ''
err_has 'the value is empty'
run 2 plan --net six.txt --freeze cnv1
err_has 'did you mean conv1?'
run 0 plan --net six.txt --batch 20 --freeze conv1,bn1,conv2 --json -j 1
out_has '"compress":"off","batch":20,.*"saved_reference_bytes":1280,'

# ---- forecast and measured ----

# The forecast of plan is within a tenth of the peak that a run has, and far below that of a run with nothing frozen.
if memory_limits; then # sanitizers take memory of their own
    part="--model resnet18 --image 64 --classes 4 --batch 64 -j 2 --freeze conv1,bn1,layer1,layer2"
    run 0 plan $part --json
    forecast=$(sed -n 's/.*"compress":"off".*"peak_bytes":\([0-9]*\),.*/\1/p' .out)
    run 0 train $part --data synthetic --images 128 --max-steps 2 --compress off --json
    measured=$(sed -n 's/.*"peak_rss_bytes":\([0-9]*\),.*/\1/p' .out)
    if [ $((10 * forecast)) -ge $((9 * measured)) ] && [ $((10 * forecast)) -le $((11 * measured)) ]; then
        pass
    else
        fault "a forecast of $forecast bytes, and $measured were measured"
    fi
    run 0 train ${part%--freeze*} --data synthetic --images 128 --max-steps 2 --compress off --json
    whole=$(sed -n 's/.*"peak_rss_bytes":\([0-9]*\),.*/\1/p' .out)
    if [ $((10 * measured)) -lt $((9 * whole)) ]; then pass; else fault "frozen $measured bytes, whole $whole"; fi
fi
