"""Which contents exist: by the identity of the live storage that they were coded from, never by address."""
import weakref

from .handles import is_unchanged


class Registry:
    """Contents hold a weak reference to their storage, which keeps its identity from being used again, without keeping its memory."""

    def __init__(self):
        self.entries = {}  # identity of a storage: weak references to its contents, a tuple

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
            self.entries[key] = (content.reference,)
        else:
            self.entries[key] = (*entry, content.reference)

    def forget(self, content):
        """Called by a content that is going away."""
        entry = self.entries.get(content.key)
        if entry is None or content.reference not in entry:  # it is of an earlier forward
            return
        if len(entry) == 1:
            del self.entries[content.key]
        else:
            self.entries[content.key] = tuple(one for one in entry if one is not content.reference)


def _covers(content, tensor):
    if content.dtype != tensor.dtype or not is_unchanged(content, tensor):
        return False
    shape, stride = tensor.shape, tensor.stride()
    first = tensor.storage_offset() - content.first
    if first == 0 and shape == content.shape and stride == content.stride:
        return True
    last = first + sum((size - 1) * step for size, step in zip(shape, stride))
    return first >= 0 and last < content.n_elements
