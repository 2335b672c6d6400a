# comet bench train.
# shellcheck shell=bash

needs_training
tiny_net

run 0 bench train --net tiny.txt --batch 8,16 --steps 2 -j 1
if [ "$(wc -l <.out)" -eq 3 ]; then pass; else fault "not a head and two rows"; fi
run 0 bench train --net tiny.txt --batch 8,16 --steps 2 --json -j 1
if [ "$(wc -l <.out)" -eq 2 ]; then pass; else fault "not two objects"; fi
for key in images_per_s best_images_per_s loss peak_rss_bytes weights_bytes saved_reference_bytes saved_bytes transient_bytes; do
    out_has "\"$key\":[0-9]"
done
for key in warm ratio conv_ratio codec_share sigma_ratio_max spilled_bytes; do out_has "\"$key\":"; done
run 0 bench train --net tiny.txt --batch 8 --compress fast,off,dense --steps 1 --warm 0 --json -j 1
if [ "$(wc -l <.out)" -eq 3 ]; then pass; else fault "not three objects"; fi
if head -1 .out | grep -q '"compress":"off"'; then pass; else fault "off is not the first"; fi
if tail -2 .out | grep -qv '"speed_of_off":[0-9.]*,"peak_times_less":[0-9]'; then fault "not held against off"; else pass; fi
run 0 bench train --net tiny.txt --batch 8 --compress auto --steps 2 --noise 3% --in-process -j 1
out_has '^tiny  *8  *auto '
run 0 bench train --net tiny.txt --batch 8 --compress off,fast,dense --steps 2 --warm 1 --turns --json -j 1
if [ "$(grep -c '"speed_of_off":' .out)" -eq 2 ] && [ "$(wc -l <.out)" -eq 3 ]; then pass; else fault "not three held against off"; fi
# The time of coding is that of the measured steps: a part of theirs, however many steps came before.
run 0 bench train --net tiny.txt --batch 8 --compress dense --steps 1 --warm 40 --json --in-process -j 1
out_has '"codec_share":0\.[0-9]'
run 2 bench train --net tiny.txt --compress off,fat
run 2 bench train --net tiny.txt --compress fast,
run 2 bench train --net tiny.txt --noise 1% --sigma 1%
# Ten layers, each twice the square of the one before, go beyond what floats hold.
{
    printf 'net huge\ninput 3 8 8\nc = conv out=8 kernel=1\n'
    before=c
    for i in 1 2 3 4 5 6 7 8 9 10; do printf 'm%d = multiply %s %s\ns%d = add m%d m%d\n' $i $before $before $i $i $i; before=s$i; done
    printf 'flat = flatten\nfc = linear out=4\n'
} >huge.txt
run 1 bench train --net huge.txt --batch 4 --steps 2 -j 1
err_has 'the loss is -*\(nan\|inf\), not finite, at step 1, first in layer [ms][0-9]'
run 1 bench train --net huge.txt --batch 4 --steps 2 -j 1 --compress off,off --turns
if [ "$(grep -c 'not finite' .err)" -eq 2 ]; then pass; else fault "not both have said why they ended"; fi
run 2 bench train --net tiny.txt --batch 0
run 2 bench train
err_has 'a net is missing: give --model'

# Whoever measures ends with the one it measures for.
"$comet" bench train --net tiny.txt --batch 8 --steps 10000 --warm 10000 -j 1 >/dev/null 2>&1 &
parent=$!
for _ in $(seq 100); do
    child=$(tr -d ' ' <"/proc/$parent/task/$parent/children")
    [ -n "$child" ] && break
    sleep 0.1
done
lives() { [ -n "$1" ] && grep -qs '^State:.[^XZ]' "/proc/$1/status"; }
if lives "$child"; then pass; else fault "nobody measures"; fi
kill -9 $parent
wait $parent 2>/dev/null
for _ in $(seq 100); do
    lives "$child" || break
    sleep 0.1
done
if lives "$child"; then fault "process $child outlives its parent"; else pass; fi
