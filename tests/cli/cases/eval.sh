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
err_lacks 'classes apart'
# Data of fewer classes is scored, with a word; for weights of another net no number of classes is the remedy.
"$source/tools/made_up_photos" photos 5 >/dev/null
run 0 eval b --data folder:photos -j 1
err_has 'the net tells 4 classes apart, the data has 3: they are taken for the net.s first ones'
sed 's/out=4$/out=7/' other.txt >seven.txt
run 3 eval b --net seven.txt --data synthetic --images 400 -j 1
err_has 'of another net: conv2.weight is 16 x 8 x 3 x 3 there, 12 x 8 x 3 x 3 in this net$'
sed 's/out=4$/out=7/' tiny.txt >seven.txt
run 3 eval b --net seven.txt --data synthetic --images 400 -j 1
err_has 'it is for 4 classes, this net for 7: .*; change the net in seven.txt to have 4 outputs$'
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
# By class: figures add up to those of all images, in each form.
run 0 eval b --data synthetic --images 400 -j 1 --per-class --confusion
out_has '^class  *images  *top-1  *most confused with$'
awk '/^top-1/ { top1 = $2 } /^images  / { n = $2 } /^class / { rows = 4; next }
     rows > 0 { rows--; sum += $2; right += $2 * $3 / 100 }
     /^true class/ { matrix = NR + 1 } matrix && NR > matrix && /^ *[0-9] +[0-9] / { diagonal += $(3 + $1); for (i = 3; i <= NF; i++) all += $i }
     END { exit !(n == 80 && sum == n && all == n && diagonal - right < 0.01 && right - diagonal < 0.01 && 100 * right / n - top1 < 0.01 && top1 - 100 * right / n < 0.01) }' .out &&
    pass || fault "the table or the matrix does not add up"
run 0 eval b --data synthetic --images 400 -j 1 --per-class --confusion --json
is_json
out_has '"per_class":\[{"class":null,"label":0,"images":20,'
out_has '"classes":\[null,null,null,null\],"confusion":\[\[[0-9,]*\],'
run 0 eval b --data synthetic --images 400 -j 1 --per-class -o classes.csv
if [ "$(head -1 classes.csv)" = class,images,top1,confused_with,confused ] && [ "$(wc -l <classes.csv)" -eq 5 ]; then pass; else fault "classes.csv is no table"; fi
run 0 eval b --data synthetic --images 400 -j 1 --confusion -o matrix.csv
if [ "$(head -1 matrix.csv)" = class,0,1,2,3 ] && [ "$(awk -F, 'NR > 1 { n += $2 + $3 + $4 + $5 } END { print n }' matrix.csv)" -eq 80 ]; then
    pass
else
    fault "matrix.csv does not count 80 images"
fi
run 1 eval b --data synthetic --images 400 -j 1 --confusion -o matrix.csv
err_has 'already exists'
run 0 eval b --data synthetic --images 400 -j 1 --confusion --per-class --json -o all.json
out_empty
has all.json '"confusion":\[\['
run 2 eval b --data synthetic --images 400 -j 1 --confusion --per-class -o both.csv
err_has '-o writes one table as CSV'
run 2 eval b --data synthetic --images 400 -j 1 -o none.csv
err_has '-o needs --per-class, --confusion or --json'
sed 's/out=4$/out=21/' tiny.txt >wide21.txt
run 0 train --net wide21.txt --data synthetic --images 400 --classes 21 --batch 20 --max-steps 2 -j 1 --out wide
run 2 eval wide --data synthetic --images 400 -j 1 --confusion
err_has 'a matrix of 21 classes is too wide to read (20 at most)'
run 0 eval wide --data synthetic --images 400 -j 1 --confusion -o wide.csv
# Names come with the data, and the weights know them, too: another folder in their place is told.
picture=iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
for class in ant bee cat 'dog, wet'; do
    mkdir -p "pets/$class"
    for i in 1 2 3 4 5 6; do echo $picture | base64 -d >"pets/$class/$i.png"; done
done
run 0 train --net tiny.txt --data folder:pets --batch 4 --epochs 1 -j 1 --out pets_run
run 0 eval pets_run --data folder:pets --train-part -j 1 --per-class
err_empty
out_has '^ant  *[0-9]* '
run 0 eval pets_run --data folder:pets --train-part -j 1 --per-class -o pets.csv
has pets.csv '^"dog, wet",[0-9]*,'
mv pets/bee pets/bird
run 0 eval pets_run --data folder:pets --train-part -j 1 --per-class
err_has "class 1 is 'bird' in the data and 'bee' in pets_run/best.safetensors"
