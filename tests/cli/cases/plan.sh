# comet plan, and what it says against what runs take.
# shellcheck shell=bash

needs_training
tiny_net
wide_net

run 0 plan --net tiny.txt -j 1 --memory 100MiB
out_has '^peak memory  *off  *fast  *dense  *auto$'
out_has '^batch 256  *[0-9]* MiB'
out_has '^largest batch in 100 MiB  *[1-9][0-9]*  *[1-9][0-9]*  *[1-9][0-9]*  *[1-9][0-9]*$'
run 0 plan --net tiny.txt -j 1 --memory 100MiB --batch 16 --json
if [ "$(wc -l <.out)" -eq 8 ]; then pass; else fault "not four forecasts and four largest batches"; fi
for key in batch peak_bytes weights_bytes gradients_bytes optimiser_bytes saved_bytes transient_bytes program_bytes ratio; do
    if head -4 .out | grep -qv "\"$key\":[0-9]"; then fault "a forecast lacks $key"; else pass; fi
done
out_has '"memory_bytes":104857600,"largest_batch":[1-9]'
run 0 plan --net tiny.txt -j 1 --memory 90GiB --batch 16
out_has '^largest batch in 90.00 GiB  *4096  *4096  *4096  *4096$'
out_has '^(4096 is the largest batch that is tried)$'
run 2 plan
err_has 'a net is missing: give --model'
run 2 plan --net tiny.txt --memory much
run 2 plan --net tiny.txt --memory 400
err_has "'400' has no unit; write 400M or 400MiB, or 400B for bytes"
run 3 plan --net nothere.txt

number() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" .out | head -1; }
# The peak's lines add up to it, and it is that of the table.
run 0 plan --net wide.txt -j 1 --batch 64 --peak --compress fast
out_has '^peak: [0-9.]* MiB in '
out_has ' coded  *'
run 0 plan --net wide.txt -j 1 --batch 64 --peak --compress fast --json
if awk -F'"bytes":|"peak_bytes":' 'NR == 1 { peak = $2 + 0 } NR > 1 { sum += $2 } END { exit !(NR > 5 && sum == peak) }' .out; then pass; else fault "lines of the peak do not add up"; fi
run 2 plan --net wide.txt --peak --ranks 2
err_has '--peak is about one batch of one process'
run 2 plan --gpu a100 --peak
err_has '--gpu is about the codec alone'
run 2 plan --net wide.txt --compress fast

# Within 10 % of the peak of a run; activations are most of this one.
# The resident set of a sanitizer build is mostly the sanitizer's.
if memory_limits; then
    for mode in off dense auto; do
        run 0 plan --net wide.txt -j 1 --batch 192 --json
        grep "\"compress\":\"$mode\"" .out >.row && mv .row .out
        planned=$(number peak_bytes)
        run 0 train --net wide.txt --data synthetic --images 1000 --batch 192 --max-steps 8 -j 1 --compress $mode --json
        measured=$(number peak_rss_bytes)
        if awk "BEGIN { r = $planned / $measured; exit !(r > 0.9 && r < 1.1) }"; then pass; else fault "$mode: $planned planned, $measured measured"; fi
    done
fi
