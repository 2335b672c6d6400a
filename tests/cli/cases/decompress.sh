# comet decompress: names, raw output, chunks, pipes; damaged frames.
# shellcheck shell=bash

tensor_files
raw_file

mkdir names
cp bn.npy names/a.npy
run 0 compress names/a.npy -e lossless
present names/a.npy.comet
run 1 decompress names/a.npy.comet
err_has 'names/a.npy already exists'
run 0 decompress names/a.npy.comet -f
same names/a.npy bn.npy
cp names/a.npy.comet names/b.comet
run 0 decompress names/b.comet
same names/b.npy bn.npy
cp names/a.npy.comet names/c
run 0 decompress names/c
same names/c.npy bn.npy
run 0 decompress names/a.npy.comet --raw
present names/a.raw
shell 0 'tail -c +129 names/a.npy | cmp - names/a.raw'

run 0 compress bn.npy -e lossless --chunk 4096 -o chunks.comet
for first in 0 1 2; do run 0 decompress chunks.comet --chunks $first,1 --raw -o chunk$first.raw; done
cat chunk0.raw chunk1.raw chunk2.raw >chunks.raw
same chunks.raw names/a.raw
run 0 decompress chunks.comet --chunks 1,2 -o tail.npy
shell 0 "head -c 128 tail.npy | grep -q 'shape.: (8180,)'"
run 2 decompress chunks.comet --chunks 3,1 -o no.npy
run 2 decompress chunks.comet --chunks 0,4 -o no.npy
run 2 decompress chunks.comet --chunks 18446744073709551615,18446744073709551615 -o no.npy
absent no.npy

shell 0 '"$comet" compress - -e lossless <bn.npy 2>/dev/null | "$comet" decompress - 2>/dev/null | cmp - bn.npy'
shell 0 '"$comet" compress bn.npy -e lossless -o - | "$comet" info -'
out_has '^dims          2 x 6 x 33 x 31$'
run 2 compress bn.npy -e lossless -o - --json
err_has 'cannot both go to standard output'

# ---- damaged frames ----

run 0 compress bn.npy -e 0.1std --chunk 2048 -o sum.comet
run 0 compress bn.npy -e 0.1std --checksum --chunk 2048 -o asked.comet
same sum.comet asked.comet
run 0 info sum.comet --json
out_has '"content_checksum":true'
run 0 compress bn.npy -e 0.1std --no-checksum --chunk 2048 -o nosum.comet
run 0 info nosum.comet --json
out_has '"content_checksum":false'
# One bit, by default, in the payload of either level.
for level in fast dense; do
    run 0 compress bn.npy -e 0.1std -l $level -o one.comet -f
    bytes=$(size_of one.comet)
    for offset in $((bytes / 2)) $((bytes * 3 / 4)) $((bytes - 9)); do
        flip one.comet $offset bit.comet 16
        run 3 decompress bit.comet -o no.npy
        err_has '^comet decompress: bit.comet: '
        absent no.npy
        run 3 verify bn.npy bit.comet
        out_empty
    done
done
bytes=$(size_of sum.comet)
for length in 0 1 7 20 63 100 $((bytes / 2)) $((bytes - 1)); do
    head -c "$length" sum.comet >cut.comet
    run 3 info cut.comet
    err_has 'cut.comet: '
    run 3 decompress cut.comet -o no.npy
    run 3 verify bn.npy cut.comet
done
cat sum.comet sum.comet >double.comet
run 3 decompress double.comet -o no.npy
err_has 'left over'
run 3 info bn.npy
run 3 decompress bn.raw -o no.npy
run 3 info nothere.comet
offset=0
while [ $offset -lt "$bytes" ]; do
    flip sum.comet $offset flipped$offset.comet
    run 3 decompress flipped$offset.comet -o no.npy
    absent no.npy
    rm -f flipped$offset.comet no.npy
    offset=$((offset + (offset < 128 ? 3 : 211)))
done
# Without checksums of the chunks a flip may decode to other values, but nothing worse.
run 0 compress bn.npy -e 0.1std -l dense --no-checksum -o plain.comet
bytes=$(size_of plain.comet)
offset=100
while [ $offset -lt "$bytes" ]; do
    flip plain.comet $offset flipped.comet
    last="comet decompress flipped.comet -o flipped.npy -f (byte $offset)"
    "$comet" decompress flipped.comet -o flipped.npy -f >.out 2>.err
    case $? in 0 | 3) pass ;; *) fault "exit other than 0 or 3" ;; esac
    offset=$((offset + 173))
done
