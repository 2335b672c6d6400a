# --config: options from files, and the file that a run leaves; -q.
# shellcheck shell=bash

# Lines of TOML and objects of JSON for a verb that every build has.
run 0 generate relu -d 2,5,9,11
cat >lines.toml <<'TOML'
# options of comet compress
error = "0.1std"   # a bound
level = 'dense'
json = true
chunk = 4_096
TOML
run 3 compress relu.npy -o a.comet --config lines.toml
err_has 'lines.toml:5: a text needs quotes: chunk = "4_096"'
sed -i 's/4_096/4096/' lines.toml
run 0 compress relu.npy -o a.comet --config lines.toml
run 0 compress relu.npy -e 0.1std -l dense --chunk 4096 -o b.comet
same a.comet b.comet
printf '{"error": "0.1std", "level": "dense", "chunk": 4096, "json": false}' >object.json
run 0 compress relu.npy -o c.comet --config=object.json
same a.comet c.comet
shell 0 '"$comet" compress relu.npy -o d.comet --config - <object.json'
same a.comet d.comet
# The command line wins, also over flags.
run 0 compress relu.npy -e 0.1std -l fast --chunk 4096 -o fast.comet
run 0 compress relu.npy -o e.comet --config object.json -l fast
same fast.comet e.comet
differ a.comet e.comet
printf '{"error": "0.1std", "force": true}' >force.json
run 0 compress relu.npy -o e.comet --config force.json
run 1 compress relu.npy -o e.comet --config force.json --force=false
err_has 'already exists'
run 2 compress relu.npy -e 1 --force=no
err_has 'takes no value'
# What is wrong is named, with the file.
refused() {
    printf '%s' "$1" >bad.json
    run 3 compress relu.npy -o no.comet --config bad.json
    err_has "bad.json$2"
    absent no.comet
}
refused '{"eror": 1}' ": unknown option 'eror'; did you mean error?"
refused '{"tolerance": 1}' ": unknown option 'tolerance'; did you mean error?"
refused '{"xyzzy": 1}' ": unknown option 'xyzzy'$"
refused '{"error": true}' ': error needs a value (BOUND), not true'
refused '{"error": {}}' ': error needs a text or a number (BOUND)'
refused '{"error": 1, "json": "yes"}' ': json is a flag: true or false'
refused '{"error": 1, "threads": 1.5}' ": threads: '1.5'"
refused '{"error": 1, "level": "dens"}' ": level: unknown level 'dens'; did you mean dense?"
refused '{"error": 1, "error": 2}' ": the option 'error' stands there twice"
refused '{"error": 1, "seed": 18446744073709551615}' ": unknown option 'seed'"
refused '{"error": 1,
 }' ':2: this is not JSON'
refused '[1]' ':1: tables are not known here'
refused 'error' ":1: a line is 'option = value'"
refused 'error = "1' ':1: a text has no closing quote'
refused 'error = fast' ':1: a text needs quotes: error = "fast"'
refused 'error =' ':1: a value is missing'
refused "error = $(printf 'x%.0s' {1..200})" ':1: a text needs quotes: error = "x*\.\.\."'
refused 'error = 1 2' ':1: something follows the value'
refused 'error = 1
error = 2' ':2: the option stands here for the second time'
refused 'config = "x"' ': a file of options names no other'
refused '{"verb": "train"}' ": it has options of 'comet train', not of 'comet compress'"
run 3 compress relu.npy --config missing.json
err_has 'missing.json: No such file'
run 2 info a.comet --config object.json # a verb of few options
err_has "unknown option '--config'"

# Quiet: nothing but results and errors.
run 0 compress relu.npy -e 1 -o q.comet -q
err_empty
run 0 compress relu.npy -e 1 -o q2.comet
if [ -s .err ] || [ -s .out ]; then pass; else fault "compress never talks"; fi
run 1 compress relu.npy -e 1 -o q.comet -q
err_has 'already exists'
run 0 info q.comet --quiet
out_has 'bound'

has_training || return 0
tiny_net
# A run from the file that another left has the same bits; what was chosen for it stands there.
run 0 train --net tiny.txt $data --epochs 2 --batch 16 --smoothing 0.1 --momentum 0.85 --no-augment --out a --log a.jsonl
is_file_json() { "$python" -c 'import json, sys; json.load(open(sys.argv[1]))' "$1" 2>/dev/null && pass || fault "$1 is not JSON"; }
if command -v "$python" >/dev/null; then is_file_json a/config.json; fi
has a/config.json '"verb":	*"train"'
has a/config.json '"batch":	*16'
has a/config.json '"rate":	*[0-9.]'
has a/config.json '"threads":	*[0-9]'
has a/config.json '"no-augment":	*true'
lacks a/config.json '"out"'
lacks a/config.json '"log"'
run 0 train --config a/config.json --out b
same a/best.safetensors b/best.safetensors
same a/last.safetensors b/last.safetensors
same a/config.json b/config.json
run 0 train --config a/config.json --seed 9 --out c
differ a/last.safetensors c/last.safetensors
has c/config.json '"seed":	*9'
run 0 train --net tiny.txt $data --epochs 1 --batch 16 --optimiser adamw --schedule cosine --seed 18446744073709551615 --clip 1 --out d -j 1
run 0 train --config d/config.json --out e
same d/last.safetensors e/last.safetensors
run 3 plan --config a/config.json
err_has "it has options of 'comet train', not of 'comet plan'"
# A quiet run has no notes, tables and lines of epochs, but its result.
run 0 train --config d/config.json --out f -q
out_has '^best top-1 '
out_has '^peak memory '
out_lacks 'memory for batch'
out_lacks '^epoch 1'
err_empty
run 0 train --config d/config.json --out g -q --json
err_empty
is_json
n_lines 1
run 0 eval g $data -q --json -j 1

# A run that is resumed with fewer words keeps what it had from its checkpoint and from its first weights.
run 0 train --net tiny.txt $data --batch 16 -j 1 --max-steps 4 --out h --weights a --freeze conv1 --freeze bn1 --rate-of fc=2x
run 0 train --net tiny.txt $data -j 1 --max-steps 6 --out h --resume
has h/config.json '"weights":	*"a"'
has h/config.json '"freeze":	*"conv1,bn1"'
has h/config.json '"rate-of":	*"fc=2x"'
run 0 train --config h/config.json --out i
err_has 'loaded .* tensors from a/best.safetensors'
# The order of keys alone differs.
same <(tr -d ',' <h/config.json | sort) <(tr -d ',' <i/config.json | sort)
run 0 train --net tiny.txt $data -j 1 --max-steps 6 --out h -f
lacks h/config.json '"weights"'
