"""What a user is told once in a process, as a warning."""
import warnings

_said = set()


def say_once(topic, text, stacklevel=3):
    if topic not in _said:
        _said.add(topic)
        warnings.warn("comet_torch: " + text, stacklevel=stacklevel)


def forget():
    """Lets everything be said again; for tests."""
    _said.clear()
