# comet generate.
# shellcheck shell=bash

run 0 generate relu -d 2,5,9,11
err_has 'relu.npy: 3960 bytes'
present relu.npy
run 1 generate relu -d 2,5,9,11
err_has 'relu.npy already exists; -f overwrites it'
run 0 generate relu -d 2,5,9,11 -o again.npy
same relu.npy again.npy
run 0 generate relu -d 2,5,9,11 --seed 1 -o other.npy
differ relu.npy other.npy
run 0 generate noise -d 1000 --raw
if [ "$(size_of noise.raw)" -eq 4000 ]; then pass; else fault "noise.raw has the wrong size"; fi
run 2 generate rely
err_has 'did you mean relu'
run 2 generate relu -d 4294967296,4294967296,4294967296 -o huge.npy
err_has 'option -d'
absent huge.npy
# Layouts: where element (c, w) of 9 channels and 2 places lies, checked word by word.
run 0 generate noise -d 1,9,1,2 --raw -o planar.raw
words() { od -An -v -tx4 -w4 "$1" | tr -d ' '; }
for layout in nhwc:9 nChw8c:8 nChw16c:16; do
    run 0 generate noise -d 1,9,1,2 --layout ${layout%:*} --raw -o laid.raw -f
    words planar.raw | awk -v block=${layout#*:} '{ x[NR - 1] = $1 }
        END { for (b = 0; b < 9; b += block) for (w = 0; w < 2; w++) for (c = b; c < b + block; c++)
                  print (c < 9 ? x[2 * c + w] : "00000000") }' >expected.words
    words laid.raw >laid.words
    same expected.words laid.words
done
run 0 generate noise -d 3,9,1,2 --layout nChw8c -o laid.npy
shell 0 "head -c 128 laid.npy | grep -q 'shape.: (3, 2, 1, 2, 8)'"
run 3 generate noise -d 9,9 --layout nhwc -o no.npy
run 5 generate relu -d 1,1,536870912,134217728 -o huge.npy
err_has 'out of memory'
absent huge.npy
run 0 generate relu -d 2,0,5,5 -o empty.npy
run 0 generate bn -d 2,6,33,31 -o bn.npy
