"""Which contents exist: by the identity of the live storage that they were coded from, never by address."""
import weakref

from .handles import is_unchanged


class Registry:
    """Contents hold a weak reference to their storage, which keeps its identity from being used again, without keeping its memory."""

    def __init__(self):
        self.entries = {}  # identity of a storage: weak references to its contents

    def find(self, key, tensor):
        """A content that has the values of the tensor, or None."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        for reference in entry:
            content = reference()
            if content is not None and _covers(content, tensor):
                return content
        return None

    def clear(self):
        """Contents so far are shared no longer: memory may be filled anew, in ways that move no version."""
        self.entries.clear()

    def add(self, storage, content):
        key = content.key = storage._cdata
        content.registry, content.reference = self, weakref.ref(content)
        content.storage = storage._weak_ref()
        entry = self.entries.get(key)
        if entry is None:
            self.entries[key] = [content.reference]
        else:
            entry.append(content.reference)

    def forget(self, content):
        """Called by a content that is going away."""
        entry = self.entries.get(content.key)
        if entry is not None and content.reference in entry:  # not where it is of a later forward
            entry.remove(content.reference)
            if not entry:
                del self.entries[content.key]


def _covers(content, tensor):
    if content.dtype != tensor.dtype or not is_unchanged(content, tensor):
        return False
    shape, stride = tensor.shape, tensor.stride()
    first = tensor.storage_offset() - content.first
    if first == 0 and shape == content.shape and stride == content.stride:
        return True
    last = first + sum((size - 1) * step for size, step in zip(shape, stride))
    return first >= 0 and last < content.n_elements
