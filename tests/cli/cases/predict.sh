# comet predict: pictures and arrays in, classes out.
# shellcheck shell=bash

needs_training
command -v "$python" >/dev/null || { echo "skipped: no Python makes pictures here"; exit 77; }
tiny_net
"$python" "$source/tools/made_up_photos" photos >.out || fault "no pictures"
sed 's/out=4$/out=3/' tiny.txt >three.txt
run 0 train --net three.txt --data folder:photos --batch 20 --epochs 2 -j 1 --out run

# Every picture once, prepared as in eval: as many are right as eval finds in both parts of the data.
run 0 predict run photos -j 1
err_empty
n_lines 301
cp .out all.csv
if [ "$(head -1 all.csv)" = file,class,probability ]; then pass; else fault "the header is $(head -1 all.csv)"; fi
right=$(awk -F, 'NR > 1 { split($1, at, "/"); n += at[2] == $2 } END { print n }' all.csv)
run 0 eval run --data folder:photos --json -j 1
test_part=$(sed 's/.*"images":\([0-9]*\),.*"top1":\([0-9.e-]*\),.*/\1 \2/' .out)
run 0 eval run --data folder:photos --train-part --json -j 1
train_part=$(sed 's/.*"images":\([0-9]*\),.*"top1":\([0-9.e-]*\),.*/\1 \2/' .out)
expected=$(echo "$test_part $train_part" | awk '{ printf "%.0f", $1 * $2 + $3 * $4 }')
if [ "$right" -eq "$expected" ]; then pass; else fault "predict finds $right of 300, eval $expected"; fi
# Whatever the threads; with other batches the same classes.
run 0 predict run photos -j 1 --loader-threads 3
same .out all.csv
run 0 predict run photos -j 1 --loader-threads 1 --batch 7
cut -d, -f1,2 .out >.classes && cut -d, -f1,2 all.csv | cmp -s - .classes && pass || fault "batches of 7 give other classes"
# The names are in exported weights, too, and in the file for people.
run 0 export run -o w.safetensors
run 0 predict w.safetensors photos -j 1
same .out all.csv
has run/state.json '"classes":\["discs","squares","stripes"\]'

# The N most probable, in falling order, with a sum of 1 where all are asked for.
run 0 predict run photos/discs/000.png photos/squares --top 9 -j 1
n_lines 304
awk -F, 'NR > 1 { if ($1 != file) { if (file != "" && (sum < 0.99999 || sum > 1.00001)) bad++; sum = 0; last = 2 } file = $1
    sum += $3; if ($3 > last) bad++; last = $3 } END { exit bad > 0 }' .out && pass || fault "probabilities do not fall, or do not add up"
run 0 predict run photos/discs/000.png --top 2 --json -j 1
is_json
out_has '^{"file":"photos/discs/000.png","class":"[a-z]*","label":[0-2],"probability":0[.0-9]*,"top":\[{"class":'
run 0 predict run photos/discs/000.png --json -j 1
out_lacks '"top"'

# Broken pictures are named and skipped, and the others keep their classes.
cp -r photos/discs some && printf 'no picture' >some/003.png && head -c 200 photos/discs/004.png >some/004.png
run 0 predict run some -j 1
err_has 'skipped: some/003.png: neither JPEG nor PNG'
err_has 'skipped: some/004.png: '
n_lines 99
sed -n 's/^photos\/discs/some/p' all.csv | grep -v '00[34].png' >expected
tail -n +2 .out | cmp -s - expected && pass || fault "neighbours of broken pictures have other classes"
run 0 predict run some -j 1 --json
is_json
out_has '^{"file":"some/003.png","error":"some/003.png: neither JPEG nor PNG'
n_lines 100
run 3 predict run some -j 1 --strict -o strict.csv
err_has 'some/003.png: neither JPEG'
absent strict.csv
run 3 predict run some/003.png some/004.png -j 1
err_has 'none of the pictures can be read'
# What is no picture at all is found before the work.
run 3 predict run photos nothing.png -j 1
err_has 'nothing.png: No such file'
out_empty
mkdir -p empty/deeper && : >empty/deeper/notes.txt
run 3 predict run empty
err_has 'empty has no .jpg, .jpeg or .png file'
run 2 predict run
err_has 'PATH, a picture or a folder of pictures, is missing'
run 2 predict
run 2 predict run photos --tpo 2
err_has 'did you mean --top?'
run 3 predict missing photos

# Folders in folders; hidden files and links to folders (which may lead around in circles) are left out; fields are quoted.
mkdir -p deep/a/b deep/.hidden
cp photos/discs/000.png 'deep/a/b/x, "1".PNG'
cp photos/discs/000.png deep/.hidden/no.png
cp photos/discs/001.png deep/y.png
ln -s .. deep/a/round
run 0 predict run deep/ -j 1
n_lines 3
out_has '^"deep/a/b/x, ""1"".PNG",[a-z]*,0'
out_has '^deep/y.png,'

# A file of results is whole or not there, and nothing is overwritten.
run 0 predict run some -j 1 -o classes.csv
out_empty
if [ "$(wc -l <classes.csv)" -eq 99 ]; then pass; else fault "classes.csv has $(wc -l <classes.csv) lines"; fi
run 1 predict run photos/discs -j 1 -o classes.csv
err_has 'already exists; -f overwrites it'
run 0 predict run photos/discs/000.png -j 1 -o classes.csv -f
if [ "$(wc -l <classes.csv)" -eq 2 ]; then pass; else fault "classes.csv was not replaced"; fi
if [ -w /dev/full ]; then
    shell 1 '"$comet" predict run photos/discs -j 1 >/dev/full'
    run 1 predict run photos/discs -j 1 -o /dev/full
fi

# Weights that do not name their classes give numbers; those that name no net say what to give.
sed 's/"comet_checksum"/"Comet_checksum"/; s/"classes":"/"Classes":"/' run/best.safetensors >old.safetensors
run 0 predict old.safetensors photos/discs/000.png -j 1
out_has '^photos/discs/000.png,[0-2],0'
run 0 predict old.safetensors photos/discs/000.png -j 1 --json
out_has '"class":null,"label":[0-2],'
sed 's/"comet_checksum"/"Comet_checksum"/; s/"net":"/"Net":"/' run/best.safetensors >no_net.safetensors
run 2 predict no_net.safetensors photos/discs/000.png -j 1
err_has 'give --model or --net'
run 0 predict no_net.safetensors photos/discs/000.png -j 1 --net three.txt
sed 's/"comet_checksum"/"Comet_checksum"/; s/"input":"{/"input":"[/' run/best.safetensors >odd.safetensors
run 3 predict odd.safetensors photos/discs/000.png -j 1
err_has "odd.safetensors: its preparation of images ('input') has no valid 'bytes'"
sed 's/"comet_checksum"/"Comet_checksum"/; s/"classes":"\[/"classes":"{/' run/best.safetensors >odd.safetensors
run 3 predict odd.safetensors photos/discs/000.png -j 1
err_has 'its names of classes cannot be read'

# Arrays: the images that the net was trained on, and all of them right as often as eval says.
array_files
run 0 train --net tiny.txt --data npy:x.npy,y.npy --batch 4 --epochs 4 -j 1 --out arrays --rate 0.05
run 0 predict arrays x.npy -j 1 --batch 5
n_lines 17
right=$(awk -F, 'NR > 1 { n += $1 == "x.npy[" NR - 2 "]" && $2 == (NR - 2) % 4 } END { print n }' .out)
run 0 eval arrays --data npy:x.npy,y.npy,x.npy,y.npy --json -j 1
expected=$(sed 's/.*"top1":\([0-9.e-]*\),.*/\1/' .out | awk '{ printf "%.0f", 16 * $1 }')
if [ "$right" -eq "$expected" ]; then pass; else fault "predict finds $right of 16, eval $expected"; fi
run 0 predict arrays x.npy -j 1 --json
out_has '^{"file":"x.npy","row":15,"class":null,"label":[0-3],'
run 3 predict arrays photos/discs/000.png -j 1
err_has 'the net was trained on numbers that are no bytes; give .npy arrays'
run 0 generate relu -d 2,3,8,8 -o small.npy
run 3 predict arrays small.npy -j 1
err_has 'small.npy: its shape is 2,3,8,8; the net takes images of 3,16,16'
cut_short x.npy 4
run 3 predict arrays x.npy -j 1
err_has 'x.npy: its shape needs'

# Bytes of a picture as a picture and as an array: the same probabilities, in colour and in grey.
sed 's/^input .*/input 1 16 16/' tiny.txt >grey.txt
cat >pictures.py <<'PY'
import struct, zlib
def png(name, pixels):
    rows = b"".join(b"\0" + bytes(v for p in row for v in p) for row in pixels)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    open(name, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", 16, 16, 8, 2, 0, 0, 0)) +
                           chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
def npy(name, shape, values, code):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % ({"f": "<f4", "B": "|u1"}[code], shape)
    text = text.ljust(117) + "\n"
    open(name, "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + struct.pack("<%d%s" % (len(values), code), *values))
pixels = [[((31 * x + 7 * y) % 256, (x * y * 5) % 256, (255 - 9 * x) % 256) for x in range(16)] for y in range(16)]
png("one.png", pixels)
npy("one.npy", (3, 16, 16), [pixels[y][x][c] for c in range(3) for y in range(16) for x in range(16)], "B")
npy("grey.npy", (1, 16, 16), [(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]) / 255 for row in pixels for p in row], "f")
PY
"$python" pictures.py || fault "no pictures"
for kind in tiny grey; do
    run 0 train --net $kind.txt $data --batch 20 --max-steps 20 -j 1 --out $kind
    array=one.npy
    if [ $kind = grey ]; then array=grey.npy; fi
    run 0 predict $kind one.png -j 1 --top 4
    cp .out picture.csv
    run 0 predict $kind $array -j 1 --top 4
    paste -d, picture.csv .out | awk -F, 'NR > 1 { d = $3 - $6; if ($2 != $5 || d > 2e-5 || d < -2e-5) bad++ } END { exit NR != 5 || bad > 0 }' &&
        pass || fault "a picture for net $kind is prepared otherwise than its bytes"
done
