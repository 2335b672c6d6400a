"""Allocators that give memory back, so that fewer stored bytes are a lower peak.

Default glibc keeps what is freed below a threshold that grows to 32 MiB: ten times fewer stored bytes may then save nothing. Two
allocators do better, both with huge pages, without which the page faults of fresh memory cost more time than the codec:

- jemalloc, preloaded, where it is installed (Debian: libjemalloc2),
- glibc with tunables: memory of 1 MiB and more is mapped and unmapped.

They are chosen before a program starts: `python -m comet_torch run script.py ...` (__main__.py) does.
"""

import ctypes
import ctypes.util
import glob
import os
import platform

from comet_codec import CometError

from .notices import say_once

KINDS = ("jemalloc", "glibc")

_JEMALLOC_PLACES = ("/usr/lib/*/libjemalloc.so.2", "/usr/lib64/libjemalloc.so.2", "/usr/lib/libjemalloc.so.2",
                    "/usr/local/lib/libjemalloc.so.2")
_JEMALLOC_OPTIONS = "thp:always"
_GLIBC_TUNABLES = "glibc.malloc.mmap_threshold=1048576:glibc.malloc.trim_threshold=16777216:glibc.malloc.hugetlb=1"
# Functions that only the allocator of that name has.
_SIGNS = {"jemalloc": "mallctl", "tcmalloc": "tc_malloc", "mimalloc": "mi_malloc"}


def find_jemalloc():
    """The file of the jemalloc that is installed, or None."""
    for pattern in _JEMALLOC_PLACES:
        for path in sorted(glob.glob(pattern)):
            if platform.machine() in path or "*" not in pattern:
                return path
    return ctypes.util.find_library("jemalloc")


def environment(kind=None, given=None):
    """A copy of the environment `given` (os.environ) in which a new process uses an allocator of KINDS; None: the first there is.

    What the environment says already is kept, and wins where it sets the same option.
    """
    given = dict(os.environ if given is None else given)
    jemalloc = find_jemalloc() if kind in (None, "jemalloc") else None
    if kind == "jemalloc" and jemalloc is None:
        raise CometError("jemalloc is not installed: install it (Debian, Ubuntu: libjemalloc2), or use --allocator glibc", "argument")
    if jemalloc is not None:
        given["LD_PRELOAD"] = _joined(":", jemalloc, given.get("LD_PRELOAD"))
        given["MALLOC_CONF"] = _joined(",", _JEMALLOC_OPTIONS, given.get("MALLOC_CONF"))
    elif kind in (None, "glibc"):
        given["GLIBC_TUNABLES"] = _joined(":", _GLIBC_TUNABLES, given.get("GLIBC_TUNABLES"))
    else:
        raise CometError(f"unknown allocator {kind!r}; choose {' or '.join(KINDS)}", "argument")
    return given


def _joined(separator, ours, theirs):
    """Ours before theirs, unless ours is there already."""
    if theirs and (theirs + separator).startswith(ours + separator):
        return theirs
    return separator.join(filter(None, (ours, theirs)))


def in_use():
    """The allocator of this process: "jemalloc", "tcmalloc", "mimalloc", "glibc", "tuned glibc" or "unknown"."""
    process = ctypes.CDLL(None)
    for name, sign in _SIGNS.items():
        if hasattr(process, sign):
            return name
    if platform.libc_ver()[0] != "glibc":
        return "unknown"
    tuned = "glibc.malloc.mmap_threshold=" in os.environ.get("GLIBC_TUNABLES", "") or "MALLOC_MMAP_THRESHOLD_" in os.environ
    return "tuned glibc" if tuned else "glibc"


def warn_once_if_default_allocator_defeats_saving():
    """Says, once in a process, where default glibc keeps freed memory."""
    if in_use() == "glibc":
        say_once("allocator", "the default allocator of glibc keeps freed memory, so the peak may not fall however little is stored: "
                              "start the script with `python -m comet_torch run script.py ...`", stacklevel=4)
