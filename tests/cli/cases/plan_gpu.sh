# comet plan --gpu: a model of speed, from counted instructions.
# shellcheck shell=bash

needs_training

run 0 plan --gpu a100
out_has 'a100: 108 multiprocessors at 1.41 GHz, memory of 1555 GB/s. By a model: no GPU has run it.'
out_has 'relu level fast, ratio [0-9.]*, encode: [0-9]* GB/s, [0-9]* % of memory'
out_has 'bn   level dense, ratio [0-9.]*, encode: [0-9]* GB/s, [0-9]* % of memory'
out_has 'bn   level dense, ratio [0-9.]*, decode: [0-9]* GB/s, [0-9]* % of memory'
out_has '^ *decode_16 .* [0-9]* %  [a-z]'
out_has '^ *decode_parts_16 .* [0-9]* %  [a-z]'

# No speed is above what memory allows: 4 bytes of each element and those of its code.
run 0 plan --gpu b200 --json
if [ "$(wc -l <.out)" -eq 8 ]; then pass; else fault "not eight objects"; fi
for key in ratio bytes_per_s memory_bytes_per_s share_of_memory_speed share_limited_by_memory longest_stage_share; do
    if grep -qv "\"$key\":[0-9]" .out; then fault "an object lacks $key"; else pass; fi
done
share() { sed -n 's/.*"share_of_memory_speed":\([0-9.e+-]*\).*/\1/p' .out; }
if share | awk '!($1 > 0 && $1 < 0.9) { exit 1 }'; then pass; else fault "a speed above memory's"; fi

# With the same multiprocessors, faster memory never makes it slower, nor a slower clock and fewer of them faster.
# shellcheck disable=SC2154  # tests/cli/run sets comet
speed() { "$comet" plan --gpu "$1" --json | sed -n 's/.*"bytes_per_s":\([0-9.e+-]*\),"mem.*/\1/p' | head -1; }
if awk "BEGIN { exit !($(speed a100) <= $(speed a100-80gb) && $(speed t4) < $(speed a100)) }"; then pass; else fault "the order of speeds"; fi

run 2 plan --gpu a100 --model resnet50
err_has 'it does not go with --model'
run 2 plan --gpu a100 --ranks 4
run 2 plan --gpu a100 --peak
run 2 plan --gpu gtx480
err_has 'no figures of "gtx480"; known are v100, t4, a100, '
