# comet report: pages from logs, whole and broken. What a browser makes of them: tests/cli/report/check_page.
# shellcheck shell=bash

make_log="$source/tests/cli/report/make_log"
command -v "$python" >/dev/null || { echo "skipped: no python3 to make logs with"; exit 77; }
log() { "$python" "$make_log" "$@"; }
# page_has TEXT, page_lacks TEXT: about report.html.
page_has() { has report.html "$1"; }
page_lacks() { lacks report.html "$1"; }

mkdir first second
log first
log second --compress off --seed 2

# ---- a run ----

run 0 report first
out_empty
err_has 'report.html: 1 run; open it in a browser'
page_has '<title>Training resnet20</title>'
page_has 'resnet20 finished its 1,560 steps'
page_has 'Example CPU @ 2.50GHz, 2 cores, avx512'
page_has "comet train --model resnet20 --data &#39;cifar10:/my data&#39; --epochs 4"
for id in loss accuracy rate memory-1 saved ratio step-1 bytes-1 ratios-1 bounds-1 errors-1 parts speed time-1; do
    page_has "<figure class=\"chart\" id=\"$id\">"
done
page_lacks 'class="missing"'
page_lacks '[^i]nan[^cd]'
page_lacks 'src='
page_lacks 'href='

# ---- output ----

run 1 report first
err_has 'report.html already exists; -f overwrites it'
run 0 report first -f --title 'A <b>title'
page_has '<title>A &lt;b&gt;title</title>'
run 0 report first -o - --title x
has .out '^<!doctype html>'
run 2 report
err_has 'RUN, the folder or log of a run, is missing'
run 2 report first --live -o -
run 1 report first -o first
cp first/log.jsonl own.jsonl
run 2 report own.jsonl -o own.jsonl -f
err_has 'input and output are the same file'
same own.jsonl first/log.jsonl

# A run in the current folder is called as that folder, also where event files are written.
cd first || exit 1
run 0 report . ./../second -o ../here.html --tensorboard ../here
cd .. || exit 1
has here.html '<strong>first</strong>'
present here/first
present here/second

# ---- several runs ----

run 0 report first second/log.jsonl -f
page_has 'Training resnet20, 2 runs'
page_has 'id="comparison"'
page_has 'id="memory-2"'
page_lacks 'id="bytes-2"'
mkdir -p x/a y/a
cp first/log.jsonl x/a
cp second/log.jsonl y/a
run 0 report x/a y/a -f
page_has '<strong>x/a</strong>'
page_has '<strong>y/a</strong>'

# ---- folders that are not whole runs ----

mkdir empty
run 0 report empty -f
err_has 'empty: no run is in this folder; the page says so'
err_has 'report.html: there is no run to show yet'
err_lacks '1 run'
page_has 'This folder holds no run of <code>comet train</code>'
mkdir old
echo '{"step": 1200, "net": "cnn28", "best_top1": 0.5}' >old/state.json
run 0 report old -f
err_has 'a run without a log: its state is shown'
page_has '<th scope="row">step</th><td>1,200</td>'
echo '{"log": "own.jsonl"}' >old/state.json
run 0 report old -f
page_has 'resnet20 finished its 1,560 steps'
mkdir begun
: >begun/log.jsonl
run 0 report begun -f
page_has 'has no line of a run yet'
log begun --until 100
run 0 report begun -f
page_has 'is at, or was killed after, step 98 of 1,560'
cut_short begun/log.jsonl 20
run 0 report begun -f
page_has 'The last line of the log is cut short'
page_has 'id="loss"'

# ---- runs that ended otherwise ----

log begun --until 98
cp begun/log.jsonl ended.jsonl
echo '{"event":"error","step":null,"epoch":null,"seconds":null,"state":"diverged","text":"the loss is <nan>"}' >>ended.jsonl
run 0 report ended.jsonl -f
page_has 'resnet20 diverged after step 98 of 1,560'
page_has 'It ended with an error: the loss is &lt;nan&gt;'
cp begun/log.jsonl ended.jsonl
echo '{"event":"error","state":"failed","text":"disk full"}' >>ended.jsonl
run 0 report ended.jsonl -f
page_has 'resnet20 failed after step 98 of 1,560'
cp begun/log.jsonl ended.jsonl
echo '{"event":"end","state":"stopped","steps":98}' >>ended.jsonl
run 0 report ended.jsonl -f
page_has 'resnet20 was stopped after step 98 of 1,560'

# ---- a log of version 1 ----

log v1.jsonl --version 1
run 0 report v1.jsonl -f
err_has 'a log of an older version'
page_has 'The log is of an older version'
page_has 'id="loss"'
page_has 'id="errors-1"'
page_has 'Memory by step is not in the log'
page_lacks 'id="memory-1"'

# ---- lines done again after a resume: the last ones count ----

{
    grep -v '"event": *"end"' first/log.jsonl | head -n 200
    grep '"event":"start"' first/log.jsonl | sed 's/"resumed":false/"resumed":true/'
    echo '{"event":"step","step":5,"epoch":0,"seconds":9.5,"train_loss":7.125}'
    echo '{"event":"step","step":6,"epoch":0,"seconds":9.6,"train_loss":7.25}'
} >resumed.jsonl
run 0 report resumed.jsonl -f
page_has '<td>7.125</td>'
if [ "$(grep -c '^<tr data-x="[0-9.]*"><th scope="row">6</th>' report.html)" -ge 1 ]; then pass; else fault "no row of step 6"; fi
page_lacks '<th scope="row">7</th>'
page_has '2 processes'

# ---- what is no log ----

echo 'hello' >words.txt
run 3 report words.txt -o none.html
err_has 'words.txt: no log of comet train'
: >nothing.jsonl
run 3 report nothing.jsonl -o none.html
err_has 'nothing.jsonl: the file is empty'
echo '{"event": "tea"}' >other.jsonl
run 3 report first other.jsonl -o none.html
err_has 'other.jsonl: no log of comet train'
head -c 3000 /dev/urandom >noise.jsonl
run 3 report noise.jsonl -o none.html
run 3 report missing -o none.html
err_has 'missing: No such file'
absent none.html
sed '30s/.*/not a line/' first/log.jsonl >damaged.jsonl
run 0 report damaged.jsonl -f
err_has 'damaged.jsonl: 1 line is not of a run and left out; the first is line 30'
page_has 'the first is line 30'

# ---- text from a log is never markup ----

evil='<script>alert(1)</script>'
sed -e "s|\"layer\":\"conv1\"|\"layer\":\"$evil\"|; s|\"net\":\"[a-z0-9]*\"|\"net\":\"$evil\"|; s|\"what\":\"relu\"|\"what\":\"\\\\u001b\\\"'>$evil\"|" \
    -e "s|cifar10:/data|$evil|; s|\"text\":\"|&$evil|; s|\\[\"conv1\"|[\"$evil\"|g; s|\"--out\"|\"$evil\"|; s|Example CPU|$evil|" first/log.jsonl >evil.jsonl
run 0 report evil.jsonl -f
page_lacks 'script>alert'
page_has '&lt;script&gt;alert(1)&lt;/script&gt;'
if [ "$(grep -c '<script' report.html)" -eq 1 ]; then pass; else fault "more than one script"; fi

# ---- numbers that no run writes ----

{
    echo '{"event":"start","log_version":2,"n_steps":1e300,"n_epochs":-1,"batch":0,"train_images":-5,"image":[1,"x",null],"command":[1,null]}'
    echo '{"event":"step","step":-4,"train_loss":1e308,"rss_bytes":-1e308,"time":{"forward":-3}}'
    echo '{"event":"step","step":1e308,"train_loss":-1e308,"saved_bytes":1e308,"time":7}'
    echo '{"event":"epoch","step":2,"epoch":1e-300,"top1":-7,"loss":null}'
    echo '{"event":"assess","step":2,"layer":5,"eb":-1,"bytes":0,"ratio":1e300,"tensor":"x"}'
    echo '{"event":"timeline","step":2,"points":[[1,2],["a"],["b","backward",1e300,"x"],7]}'
    echo '{"event":"end","top1":"x","steps":[]}'
} >odd.jsonl
run 0 report odd.jsonl -f
page_lacks '[^i]nan[^cd]'
page_lacks 'inf[^o]'

# ---- long runs ----

log long.jsonl --epochs 90 --layers 55 --net resnet50
run 0 report long.jsonl -f
if [ "$(size_of report.html)" -lt 2000000 ]; then pass; else fault "the page of 90 epochs has $(size_of report.html) bytes"; fi
# The largest and smallest losses are in the table of the chart.
for extreme in $("$python" -c '
import json
losses = [e["train_loss"] for e in map(json.loads, open("long.jsonl")) if e["event"] == "step"]
print("%.4g %.4g" % (min(losses), max(losses)))'); do page_has "<td>$extreme</td>"; done

# ---- live ----

head -n 100 first/log.jsonl >live.jsonl
"$comet" report live.jsonl --live -f 2>.err &
pid=$!
for _ in $(seq 100); do
    grep -q 'following 1 run' .err && break
    sleep 0.1
done
page_has 'data-live="5"'
cp first/log.jsonl live.jsonl
wait $pid
code=$?
last="comet report --live"
if [ $code -eq 0 ]; then pass; else fault "exit $code, expected 0"; fi
page_lacks 'data-live='
page_has 'resnet20 finished its 1,560 steps'
head -n 100 first/log.jsonl >live.jsonl
"$comet" report live.jsonl --live -f 2>.err &
pid=$!
for _ in $(seq 100); do
    grep -q 'following 1 run' .err && break
    sleep 0.1
done
# After the page was written again, which has handlers of its own for signals.
head -n 200 first/log.jsonl >live.jsonl
before=$(size_of report.html)
for _ in $(seq 100); do
    [ "$(size_of report.html)" -ne "$before" ] && break
    sleep 0.1
done
kill -TERM $pid
wait $pid
code=$?
if [ $code -eq 143 ]; then pass; else fault "exit $code, expected 143"; fi
page_lacks 'data-live='

# ---- event files for TensorBoard, read with their checks ----

run 0 report first second -f --tensorboard events
err_has 'events: event files; tensorboard --logdir events'
# The first start has the date 2026-05-04T09:30:00Z.
file=events/first/events.out.tfevents.1777887000.comet
present $file
present events/second/events.out.tfevents.1777887000.comet
shell 0 "$python $source/tests/cli/report/read_events.py $file"
out_has "^loss/train $(grep -c '"event":"step"' first/log.jsonl)$"
out_has '^loss/test 4$'
out_has "^memory/saved_bytes $(grep -c '"event":"step"' first/log.jsonl)$"
out_has '^layer_sigma_ratio/fc.relu '
shell 0 "$python $source/tests/cli/report/read_events.py $file loss/test"
cp .out values
shell 0 "$python -c 'import json, struct
for e in map(json.loads, open(\"first/log.jsonl\")):
    if e[\"event\"] == \"epoch\":
        print(e[\"step\"], \"%.7g\" % struct.unpack(\"f\", struct.pack(\"f\", e[\"loss\"])))'"
same .out values
run 1 report first -f -o again.html --tensorboard $file
rm report.html
run 1 report first --tensorboard events
err_has 'tfevents.1777887000.comet already exists; -f overwrites it'
absent report.html
run 0 report empty --tensorboard none
absent none
