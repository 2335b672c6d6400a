"""What scripts that measure processes share: memory of the running process, and the last line of a program as JSON."""
import json
import os
import subprocess
import sys


def peak_rss():
    """The most memory that this process had resident, in bytes, since it began or since reset_peak_rss."""
    return _status("VmHWM")


def rss():
    return _status("VmRSS")


def reset_peak_rss():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _status(field):
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def last_json(command, threads):
    """What `command` printed last, which must be one JSON object; ends this program where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment(threads), check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nfailed: {done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def environment(threads, **more):
    return dict(os.environ, OMP_NUM_THREADS=str(threads), **more)


def print_head(names):
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names), flush=True)


def print_row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)
