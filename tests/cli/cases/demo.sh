# comet demo.
# shellcheck shell=bash

run 0 demo codec --mb 1
out_has '^relu .* fast '
out_has '^bn .* dense '
out_has '^Every element came back within its bound, '
run 0 demo codec --mb 1 --json
is_json

if has_training; then
    run 0 demo train --data synthetic --steps 2 --batch 16 -j 1
    for row in accuracy 'peak memory' 'activation memory' '  ratio' 'images per second'; do out_has "^$row  *[0-9]"; done
    run 0 demo --data synthetic --steps 2 --batch 16 -j 1 --json
    if [ "$(grep -c '"event":"end"' .out)" -eq 2 ]; then pass; else fault "not the ends of two runs"; fi
    run 2 demo --compress off
fi
