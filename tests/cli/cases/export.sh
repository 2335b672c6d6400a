# comet export and comet import, to and from PyTorch too.
# shellcheck shell=bash

needs_training
tiny_net
run 0 train $settings --out b
run 0 eval b --last --data synthetic --images 400 --json -j 1
top1=$(sed 's/.*"top1":\([0-9.]*\).*/\1/' .out)

run 0 export b --last -o w.safetensors
run 1 export b -o w.safetensors
err_has 'w.safetensors already exists'
run 2 export b -o w.bin
err_has 'must end in .safetensors, .pt or .onnx'
run 0 export b --last -o direct.pt
if command -v unzip >/dev/null; then shell 0 'unzip -tq direct.pt'; fi
run 3 export nothere -o x.safetensors
run 3 export . -o x.safetensors
err_has 'no checkpoint is in this folder'
shell 1 'grep -q optimiser.momentum w.safetensors'
run 0 eval w.safetensors --data synthetic --images 400 --json -j 1
out_has "\"top1\":$top1,"
# same_weights A B: the same bytes of tensors; the header may differ, since .pt files do not say how images are prepared.
same_weights() {
    for file in "$1" "$2"; do
        local header
        header=$(od -An -tu8 -N8 "$file" | tr -d ' ')
        tail -c +$((9 + header)) "$file" >".$(basename "$file")"
    done
    same ".$(basename "$1")" ".$(basename "$2")"
}
run 0 import w.safetensors --net tiny.txt -o again.safetensors
same w.safetensors again.safetensors
run 3 import w.safetensors --net other.txt -o no.safetensors
err_has 'w.safetensors: it is of another net: conv2.weight is 16 x 8 x 3 x 3 there'
absent no.safetensors
run 2 import w.safetensors -o no.safetensors
err_has 'a net is missing: give --model'
# Weights for another number of classes: what to do is said.
run 0 train --model cnn28 --data synthetic --classes 4 --images 40 --batch 8 --max-steps 1 -j 1 --out few
run 0 export few -o few.safetensors
run 3 import few.safetensors --model cnn28 -o no.safetensors
err_has 'few.safetensors: it is for 4 classes, this net for 10: .*\.weight is 4 x [0-9]* there, 10 x [0-9]* in this net; give --classes 4$'
absent no.safetensors
run 0 import few.safetensors --model cnn28 --classes 4 -o four.safetensors
run 3 eval few.safetensors --model cnn28 --data synthetic --images 40 -j 1
err_has 'it is for 4 classes, this net for 10: .*; give --classes 4$'
sed 's/^fc = linear out=4/fc = linear out=6/' tiny.txt >six.txt
run 3 import w.safetensors --net six.txt -o no.safetensors
err_has 'it is for 4 classes, this net for 6: fc.weight is 4 x 16 there, 6 x 16 in this net; change the net in six.txt to have 4 outputs$'
run 0 train $settings --weights w.safetensors --max-steps 1 --rate 0
run 0 train $settings --weights b --max-steps 1 --rate 0

# ---- ONNX; tests/train/onnx_files looks into such files ----

run 0 export b --last -o net.onnx
err_has 'net.onnx: tiny with the weights of b/last.safetensors, for images of 3 x 16 x 16'
shell 0 'grep -aq comet.input net.onnx' # as the checkpoint says
run 1 export b --last -o net.onnx
err_has 'net.onnx already exists'
run 0 export b --last --onnx -o net.bin
same net.onnx net.bin
run 2 export direct.pt -o plain.onnx
err_has 'it does not say which net it belongs to; give --model or --net'
run 0 export direct.pt --net tiny.txt -o plain.onnx
run 3 export direct.pt --net other.txt -o no.onnx
err_has 'direct.pt: it is of another net: conv2.weight is 16 x 8 x 3 x 3 there'
run 3 export nothere -o no.onnx
run 2 export b --model cnn28 -o no.pt
err_has '--model, --net, --classes and --image are for ONNX'
run 2 export b --image 32 -o no.onnx
err_has '--classes and --image are for a built-in net'
run 0 export few.safetensors --model cnn28 --classes 4 -o few.onnx
run 3 export few.safetensors --model cnn28 -o no.onnx
err_has 'it is for 4 classes, this net for 10: .*; give --classes 4$'
absent no.onnx

# ---- files of torch.save, which need no PyTorch ----

run 0 import direct.pt --net tiny.txt -o again.safetensors -f
same_weights w.safetensors again.safetensors
cp direct.pt weights.bin # the content decides, not the name
run 0 import weights.bin --net tiny.txt -o again.safetensors -f
same_weights w.safetensors again.safetensors
run 0 export direct.pt -o once_more.pt
same direct.pt once_more.pt
run 0 eval direct.pt --net tiny.txt --data synthetic --images 400 --json -j 1
out_has "\"top1\":$top1,"
run 2 eval direct.pt --data synthetic --images 400 -j 1
err_has 'it does not say which net it belongs to; give --model or --net'
run 0 train $settings --weights direct.pt --max-steps 1 --rate 0
run 3 import direct.pt --net other.txt -o no.safetensors
err_has 'direct.pt: it is of another net: conv2.weight is 16 x 8 x 3 x 3 there'
head -c 3000 direct.pt >short.pt
run 3 import short.pt --net tiny.txt -o no.safetensors
err_has 'short.pt: damaged zip archive: it is cut short'
if command -v "$python" >/dev/null; then
    cat >hostile.py <<'END'
import pickle, zipfile
class Call:
    def __init__(self, what, *given):
        self.what, self.given = what, given
    def __reduce__(self):
        return self.what, self.given
def save(name, content):
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content, 2))
import os
save("hostile.pt", {"state_dict": Call(os.system, "touch ran")})
save("wrapped.pt", {"epoch": 1})
END
    shell 0 '"$python" hostile.py'
    run 3 import hostile.pt --net tiny.txt -o no.safetensors
    err_has 'hostile.pt: refused: its pickle has the global posix.system at byte [0-9]*, which no state dict has'
    run 3 eval hostile.pt --net tiny.txt --data synthetic --images 40 -j 1
    err_has 'the global posix.system'
    run 3 train $settings --weights hostile.pt
    err_has 'the global posix.system'
    absent ran
    run 3 import wrapped.pt --net tiny.txt -o no.safetensors
    err_has 'wrapped.pt: it holds no state dict'
fi
absent no.safetensors

# ---- PyTorch, where it is ----

if "$python" -c 'import torch' 2>/dev/null; then
    shell 0 '"$python" -c "import torch; d = torch.load(\"direct.pt\"); assert d[\"fc.weight\"].shape == (4, 16); torch.save(d, \"w.pt\")"'
    run 0 import w.pt --net tiny.txt -o again.safetensors -f
    same_weights w.safetensors again.safetensors
fi
run 2 import w.safetensors --net tiny.txt -o again.pt
err_has 'again.pt: the name must end in .safetensors'
