#!/usr/bin/env python3
"""Prints the codec's figures on a folder of activations as Markdown tables.

usage: bench/codec_table.py build/comet FOLDER [--quick]

FOLDER holds float32 .npy files; those named *_conv*_in (without conv1_in) are the conv set, *bn*_in the bn set. Ratios are taken on
the tensors as they are, speeds on 64 MB made of them, everything on one thread unless said. Leave the machine alone meanwhile.
"""
import glob
import json
import os
import subprocess
import sys

BOUNDS = ("0.02std", "0.1std", "0.3std")


def totals(comet, files, *options):
    """The total rows of one benchmark, by codec."""
    command = [comet, "bench", "codec", *files, "--json", *options]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    return {row.get("codec", "comet"): row for row in rows if row["file"] == "total"}


def table(title, head, rows):
    print(f"\n{title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def ratios(comet, sets, layouts):
    for level in ("fast", "dense"):
        for layout in layouts:
            found = [f"{totals(comet, files, '-e', e, '-l', level, '-j', '1', '--layout', layout)['comet']['ratio']:.2f}"
                     for files in sets for e in BOUNDS]
            yield [level, layout, " / ".join(found[:3]), " / ".join(found[3:])]


def speeds(comet, sets, layouts, peers):
    for level in ("fast", "dense"):
        for layout in layouts:
            for name, files in zip(("conv", "bn"), sets):
                for e in BOUNDS:
                    options = ["-e", e, "-l", level, "-j", "1", "--min-mb", "64", "--layout", layout]
                    found = totals(comet, files, *options, *(["--peers"] if level == "dense" and peers else []))
                    ours = found["comet"]
                    row = [level, layout, name, e, f"{ours['compress_gbps']:.2f}", f"{ours['decompress_gbps']:.2f}",
                           f"{ours['memcpy_gbps']:.2f}"]
                    if "zfp" in found:
                        zfp = found["zfp"]
                        row.append(f"{ours['compress_gbps'] / zfp['compress_gbps']:.1f} / "
                                   f"{ours['decompress_gbps'] / zfp['decompress_gbps']:.1f} of zfp's "
                                   f"{zfp['compress_gbps']:.2f} / {zfp['decompress_gbps']:.2f}")
                    else:
                        row.append(f"{ours['compress_gbps'] / ours['memcpy_gbps']:.2f} / "
                                   f"{ours['decompress_gbps'] / ours['memcpy_gbps']:.2f} of memcpy")
                    yield row


def threads(comet, files):
    for level in ("fast", "dense"):
        one, two = (totals(comet, files, "-e", "0.1std", "-l", level, "-j", j, "--min-mb", "64")["comet"] for j in "12")
        yield [level] + [f"{one[k]:.2f} to {two[k]:.2f}: {two[k] / one[k]:.2f}" for k in ("compress_gbps", "decompress_gbps")]


def main():
    comet, folder = sys.argv[1:3]
    quick = "--quick" in sys.argv
    layouts = ("nchw",) if quick else ("nchw", "nhwc", "nChw16c")
    files = sorted(glob.glob(os.path.join(folder, "*.npy")))
    sets = ([f for f in files if "_conv" in os.path.basename(f)], [f for f in files if "bn" in os.path.basename(f)])
    table("Ratios at 0.02 / 0.1 / 0.3 standard deviations", ("level", "layout", "conv", "bn"), ratios(comet, sets, layouts))
    table("GB/s of uncompressed bytes, one thread", ("level", "layout", "set", "bound", "compress", "decompress", "memcpy", "ratio"),
          speeds(comet, sets, layouts, True))
    table("GB/s with one and with two threads", ("level", "compress", "decompress"), threads(comet, sets[0] + sets[1]))


main()
