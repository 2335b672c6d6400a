# Input of comet compress: raw elements, layouts, .npy files.
# shellcheck shell=bash

tensor_files

# ---- raw input, layouts ----

raw_file
run 0 compress bn.raw -d 2,6,33,31 -t f32 -e 0.1std -o raw.comet
run 0 compress bn.npy -e 0.1std -o npy.comet
same raw.comet npy.comet
run 0 compress bn.raw -d 2,6,33,31 -e 0.1std -o raw.comet -f
same raw.comet npy.comet
run 0 verify bn.raw raw.comet
run 0 verify bn.raw raw.comet -d 2,6,33,31 -t f32
run 3 compress bn.raw -e 0.1std -o no.comet
err_has 'not a .npy file; for raw elements give'
run 3 compress bn.raw -d 2,6,33,32 -e 0.1std -o no.comet
err_has 'short data'
run 3 compress bn.raw -d 2,6,33,30 -e 0.1std -o no.comet
err_has 'left over'
run 2 compress bn.raw -d 4294967296,4294967296 -e 0.1std -o no.comet
err_has 'option -d'
run 2 compress bn.raw -d 1,18446744073709551615 -t f64 -e 0.1std -o no.comet
absent no.comet

# As channels last, bn.npy is a tensor of 31 channels; in memory nothing moves.
run 0 compress bn.npy --layout nhwc -e lossless -o nhwc.comet
run 0 info nhwc.comet
out_has '^dims          2 x 31 x 6 x 33$'
out_has '^layout        nhwc$'
run 0 decompress nhwc.comet -o nhwc.npy
same nhwc.npy bn.npy
run 0 verify bn.npy nhwc.comet
run 0 generate bn -d 2,3,9,9,16 -o blocked.npy
run 0 compress blocked.npy --layout nChw16c -e lossless -o blocked.comet
run 0 info blocked.comet
out_has '^dims          2 x 48 x 9 x 9$'
run 0 decompress blocked.comet -o blocked2.npy
same blocked.npy blocked2.npy
run 0 compress blocked.npy --layout nChw16c -d 2,40,9,9 -e 0.1std -o padded.comet
run 0 info padded.comet
out_has '^dims          2 x 40 x 9 x 9$'
run 0 verify blocked.npy padded.comet
run 3 compress blocked.npy --layout nChw16c -d 2,20,9,9 -e 0.1std -o no.comet
err_has 'is not that of 2,20,9,9 in layout nChw16c'
run 3 compress blocked.npy --layout nChw8c -e 0.1std -o no.comet
err_has 'not one of layout nChw8c'
npy flat.npy 1 "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }" 24
run 3 compress flat.npy --layout nhwc -e 1 -o no.comet
run 0 compress flat.npy -e 1 -o flat.comet
run 3 compress bn.npy -d 2,6,31,33 -e 1 -o no.comet
run 3 compress bn.npy -t f64 -e 1 -o no.comet
err_has 'its elements are f32, not f64'
absent no.comet

# ---- .npy files ----

dictionary="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
for version in 1 2 3; do
    npy ok.npy $version "$dictionary" 24
    run 0 compress ok.npy -e 0.1 -o ok.comet -f
done
npy ok.npy 1 "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}" 24
run 0 compress ok.npy -e 0.1 -o ok.comet -f
npy ok.npy 1 "{'descr': '<f4', 'fortran_order': False, 'shape': (), }" 4
run 0 compress ok.npy -e 0.1 -o ok.comet -f
npy ok.npy 1 "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }" 12
run 0 compress ok.npy -t bf16 -e 0.1 -o ok.comet -f

# bad_npy WHAT DICTIONARY N_BYTES PATTERN [VERSION]: exit 3, a sentence that names the file, nothing written.
bad_npy() {
    npy bad.npy "${5:-1}" "$2" "$3"
    run 3 compress bad.npy -e 0.1 -o bad.comet
    err_has "bad.npy: .*$4"
    absent bad.comet
}
bad_npy "Fortran order" "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }" 24 'Fortran order'
bad_npy "big-endian" "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }" 24 'big-endian'
bad_npy "integers" "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }" 24 "'<i4'"
bad_npy "bf16 unsaid" "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }" 12 '-t bf16'
bad_npy "records" "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }" 24 'records'
bad_npy "objects" "{'descr': '|O', 'fortran_order': False, 'shape': (6,), }" 24 "'|O'"
bad_npy "short data" "$dictionary" 23 'short data.*24 bytes.*23'
bad_npy "no data" "$dictionary" 0 'short data'
bad_npy "trailing bytes" "$dictionary" 25 'left over'
bad_npy "version 9" "$dictionary" 24 'version 9' 9
bad_npy "overflow" "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4), }" 24 ''
bad_npy "number too long" "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }" 24 'shape'
bad_npy "huge" "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }" 24 'short data'
bad_npy "negative" "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 3), }" 24 'shape'
bad_npy "ten dims" "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,6), }" 24 'more than 8 dim'
bad_npy "nine dims" "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,6), }" 24 'more than 8 dim'
bad_npy "no descr" "{'fortran_order': False, 'shape': (6,), }" 24 'lacks'
bad_npy "twice" "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,), }" 24 'unexpected key'
bad_npy "stranger" "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}" 24 'unexpected key'
bad_npy "not closed" "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)" 24 'header'
bad_npy "open string" "{'descr': '<f4" 24 'damaged'
bad_npy "open tuple" "{'descr': '<f4', 'fortran_order': False, 'shape': (6" 24 'shape'
bad_npy "no dictionary" "hello" 24 'not a dictionary'
bad_npy "empty header" "" 24 'not a dictionary'
bad_npy "neither" "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (6,), }" 24 'neither True nor False'
for length in 0 1 5 6 7 8 9 10 40; do
    npy whole.npy 1 "$dictionary" 24
    head -c $length whole.npy >bad.npy
    run 3 compress bad.npy -e 0.1 -o bad.comet
    if [ $length -ge 6 ]; then err_has 'ends inside its header'; else err_has 'not a .npy file'; fi
    absent bad.comet
done
run 3 compress nothere.npy -e 0.1
err_has 'nothere.npy: No such file'
mkdir folder
run 3 compress folder -e 0.1 -o no.comet
err_has 'folder: Is a directory'
