# Progress of comet train on a terminal and in a file.
# shellcheck shell=bash

needs_training
tiny_net

# ---- the progress line on a terminal ----

if command -v script >/dev/null; then
    shell 0 'script -qec "\"$comet\" train $settings" /dev/null >.terminal'
    if grep -q 'mean loss [0-9.]*  .* images/s  .* left' .terminal; then pass; else fault "no progress line on a terminal"; fi
fi

# ---- and lines of it in a file, the first after ten seconds ----

last="comet train, its progress in a file"
"$comet" train --net tiny.txt $data --batch 20 --epochs 1000000 -j 1 --json >.out 2>.err </dev/null &
pid=$!
for _ in $(seq 600); do
    grep -q 'images/s' .err && break
    sleep 0.1
done
kill -TERM $pid
wait $pid
err_has '^epoch [0-9]*/1000000  step .*  mean loss [0-9.]*  top-1 .* images/s  peak .*  saved .*  .* left$'

# ---- in terminals of 80 and of 40 columns: no line is wider, and what is shown is what the line says ----

command -v "$python" >/dev/null || return 0
# screen COLUMNS: what a terminal of that width gets from a run, in screen.txt, one line each redraw. The log has every step.
screen() {
    last="comet train in a terminal of $1 columns"
    if "$python" - "$1" "$comet" train --net tiny.txt --data synthetic --images 13000 --classes 4 --batch 256 --epochs 2 -j 1 --log screen.jsonl -f >screen.txt 2>.err <<'PYTHON'
import fcntl
import os
import pty
import re
import struct
import sys
import termios

columns, command = int(sys.argv[1]), sys.argv[2:]
master, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
child = os.fork()
if child == 0:
    out = os.open("table.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(terminal, 2)
    os.execv(command[0], command)
os.close(terminal)
data = b""
while True:
    try:
        piece = os.read(master, 65536)
    except OSError:
        break
    if not piece:
        break
    data += piece
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
for line in re.split(r"[\r\n]+", data.decode()):
    line = line.replace("\033[K", "")
    if line and not line.startswith("comet train:"):
        print(line)
sys.exit(code)
PYTHON
    then pass; else fault "it failed"; fi
    if awk -v most=$(($1 - 1)) 'length($0) > most { exit 1 }' screen.txt; then pass; else fault "a line is wider than the terminal: $(awk '{ print length($0) ": " $0 }' screen.txt | sort -n | tail -1)"; fi
}
screen 80
has screen.txt '^epoch [12]/2  step [0-9]*/100  mean loss [0-9.]*  .* images/s  .*[0-9]:[0-9][0-9] left$'
has screen.txt '^epoch [12]/2  evaluating [0-9]*/2600 images$'
lacks table.txt 'evaluating'
# The loss of a step's line is the mean over the last 50 updates.
last="mean loss in the line against the log"
if "$python" - screen.txt screen.jsonl >.out 2>.err <<'PYTHON'
import json
import re
import sys

losses = {}
for line in open(sys.argv[2]):
    event = json.loads(line)
    if event["event"] == "step":
        losses[event["step"]] = event["train_loss"]
checked = 0
for line in open(sys.argv[1]):
    shown = re.search(r"step (\d+)/.* mean loss ([0-9.]+)", line)
    if not shown:
        continue
    step, loss = int(shown[1]), float(shown[2])
    window = [losses[s] for s in range(max(step - 49, 1), step + 1)]
    assert abs(sum(window) / len(window) - loss) < 1e-4, line
    checked += 1
assert checked > 3, checked
PYTHON
then pass; else fault "it is another"; fi
screen 40
has screen.txt '^epoch [12]/2  mean loss [0-9.]*  .*left$'
has screen.txt 'evaluating [0-9]*/2600 images$'
