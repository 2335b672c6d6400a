"""`python -m comet_torch run script.py ...`: starts a script with an allocator that gives memory back (allocator.py)."""

import argparse
import os
import subprocess
import sys

from comet_codec import CometError

from . import allocator

EPILOG = """examples:
  python -m comet_torch run train.py --epochs 10
  python -m comet_torch run -m package.train --epochs 10
  python -m comet_torch run --allocator glibc train.py"""


def parser():
    top = argparse.ArgumentParser(prog="python -m comet_torch", description="Comet for PyTorch.", epilog=EPILOG,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    run = verbs.add_parser("run", help="start a script with an allocator that gives freed memory back", epilog=EPILOG,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    run.add_argument("--allocator", choices=allocator.KINDS,
                     help="jemalloc, which has to be installed, or glibc with tunables (default: jemalloc where it is installed)")
    run.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module, as in python -m")
    run.add_argument("script", metavar="SCRIPT", help="the script, as in python SCRIPT")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    return top


def command(arguments):
    """The words that start the script with this Python and its flags."""
    script = ["-m", arguments.script] if arguments.module else [arguments.script]
    return [sys.executable, *subprocess._args_from_interpreter_flags(), *script, *arguments.arguments]


def main():
    arguments = parser().parse_args()
    try:
        environment = allocator.environment(arguments.allocator)
    except CometError as error:
        sys.exit(f"comet_torch: {error}")
    if not arguments.module and not os.path.exists(arguments.script):
        sys.exit(f"comet_torch: there is no script {arguments.script}")
    sys.stdout.flush()
    words = command(arguments)
    os.execve(words[0], words, environment)


if __name__ == "__main__":
    main()
