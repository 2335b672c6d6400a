# comet bench codec.
# shellcheck shell=bash

tensor_files

keys='"file":.*"dims":.*"dtype":.*"level":.*"eb":.*"bytes_in":.*"bytes_out":.*"ratio":.*"compress_gbps":.*"decompress_gbps":'
keys="$keys.*\"memcpy_gbps\":.*\"max_error\":.*\"bound_ok\":.*\"zeros_kept\":"
quick="--seconds 0 --repeat 1"
# shellcheck disable=SC2086
{
    run 0 bench codec relu.npy bn.npy -e 0.1std -l dense -j 1 --json $quick
    is_json
    n_lines 3
    if [ "$(grep -c "$keys" .out)" -eq 3 ]; then pass; else fault "keys are missing or out of order"; fi
    if sed -n 1p .out | grep -q '"file":"relu.npy","dims":\[2,5,9,11\],"dtype":"f32","level":"dense".*"bytes_in":3960,'; then pass; else fault "first row"; fi
    if tail -1 .out | grep -q '"file":"total","dims":null,.*"eb":null,"bytes_in":53064,.*"bound_ok":true,"zeros_kept":true}'; then pass; else fault "total"; fi
    # A total has the largest error of its rows, whichever row comes last.
    for files in 'relu.npy bn.npy' 'bn.npy relu.npy'; do
        run 0 bench codec $files -e 0.1std --json $quick
        sed 's/.*"max_error":\([^,]*\),.*/\1/' .out >errors
        if [ "$(head -2 errors | sort -u | wc -l)" -eq 2 ]; then pass; else fault "errors do not differ"; fi
        if [ "$(head -2 errors | sort -g | tail -1)" = "$(tail -1 errors)" ]; then pass; else fault "not the largest error"; fi
    done
    run 0 bench codec relu.npy -e 0.1std,lossless -e 0.01 --json $quick
    is_json
    n_lines 6
    out_has '"bound":"lossless"}$'
    run 0 bench codec relu.npy -e 2x --json $quick
    out_has '"file":"total"'
    for layout in nchw nhwc nChw8c nChw16c; do
        run 0 bench codec bn.npy -e 0.1std --json --layout $layout $quick
        out_has '"bound_ok":true,"zeros_kept":true}$'
    done
    out_has '"bytes_in":130944,' # 6 channels take the room of 16
    run 0 bench codec relu.npy --min-mb 1 --json $quick
    out_has '"dims":\[530,5,9,11\].*"bytes_in":1049400,'
    run 0 bench codec gen:relu:2,4,16,16 gen:bn:2,4,16,16 gen:noise:64 $quick
    n_lines 6
    out_has '^total .* comet  fast     0.1std'
    run 0 bench codec bn.npy -e 10std --keep-support --json $quick
    out_has '"bound_ok":true'
    run 0 bench codec bn.npy --dither --json $quick
    out_has '"bound_ok":true'
    run 2 bench codec bn.npy --keep-support --dither $quick
    run 0 bench codec relu.npy --peers --json $quick
    is_json
    out_has '"codec":"comet"}$'
    out_has '"file":"total".*"codec":"memcpy"}$'
    if tail -1 .out | grep -q '"file":"total".*"codec":"comet"'; then pass; else fault "our total is not the last line"; fi
    # In a table the totals come in the order of a file's rows, also where a peer refuses the first file.
    run 0 generate bn -d 2,3,8,8 -t f16 -o half.npy
    for files in 'relu.npy' 'half.npy relu.npy'; do
        run 0 bench codec $files --peers $quick
        awk '$1 == "relu.npy" { print $3 }' .out >rows
        awk '$1 == "total" { print $2 }' .out >totals
        same rows totals
        if [ "$(grep -c '^file ' .out)" -eq 1 ]; then pass; else fault "not one head"; fi
    done
    run 3 bench codec nothere.npy $quick
    out_empty
    run 2 bench codecs relu.npy $quick
    err_has 'did you mean codec?'
    run 2 bench codec
    err_has 'FILE is missing'
    run 2 bench
    err_has 'a subject is missing after bench: codec'
    run 2 bench relu.npy
    err_has "unknown subject 'relu.npy'; choose codec"
    run 2 bench relu.npy bn.npy
    err_has "unknown subject 'relu.npy'; choose codec"
    run 2 bench codec gen:relu:1,x $quick
}

# A device: PoCL or a GPU, where there is one.
device=$("$comet" doctor --gpu --json 2>/dev/null | sed -n 's/.*"device":"\([^"]*\)".*"same_bytes":true.*/\1/p' | head -1)
if [ -n "$device" ]; then
    run 0 bench codec relu.npy -e 0.1std --device "$device" --json --seconds 0 --repeat 1
    is_json
    out_has "\"bound_ok\":true,\"zeros_kept\":true,\"device\":\"$device\",\"same_bytes\":true"
    run 0 bench codec relu.npy -e 0.1std --device "$device" -l dense --json --seconds 0 --repeat 1
    is_json
    out_has "\"bound_ok\":true,\"zeros_kept\":true,\"device\":\"$device\",\"same_bytes\":true"
fi
run 2 bench codec relu.npy --device metal:0 --seconds 0 --repeat 1
err_has 'names no device'
