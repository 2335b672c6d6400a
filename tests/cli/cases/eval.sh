# comet eval; weights that are damaged or not finite, for every verb that reads them.
# shellcheck shell=bash

needs_training
tiny_net
run 0 train $settings --out b --log b.jsonl
run 0 train $settings --max-steps 40 --save-steps 10 --out cut

run 0 eval b --last --data synthetic --images 400 --json -j 1
top1=$(sed 's/.*"top1":\([0-9.]*\).*/\1/' .out)
if tail -1 b.jsonl | grep -q "\"top1\":$top1,"; then pass; else fault "eval gives another top-1 than the run: $top1"; fi
# near KEY EVENT: the log's last line of this event has the figure that eval printed, but for rounding.
near() {
    local ours theirs
    ours=$(sed "s/.*\"$1\":\([0-9.e-]*\).*/\1/" .out)
    theirs=$(grep "\"event\":\"$2\"" b.jsonl | tail -1 | sed "s/.*[,{]\"$1\":\([0-9.e-]*\).*/\1/")
    if awk "BEGIN { d = $ours - $theirs; exit !(d < 1e-5 && d > -1e-5) }"; then pass; else fault "$1 of $2 is $theirs in the log, not $ours"; fi
}
for key in loss top1 top5; do
    near $key epoch
    near $key end
done
run 0 eval b --data synthetic --images 400 -j 1
out_has '^top-1 '
out_has '^images  *80$'
run 0 eval b --data synthetic --images 401 -j 1 # a fifth, rounded up
out_has '^images  *81$'
# The training part is another one, and larger.
run 0 eval b --data synthetic --images 400 --train-part -j 1
out_has '^images  *400$'
# Weights that are not finite are refused, and the first of them is named. The file has no checksum that would tell.
run 0 export b --last -o nan.safetensors
sed -i 's/"comet_checksum"/"Comet_checksum"/' nan.safetensors
header=$(od -An -tu8 -N8 nan.safetensors | tr -d ' ')
offset=$(sed -n 's/.*"fc.bias":{[^}]*"data_offsets":\[\([0-9]*\),.*/\1/p' nan.safetensors | head -1)
cp nan.safetensors huge.safetensors
printf '\000\000\300\177' | dd of=nan.safetensors bs=1 seek=$((8 + header + offset + 12)) conv=notrunc status=none
for verb in eval "train $settings --max-steps 1 --weights" "import --net tiny.txt -o never.safetensors"; do
    case $verb in eval) words="eval nan.safetensors --data synthetic --images 400 -j 1" ;; *) words="$verb nan.safetensors" ;; esac
    run 3 $words
    err_has 'nan.safetensors: element 3 of fc.bias is not finite: the file is damaged, or of a run that diverged'
done
absent never.safetensors
# A pipe in the place of weights or of a checkpoint is refused, not waited for.
mkfifo pipe.safetensors
cp -r b piped && rm -f piped/*.safetensors && mkfifo piped/last.safetensors
shell 3 'timeout -s KILL 60 "$comet" eval pipe.safetensors --data synthetic --images 400 -j 1'
err_has 'pipe.safetensors: not a regular file'
shell 3 "timeout -s KILL 60 \"\$comet\" train $settings --weights pipe.safetensors --max-steps 1"
shell 3 "timeout -s KILL 60 \"\$comet\" train $settings --out piped --resume"
err_has 'piped/last.safetensors: not a regular file'
# Sums that overflow: exit 1, and still the figures. The mean over 64 pixels of the largest float is infinite.
offset=$(sed -n 's/.*"conv2.bias":{[^}]*"data_offsets":\[\([0-9]*\),.*/\1/p' huge.safetensors | head -1)
printf '\377\377\177\177' | dd of=huge.safetensors bs=1 seek=$((8 + header + offset)) conv=notrunc status=none
run 1 eval huge.safetensors --data synthetic --images 400 -j 1
err_has 'the loss is not finite, though all weights in huge.safetensors are'
out_has '^loss  *-*\(nan\|inf\)'
out_has '^images  *80'
run 1 eval huge.safetensors --data synthetic --images 400 -j 1 --json
out_has '"loss":null'
# Names with control characters, of files and of tensors in them, are shown and not obeyed.
odd=$(printf 'odd\033[2J.safetensors')
cp nan.safetensors "$odd"
run 3 eval "$odd" --data synthetic --images 400 -j 1
err_has 'odd\\x1b\[2J.safetensors: element 3 of fc.bias is not finite'
cp huge.safetensors "$odd"
run 1 eval "$odd" --data synthetic --images 400 -j 1
out_has '^weights   odd\\x1b\[2J.safetensors$'
sed -i 's/conv2\.weight/\\u001b\[2J.xx/' "$odd" # 12 characters of a name, 12 of another
run 3 import "$odd" --net tiny.txt -o odd.safetensors
if grep -q "$(printf '\033')" .out .err; then fault "control characters are printed"; else pass; fi
# A damaged last checkpoint: the one before serves, as it does for --resume.
rm -rf hurt && cp -r cut hurt
cut_short hurt/last.safetensors 50
run 0 eval hurt --last --data synthetic --images 400 --json -j 1
err_has 'the newest checkpoint cannot be used (hurt/last.safetensors: cut short.*taking hurt/previous.safetensors'
out_has '"weights":"hurt/previous.safetensors"'
run 0 export hurt --last -o hurt.safetensors
err_has 'taking hurt/previous.safetensors'
rm hurt/best.safetensors
run 0 train $settings --weights hurt --max-steps 1 --rate 0
err_has 'taking hurt/previous.safetensors'
cut_short hurt/previous.safetensors 50
run 3 export hurt --last -o hurt2.safetensors
err_has 'hurt/previous.safetensors: cut short'
absent hurt2.safetensors
run 2 eval b --data synthetic --images 400 --image 20
err_has 'takes images of 3 x 16 x 16, the test data has 3 x 20 x 20'
sed 's/^avg = .*/fc = conv out=4 kernel=1/; /^flat\|^fc = linear/d' tiny.txt >planes.txt
run 2 eval b --net planes.txt --data synthetic --images 400 --classes 4
err_has 'gives 4 x 8 x 8 scores, the test data has 4 classes'
