"""The true peak memory of a function, which runs in a fresh process of its own.

The kernel's high-water mark of resident memory (VmHWM) starts anew there, with neither the caller's data nor memory that its
allocator keeps. ru_maxrss is not used: it survives exec, so that a child begins with its parent's.
"""

import dataclasses
import multiprocessing
import pickle
import traceback

from comet_codec import CometError

_STATUS, _CLEAR = "/proc/self/status", "/proc/self/clear_refs"


@dataclasses.dataclass(frozen=True)
class Peak:
    """What a function returned, and the resident memory of its process, in bytes."""

    result: object
    gross: int    # most of the whole process
    net: int      # most while the function ran, less what was resident when it began
    imports: int  # resident when it began: Python, the imported modules, the arguments

    def __str__(self):
        return f"peak {self.net / 1e6:.0f} MB, {self.gross / 1e6:.0f} MB with the {self.imports / 1e6:.0f} MB of imports"


def resident(key):
    """VmRSS or VmHWM of this process, in bytes."""
    with open(_STATUS, encoding="ascii") as lines:
        for line in lines:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise CometError(f"{_STATUS} has no {key}: the peak is not known here", "unsupported")


def restart_high_water():
    """The mark falls to what is resident; where the kernel refuses, it stays."""
    try:
        with open(_CLEAR, "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def _measure(function, arguments, named):
    before = resident("VmHWM")
    restart_high_water()
    imports = resident("VmRSS")
    result = function(*arguments, **named)
    most = resident("VmHWM")
    return {"gross": max(before, most), "net": most - imports, "imports": imports, "result": result}


def _child(pipe, function, arguments, named):
    """Sends the figures and the result, or what went wrong in words."""
    try:
        message = pickle.dumps(_measure(function, arguments, named))
    except BaseException as error:  # whatever it is, it is told to the caller
        words = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        message = pickle.dumps(f"{type(error).__name__}: {error}\n\nin the process that was measured:\n{words}")
    pipe.send_bytes(message)
    pipe.close()


def _ending(process):
    """How a process that sent nothing ended, in words."""
    process.join()
    code = process.exitcode
    if code < 0:
        return f"the process was ended by signal {-code}" + (", as where memory runs out" if code == -9 else "")
    return (f"the process exited with {code} before the function returned; a script that calls peak() needs "
            '`if __name__ == "__main__":` around what it does')


def peak(function, *arguments, **named):
    """Calls function(*arguments, **named) in a fresh process and returns its Peak.

    The function, its arguments and its result must be picklable; a function of a script or module is. Modules that the function
    imports while it runs count in `net`. Raises CometError where the function raises, or its process ends without a result.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, function, arguments, named))
    try:
        process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise CometError(f"{function!r} cannot be sent to another process: {error}; define it in a module or script", "argument") from error
    sender.close()
    try:
        message = pickle.loads(receiver.recv_bytes())
    except EOFError:
        raise CometError(f"{function!r} was not measured: {_ending(process)}", "measure") from None
    finally:
        receiver.close()
        process.join()
    if isinstance(message, str):
        raise CometError(f"{function!r} raised {message}", "measure")
    return Peak(**message)
