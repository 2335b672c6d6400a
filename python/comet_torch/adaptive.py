"""The adaptive bound of the native library, src/adapt/adapt.h, as a Python object."""
import ctypes
from typing import NamedTuple

from comet_codec._library import Consumer, native

_RULE_NOISE = 0


class ConsumerState(NamedTuple):
    """A parameter consumer for the report; each sigma is per weight, NaN where unknown."""

    sigma_target: float
    sigma_predicted: float
    sigma_measured: float
    sigma_ratio: float
    limits: bool


class Adaptive:
    """Tensors, their consumers, what these observe, and the bounds that follow. Numbers of tensors and consumers begin at 0."""

    def __init__(self, share, window, best_fit=True):
        self._native = native()
        handle = ctypes.c_void_p()
        self._native.comet_native_adapt_create(ctypes.byref(handle), _RULE_NOISE, share, window, int(best_fit))
        self._handle = handle
        self._forget()

    def _forget(self):
        """Bounds change now; between such calls they are asked for with every tensor."""
        self._bounds, self.n_assessed = {}, self._native.comet_native_adapt_n_assessed(self._handle)

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            self._native.comet_native_adapt_destroy(handle)

    def add_tensor(self, name, n_elements):
        tensor = ctypes.c_uint32()
        self._native.comet_native_adapt_add_tensor(self._handle, name.encode(), n_elements, ctypes.byref(tensor))
        return tensor.value

    def add_consumer(self, tensor, name, n_weights):
        """A parameter consumer; with n_weights 0 a pass-on consumer."""
        consumer = ctypes.c_uint32()
        if n_weights:
            self._native.comet_native_adapt_add_parameter(self._handle, tensor, name.encode(), n_weights, ctypes.byref(consumer))
        else:
            self._native.comet_native_adapt_add_pass(self._handle, tensor, name.encode(), ctypes.byref(consumer))
        self._forget()
        return consumer.value

    def due(self, step):
        return bool(self._native.comet_native_adapt_due(self._handle, step))

    def complete(self, step):
        return bool(self._native.comet_native_adapt_complete(self._handle, step))

    def observe(self, consumer, gain, noise, measured, eb):
        self._native.comet_native_adapt_observe(self._handle, consumer, gain, noise, 0.0, measured, eb)

    def assess(self, step):
        self._native.comet_native_adapt_assess(self._handle, step)
        self._forget()

    def retreat(self, step):
        self._native.comet_native_adapt_retreat(self._handle, step)
        self._forget()

    def restart(self, step):
        self._native.comet_native_adapt_restart(self._handle, step)
        self._forget()

    def eb(self, tensor):
        eb = self._bounds.get(tensor)
        if eb is None:
            eb = self._bounds[tensor] = self._native.comet_native_adapt_eb(self._handle, tensor)
        return eb

    def consumer(self, consumer):
        c = Consumer()
        self._native.comet_native_adapt_consumer(self._handle, consumer, ctypes.byref(c))
        return ConsumerState(c.sigma_target, c.sigma_predicted, c.sigma_measured, c.sigma_ratio, bool(c.limits))

    def numbers(self):
        n = self._native.comet_native_adapt_n_numbers(self._handle)
        numbers = (ctypes.c_double * n)()
        self._native.comet_native_adapt_export(self._handle, numbers, n)
        return list(numbers)

    def load_numbers(self, numbers):
        self._native.comet_native_adapt_import(self._handle, (ctypes.c_double * len(numbers))(*numbers), len(numbers))
        self._forget()
