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
err_has 'must end in .safetensors or .pt'
run 0 export b --last -o direct.pt
if command -v unzip >/dev/null; then shell 0 'unzip -tq direct.pt'; fi
run 3 export nothere -o x.safetensors
run 3 export . -o x.safetensors
err_has 'no checkpoint is in this folder'
shell 1 'grep -q optimiser.momentum w.safetensors'
run 0 eval w.safetensors --data synthetic --images 400 --json -j 1
out_has "\"top1\":$top1,"
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

# ---- PyTorch, where it is ----

if "$python" -c 'import torch' 2>/dev/null; then
    shell 0 '"$python" "$source/tools/torch_weights.py" to-torch w.safetensors w.pt'
    shell 0 '"$python" "$source/tools/torch_weights.py" to-comet w.pt back.safetensors'
    run 0 import back.safetensors --net tiny.txt -o again.safetensors -f
    same w.safetensors again.safetensors
    shell 0 '"$python" "$source/tools/torch_weights.py" to-comet direct.pt back.safetensors'
    run 0 import back.safetensors --net tiny.txt -o again.safetensors -f
    same w.safetensors again.safetensors
    if "$python" -c 'import torchvision' 2>/dev/null; then
        shell 0 '"$python" -c "import torch, torchvision; torch.manual_seed(1); torch.save(torchvision.models.resnet18(weights=None, num_classes=7).state_dict(), \"r18.pt\")"'
        shell 0 '"$python" "$source/tools/torch_weights.py" to-comet r18.pt r18.safetensors'
        run 0 import r18.safetensors --model resnet18 --classes 7 --image 64 -o r18c.safetensors
        run 0 export r18c.safetensors -o r18c.pt
        shell 0 '"$python" -c "import torch, torchvision; m = torchvision.models.resnet18(weights=None, num_classes=7); a, b = torch.load(\"r18.pt\"), torch.load(\"r18c.pt\"); m.load_state_dict(b); assert all(torch.equal(a[k], b[k]) for k in a)"'
    fi
fi
