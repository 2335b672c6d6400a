# The log of comet train: its fields are those of docs/log.md, its place, what it says of a run.
# shellcheck shell=bash

needs_training
tiny_net
command -v "$python" >/dev/null || { echo "skipped: it needs python3"; exit 77; }

# check FILE...: a line of Python about the events of the named logs, in `events`, that must hold.
check() {
    local words=$1
    shift
    last="python: $words"
    if "$python" -c "
import json, sys
logs = [[json.loads(line) for line in open(name)] for name in sys.argv[1:]]
events = [e for log in logs for e in log]
def of(kind):
    return [e for e in events if e['event'] == kind]
assert $words" "$@" >.out 2>.err; then pass; else fault "it does not hold"; fi
}

# ---- the place ----

run 0 train $settings --out a
present a/log.jsonl
cp a/log.jsonl kept.jsonl
run 1 train $settings --out a
same a/log.jsonl kept.jsonl
run 0 train $settings --epochs 4 --out a --resume
check "len(of('start')) == 2 and [e['resumed'] for e in of('start')] == [False, True]" a/log.jsonl
# Seconds go on over a resume; without state.json, or with that of an older version, they begin again.
check "logs[0][-1]['seconds'] > next(e for e in of('end'))['seconds'] > 0 and of('start')[1]['seconds'] > of('checkpoint')[-3]['seconds'] / 2" a/log.jsonl
has a/state.json '"optimiser":"sgd".*"seconds":[0-9]'
lacks a/state.json '"log":'
sed -i 's/"seconds":[0-9.]*/"seconds":1000/' a/state.json
run 0 train $settings --epochs 5 --out a --resume
check "1000 < of('start')[-1]['seconds'] < 2000 and all(e['seconds'] > 1000 for e in logs[0][-5:])" a/log.jsonl
sed -i 's/"optimiser":"sgd"/"optimiser":"0"/; s/,"seconds":[0-9.]*//' a/state.json
run 0 train $settings --epochs 6 --out a --resume
check "of('start')[-1]['seconds'] < 500 and of('start')[-1]['resumed']" a/log.jsonl
echo '{' >a/state.json
run 0 train $settings --epochs 7 --out a --resume
check "of('start')[-1]['seconds'] < 500 and of('start')[-1]['resumed']" a/log.jsonl
# A line that a kill cut short does not swallow the next one.
printf '{"event":"st' >>a/log.jsonl
run 0 train $settings --epochs 8 --out a --resume
has a/log.jsonl '^{"event":"st$'
has a/log.jsonl '^{"event":"start".*"resumed":true'
same <(grep -c '"event":"start"' a/log.jsonl) <(echo 6)
cp a/log.jsonl torn.jsonl
printf '{"event":"st' >>torn.jsonl
run 0 train $settings --epochs 9 --out a --resume --log torn.jsonl
same <(grep -c '^{"event":"st$' torn.jsonl) <(echo 2)
same <(grep -c '^{"event":"start"' torn.jsonl) <(echo 7)
run 2 train --net tiny.txt $data --out a -f --batch 1000
lacks a/log.jsonl '"batch":1000'
run 0 train $settings --max-steps 4 --out a -f
check "len(of('start')) == 1 and of('start')[0]['n_steps'] == 4" a/log.jsonl
run 0 train $settings --max-steps 3 --out b --log named.jsonl
present named.jsonl
absent b/log.jsonl
has b/state.json "\"log\":\"$PWD/named.jsonl\""
run 0 train $settings --max-steps 3
absent log.jsonl

# ---- fields, against the page: runs that have every event between them ----

run 0 train $settings --rate find --out found --log found.jsonl
run 0 train $settings --optimiser adamw --compress off --max-steps 4 --out off
run 1 train $settings --rate 1e6 --schedule constant --momentum 0 --out diverged
err_has 'the loss became'
last="fields of docs/log.md against those of logs"
if "$python" "$source/tests/cli/check_log_fields" "$source/docs/log.md" found.jsonl off/log.jsonl diverged/log.jsonl a/log.jsonl >.out 2>.err; then
    pass
else
    fault "the page and the logs differ"
fi
out_has '^10 events$'

# ---- what it says ----

run 0 train $settings --out auto
check "all(e['optimiser'] == 'sgd' and e['momentum'] == 0.9 and e['weight_decay'] == 5e-4 for e in of('start'))" auto/log.jsonl
check "of('start')[0]['command'][1:3] == ['train', '--net'] and of('start')[0]['out'] == 'auto'" auto/log.jsonl
check "of('start')[0]['image'] == [3, 16, 16] and of('start')[0]['train_images'] == 400 and of('start')[0]['test_images'] == 80" auto/log.jsonl
check "of('start')[0]['parameters'] == 1468 and of('start')[0]['rate_chosen'] == 'default'" auto/log.jsonl
check "of('start')[0]['optimiser'] == 'adamw' and of('start')[0]['momentum'] is None and of('start')[0]['noise'] is None" off/log.jsonl
check "of('start')[0]['rate_chosen'] in ('found', 'default') and len(of('rate')) > 5" found.jsonl
check "events[-1]['event'] == 'error' and events[-1]['state'] == 'diverged'" diverged/log.jsonl
check "events[-1]['event'] == 'end' and events[-1]['state'] == 'finished'" auto/log.jsonl
# Figures that go together.
check "all(e['saved_bytes'] < e['saved_raw_bytes'] < e['saved_reference_bytes'] for e in of('step'))" auto/log.jsonl
check "all(e['saved_bytes'] == e['saved_raw_bytes'] for kind in ('start', 'step', 'end') for e in of(kind))" off/log.jsonl
check "all(abs(e['ratio'] * e['saved_bytes'] - e['saved_reference_bytes']) < 2 for e in of('step'))" auto/log.jsonl
check "of('start')[0]['saved_raw_bytes'] == of('start')[1]['saved_raw_bytes']" auto/log.jsonl off/log.jsonl
check "all(e['rss_bytes'] <= e['peak_rss_bytes'] for e in of('step'))" auto/log.jsonl
# Parts of a step's time are disjoint, and most of it.
check "all(0 < sum(e['time'].values()) < e['seconds'] for e in of('step')) and all(v >= 0 for e in of('step') for v in e['time'].values())" auto/log.jsonl
check "all(e['time']['encode'] == e['time']['decode'] == e['time']['assess'] == 0 for e in of('step'))" off/log.jsonl
check "sum(e['time']['encode'] + e['time']['decode'] for e in of('step')) > 0 and sum(e['time']['update'] for e in of('step')) > 0" auto/log.jsonl
# Memory within steps: up to the peak, down to nothing, as stored, raw, and of a framework that keeps everything.
check "[e['step'] for e in of('timeline')][::2] == [1, 60] and len(of('timeline')) == 3" auto/log.jsonl
check "all(p[2] <= p[3] <= p[4] for e in of('timeline') for p in e['points'])" auto/log.jsonl
check "all(e['points'][-1][2:] == [0, 0, 0] for e in of('timeline'))" auto/log.jsonl
check "all([max(p[k] for p in e['points']) for k in (3, 4)] == [of('start')[0]['saved_raw_bytes'], of('start')[0]['saved_reference_bytes']] for e in of('timeline'))" auto/log.jsonl
check "all(max(p[2] for p in e['points']) == next(s for s in of('step') if s['step'] == e['step'])['saved_bytes'] for e in of('timeline'))" auto/log.jsonl
check "all(p[2] == p[3] for e in of('timeline') for p in e['points'])" off/log.jsonl
check "[p[0] for p in of('timeline')[0]['points']] == [p[0] for p in of('timeline')[0]['points']][::-1]" auto/log.jsonl
# A tensor has one number, and one size in a step, whoever reads it.
check "all(len({(e['elements'], e['bytes_raw']) for e in of('assess') if e['tensor'] == t}) == 1 for t in {e['tensor'] for e in of('assess')})" auto/log.jsonl
check "all(e['bytes_raw'] == 4 * e['elements'] for e in of('assess')) and {e['consumer'] for e in of('assess')} >= {'conv', 'batch_norm'}" auto/log.jsonl

# ---- the end on standard output: figures that are named, and parts that add up ----

run 0 train $settings --out shown
for line in '^net        tiny: 1.47 k parameters, images of 3 x 16 x 16$' '^data       synthetic: 400 images to train on, 80 to test, 4 classes$' \
    '^length     3 epochs, 60 updates of 20 images$' '^optimiser  sgd, momentum 0.9, weight decay 0.0005$' '^rate       [0-9.]* at most, schedule onecycle$' \
    '^computes   float32, 1 thread, compression auto$' '^saved to   shown$' '^log        shown/log.jsonl$' \
    '^    a framework that keeps everything holds  *0.82 MiB$' '^    raw here, the largest of them:  *0.51 MiB$'; do out_has "$line"; done
last="parts of the peak memory"
if grep '^peak memory' .out | sed 's/([^)]*)//g' | grep -o '[0-9.]* MiB' | awk 'NR == 1 { peak = $1 } NR > 1 { sum += $1 } END { d = peak - sum; exit !(NR == 5 && d < 0.01 && d > -0.01) }'; then pass; else fault "they do not add up"; fi
run 0 plan --net tiny.txt -j 1 --batch 20
out_has '^    the same, raw  *0.51 MiB  *0.51 MiB  *0.51 MiB  *0.51 MiB$'
out_has '^    where all is kept  *0.82 MiB  *0.82 MiB  *0.82 MiB  *0.82 MiB$'
run 0 plan --net tiny.txt -j 1 --batch 20 --json
out_has '"saved_raw_bytes":533760,"saved_reference_bytes":861440'
