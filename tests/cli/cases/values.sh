# Numbers, bounds and sizes on the command line.
# shellcheck shell=bash

for bound in nan inf -1 -0.1std 0x1p-3 1e 1e999 ' 1' '1 ' '' 0.5x x std 1rell 1,2 lossles --; do
    run 2 compress in.npy -e "$bound"
    err_has 'option -e'
done
run 2 compress in.npy -e -1
err_has 'not negative'
run 2 compress in.npy -e nan
err_has 'write 0.01, 1e-3rel, 0.1std, lossless or 12x'
for bound in 0.1sdt 10% 0.1STD 1e-3REL 12X Lossless 1e 1,2 0.1rstd; do
    run 2 compress in.npy -e "$bound"
    err_has "option -e: '$bound' is not a bound: write 0.01, 1e-3rel, 0.1std, lossless or 12x"
done
for bound in 1e-320 1e-999 0.0001e-320std 1e-310rel; do
    run 2 compress in.npy -e "$bound"
    err_has "option -e: $bound is too small for a double; use lossless"
done
run 2 compress in.npy -e 1e-320x
err_has 'option -e: 1e-320 '
run 2 bench codec in.npy -e 0.1std,0.1sdt
err_has "'0.1sdt' is not a bound: write"
for threads in 2x -1 99999 1.5 '' 18446744073709551617; do
    run 2 compress in.npy -e 1 -j "$threads"
    err_has 'option -j'
done
for dims in 1,,2 1,2, ,1 a -1,2 1,1,1,1,1,1,1,1,1 99999999999999999999 '' 1.0; do
    run 2 compress in.raw -e 1 -d "$dims"
    err_has 'option -d'
done
run 2 compress in.npy -e 1 --chunk 3
run 2 compress in.npy -e 1 --min-ratio many
for level in fast dense; do
    run 2 compress in.npy -e 1 --min-ratio 4 -l $level
    err_has '--min-ratio has no effect without -l auto'
    run 2 compress in.npy -e 1 --min-ratio 0 -l $level
done
run 2 decompress in.comet --chunks 0,0
err_has 'COUNT must be at least 1'
for size in 0 4097 -1; do
    run 2 demo codec --mb $size
    err_has 'option --mb'
    out_empty
done
run 2 compress in.npy -e 1 --dither=-3
run 2 decompress in.comet --chunks 1
err_has 'not two numbers, FIRST,COUNT'
run 2 bench codec in.npy --seconds -1
run 2 bench codec in.npy --repeat 0
run 2 bench codec in.npy --min-mb 1e3
run 2 generate relu --seed x
