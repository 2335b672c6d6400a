"""Which contents exist: by the identity of the live storage that they were coded from, never by address."""
import weakref

from torch.multiprocessing.reductions import StorageWeakRef


class Registry:
    """A weak reference to each storage keeps its identity from being used again, without keeping its memory."""

    def __init__(self):
        self.entries = {}  # identity: (weak reference to the storage, weak references to its contents)

    def find(self, key, tensor):
        """A content that has the values of the tensor, or None."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        for reference in entry[1]:
            content = reference()
            if content is not None and _covers(content, tensor):
                return content
        return None

    def clear(self):
        """Contents so far are shared no longer: memory may be filled anew, in ways that move no version."""
        self.entries.clear()

    def add(self, storage, content):
        key = storage._cdata
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = (StorageWeakRef(storage), [])
        entry[1].append(weakref.ref(content))
        content.registry, content.key = self, key

    def forget(self, content):
        """Called by a content that is going away."""
        entry = self.entries.get(content.key)
        if entry is not None:
            entry[1][:] = [reference for reference in entry[1] if reference() not in (None, content)]
            if not entry[1]:
                del self.entries[content.key]


def _covers(content, tensor):
    if content.dtype != tensor.dtype or not content.counter.is_of(tensor):
        return False
    shape, stride = tensor.shape, tensor.stride()
    first = tensor.storage_offset() - content.first
    if first == 0 and shape == content.shape and stride == content.stride:
        return True
    last = first + sum((size - 1) * step for size, step in zip(shape, stride))
    return first >= 0 and last < content.n_elements
