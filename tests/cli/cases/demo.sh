# comet demo.
# shellcheck shell=bash

run 0 demo codec --mb 1
out_has '^relu .* fast '
out_has '^bn .* dense '
out_has '^Every element came back within its bound, '
run 0 demo codec --mb 1 --json
is_json

if has_training; then
    run 0 demo train --data synthetic --steps 2 --batch 16 -j 1 --no-large --out logs
    for row in accuracy 'peak memory' 'activation memory' '  ratio' 'images per second'; do out_has "^$row  *[0-9]"; done
    out_has '^The logs of both runs: logs/raw.jsonl and logs/compressed.jsonl'
    out_has '^A page with both to open in a browser: logs/report.html$'
    has logs/report.html '<title>The demo: resnet20 raw and compressed</title>'
    has logs/report.html 'id="memory-2"'
    has logs/raw.jsonl '"event":"start".*"compress":"off"'
    has logs/compressed.jsonl '"event":"start".*"compress":"auto"'
    run 0 demo --data synthetic --steps 2 --batch 16 -j 1 --no-large --json
    if [ "$(grep -c '"event":"end"' .out)" -eq 2 ]; then pass; else fault "not the ends of two runs"; fi
    run 2 demo --compress off
    has comet-demo/raw.jsonl '"event":"end"'
    # Where the folder cannot be made, the runs are shown all the same.
    run 0 demo --data synthetic --steps 1 --batch 16 -j 1 --no-large --out none/such
    err_has 'none/such could not be made (No such file or directory); the logs of the runs are not kept'
    out_lacks 'The logs of'
    out_lacks 'A page with both'
    # The large net: what does not fit raw is said so.
    run 0 demo --data synthetic --steps 1 --batch 16 -j 1 --memory 450MiB
    out_has '^ResNet-50 on images of 224 x 224 in 450 MiB: 2 steps'
    out_has '^largest batch  *below 8  *[1-9][0-9]*$'
    out_has '^measured peak  *-  *[1-9][0-9.]* MiB$'
fi
