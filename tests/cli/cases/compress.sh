# comet compress: round trips of every type, level and bound; options; values that are not plain numbers.
# shellcheck shell=bash

tensor_files
run 0 generate relu -d 2,0,5,5 -o empty.npy

# ---- round trips ----

for type in f32 f16 bf16 f64; do
    run 0 generate relu -d 3,7,19,23 -t $type -o t.npy -f
    for level in fast dense auto; do
        for bound in 0.01 1e-3rel 0.1std lossless 0; do
            run 0 compress t.npy -t $type -e $bound -l $level -o t.comet -f
            err_has 'ratio'
            out_empty
            run 0 verify t.npy t.comet
            out_has '^violations    0$'
            run 0 decompress t.comet -o back.npy -f
            case $bound in lossless | 0) same t.npy back.npy ;; *) run 0 verify back.npy t.comet ;; esac
        done
    done
done
run 0 compress bn.npy -e 4x -o ratio.comet
run 0 info ratio.comet --json
if awk -F'"ratio":' '{ split($2, a, ","); exit !(a[1] >= 4) }' .out; then pass; else fault "the ratio is below 4"; fi
run 0 verify bn.npy ratio.comet
run 1 compress relu.npy -e 1000000x -o never.comet
err_has '^comet compress: relu.npy: [a-z]'
absent never.comet
run 1 bench codec relu.npy -e 1000000x
err_has '^comet bench codec: relu.npy: [a-z]'
out_empty
run 0 compress relu.npy -e 0.1std -l auto --min-ratio 4 -o auto.comet
run 0 compress relu.npy -e 2x --min-ratio 4 -o auto.comet -f
run 0 compress empty.npy -e 0.1 -o empty.comet
run 0 verify empty.npy empty.comet
run 0 decompress empty.comet -o empty2.npy
same empty.npy empty2.npy
run 0 compress gen:relu:2,3,8,8 -e 0.1std -o gen.comet
run 2 compress gen:relu:2,3,8,8 -e 0.1std
err_has 'with -o'
run 2 compress gen:relux:2,3 -e 1 -o x.comet
err_has 'did you mean relu'
run 2 compress gen:relu -e 1 -o x.comet

run 0 compress bn.npy -e 0.1std -l dense --json
is_json
n_lines 1
for key in input output dims dtype layout level bound eb bytes_in bytes_out ratio n_elements n_nonzero n_nonfinite sum_of_squares \
    min max n_outliers n_chunks n_chunks_raw n_chunks_fast n_chunks_dense seconds_bound seconds_quantise seconds_predict \
    seconds_code seconds_total; do
    out_has "\"$key\":"
done
out_has '"n_elements":12276,'
present bn.npy.comet
for threads in 1 2 5; do
    run 0 compress bn.npy -e 0.1std -l dense -j $threads --chunk 512 -o threads$threads.comet
done
same threads1.comet threads2.comet
same threads1.comet threads5.comet
for isa in reference avx2; do
    shell 0 "COMET_MAX_ISA=$isa \"\$comet\" compress bn.npy -e 0.1std -l dense --chunk 512 -o isa_$isa.comet"
    same threads1.comet isa_$isa.comet
done

# ---- keep support, dither ----

run 0 compress relu.npy -e 0.3std --keep-support -o support.comet
run 0 verify relu.npy support.comet
out_has '^became zero   0 non-zeros$'
out_has '^verdict       ok: every element within the bound, zeros and non-zeros kept$'
run 0 compress relu.npy -e 1 -o lossy.comet
run 0 verify relu.npy lossy.comet
out_has '^became zero   [1-9][0-9]* non-zeros (allowed without --keep-support)$'
out_has '^verdict       ok: '
# Held against the wrong original, a frame of zeros has lost the ones, and a frame of ones has not kept the zeros; a bound of 1
# holds in both.
npy zeros.npy 1 "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }" 24
npy ones.npy 1 "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }" 0
printf '\x00\x00\x80\x3f%.0s' 1 2 3 4 5 6 >>ones.npy
run 0 compress zeros.npy -e 1 --keep-support -o zeros.comet
run 4 verify ones.npy zeros.comet
err_has 'the frame keeps support, yet 6 non-zeros became zero'
out_has '^violations    0$'
out_has '^verdict       FAILED$'
run 4 verify ones.npy zeros.comet --json
out_has '"ok":false'
run 0 compress zeros.npy -e 1 -o zeros.comet -f
run 0 verify ones.npy zeros.comet
run 0 compress ones.npy -e 1 --keep-support -o ones.comet
run 4 verify zeros.npy ones.comet
err_has '6 zeros are no longer zero'
out_has '^violations    0$'
run 0 compress ones.npy -e 0.1 -o ones.comet -f
run 4 verify zeros.npy ones.comet
err_has '6 zeros are no longer zero'
run 0 info support.comet
out_has '^keep support  yes$'
run 0 compress relu.npy -e 0.3std --dither=7 -o dither.comet
run 0 verify relu.npy dither.comet
out_has '^verdict       ok: every element within the bound (zeros may move: dither)$'
run 0 info dither.comet
out_has '^dither        seed 7$'
run 0 compress relu.npy -e 0.3std --dither -o dither0.comet
run 0 info dither0.comet --json
out_has '"dither":true,"dither_seed":0,'
run 2 compress relu.npy -e 0.3std --dither --keep-support -o no.comet
run 2 compress relu.npy -e lossless --dither -o no.comet
absent no.comet

# ---- values that are not plain numbers ----

npy special.npy 1 "{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }" 0
# NaN with a payload, Inf, -Inf, -0.0, a subnormal, the largest float, 1, -1
printf '\x01\x00\xc0\x7f\x00\x00\x80\x7f\x00\x00\x80\xff\x00\x00\x00\x80\x01\x00\x00\x00\xff\xff\x7f\x7f\x00\x00\x80\x3f\x00\x00\x80\xbf' >>special.npy
for bound in 0.01 lossless 0.1rel; do
    run 0 compress special.npy -e $bound -o special.comet -f
    run 0 verify special.npy special.comet
    run 0 decompress special.comet -o special2.npy -f
    shell 0 'tail -c 32 special.npy | head -c 12 >a; tail -c 32 special2.npy | head -c 12 | cmp - a'
done
