"""What a user is told once in a process, as a warning."""
import warnings

_said = set()


def say_once(topic, text, stacklevel=3):
    if topic not in _said:
        _said.add(topic)
        warnings.warn("comet_torch: " + text, stacklevel=stacklevel)


def say_compiled():
    say_once("compile", "what functions compiled by torch.compile save is left alone: gradients are right, but no memory is saved there, "
             "and with the whole model compiled the peak does not fall.", stacklevel=4)


def forget():
    """Lets everything be said again; for tests."""
    _said.clear()
