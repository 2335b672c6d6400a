# comet verify.
# shellcheck shell=bash

tensor_files

run 0 compress relu.npy -e 0.05 -o v.comet
run 0 verify relu.npy v.comet
out_has '^bound         0.05'
out_has '^max error     0.0'
out_has '^zeros kept    \([345][0-9][0-9]\) of \1$' # about half of 990
out_has '^verdict       ok: every element within the bound, every zero kept$'
err_empty
run 0 verify relu.npy v.comet --json
is_json
out_has '"ok":true'
out_has '"first_violation":null'
run 0 verify relu.npy v.comet -e 7
run 4 verify relu.npy v.comet -e 1e-7
err_has 'bound violated'
run 4 verify relu.npy v.comet -e lossless
run 2 verify relu.npy v.comet -e 0.1std
err_has 'not an absolute bound'
# Element 100 of the original becomes 2.0: memory index 100 is (0,1,0,1) of 2x5x9x11.
cp relu.npy tampered.npy
printf '\x00\x00\x00\x40' | dd of=tampered.npy bs=1 seek=$((128 + 400)) conv=notrunc status=none
run 4 verify tampered.npy v.comet
err_has 'index 100, coordinates (0,1,0,1): original 2, decoded '
err_has '1 of 990 elements are off by more than 0.05'
out_has '^violations    1$'
out_has '^verdict       FAILED$'
run 4 verify tampered.npy v.comet --json
is_json
out_has '"ok":false'
out_has '"first_violation":100,"coordinates":\[0,1,0,1\],"original":2'
run 3 verify bn.npy v.comet
run 3 verify relu.npy bn.npy
run 0 generate relu -d 2,5,9,11 -t f64 -o wide.npy
run 3 verify wide.npy v.comet
err_has 'f64, not f32'
