"""Tensors to frames in the memory of a device and back: what session.Session is for the CPU, with level fast and profile device.

Frames lie one after the other in slabs, each as long as it is: the device moves the slab's end, and the host does not wait for it. The
host knows how long a frame can be at the most. Only where that might not fit, and at the first decode after an encode, it reads what
the device has noted of the frames so far: offset, length and status. A slab whose frames are all gone is used again or given back.
Decoding leaves a status, too, which `check` looks at: once a step.
"""
import ctypes
import functools
import sys

import torch

from comet_codec import CometError
from comet_codec._gpu import ARENA_HEAD, RESULT_BYTES, Arena, Params, Plan, Pointer, Result, Tensor, gpu
from comet_codec._library import ABSOLUTE, CHANNELS_LAST, DEVICE, FAST, LOSSLESS, PLANAR, STATUS_NAMES

from .bounds import made_absolute
from .device_bits import Booleans, Indices, Packed
from .roles import LOSSY, Role
from .session import DTYPES

_SLAB_BYTES = 64 << 20
_FRAMES_A_SLAB = 4  # of the longest length of the frame that a slab is made for, at the least
_RESULTS = 512  # of a slab, and of decoding between two checks
_MOST_INDICES = 1 << 31  # of a plane that indices of pools number
_TYPES = frozenset({torch.float32, torch.float16, torch.bfloat16})


def _rounded(n, unit=256):
    return -(-n // unit) * unit


def _demand(result, what):
    if result.status:
        status = STATUS_NAMES.get(result.status, result.status)
        raise CometError(f"{what} on the device failed: status {status}, {result.bytes} bytes", "device")


class Results:
    """Results that the device writes, one after the other."""

    def __init__(self, device):
        self.device, self.buffer = device, device.allocate(_RESULTS * RESULT_BYTES)
        self.n, self.seen = 0, []

    def next(self):
        """The place of one more."""
        self.n += 1
        p = self.buffer.pointer
        return Pointer(p.memory, p.offset + (self.n - 1) * RESULT_BYTES)

    def look(self):
        """All so far; waits for the device where some have not been seen."""
        if len(self.seen) < self.n:
            data = self.device.read(self.buffer, self.n * RESULT_BYTES)
            self.seen = [Result.from_buffer_copy(data, i * RESULT_BYTES) for i in range(self.n)]
        return self.seen

    def clear(self):
        self.n, self.seen = 0, []


class Slab:
    """An arena of comet/gpu.h."""

    def __init__(self, device, n_bytes, queue):
        self.room, self.queue = n_bytes, queue
        self.buffer, self.results = device.allocate(ARENA_HEAD + n_bytes), Results(device)
        self.arena = Arena(self.buffer.pointer, ARENA_HEAD + n_bytes)
        self.n_live = 0
        self.begin()

    def begin(self):
        """No frame of it is left."""
        self.results.clear()
        self.end, self.fresh = 0, True  # no frame reaches beyond `end`

    def fits(self, n_bytes, queue):
        if self.queue != queue or self.results.n == _RESULTS:
            return False
        if self.end + n_bytes > self.room:
            self.end = sum(_rounded(result.bytes) for result in self.results.look() if result.status == 0)
        return self.end + n_bytes <= self.room


class Frame:
    """A block: where a tensor's frame is, and how it was made."""

    __slots__ = ("slab", "index", "tensor", "params", "plan")

    def __init__(self, slab, index, tensor, params, plan):
        self.slab, self.index = slab, index
        self.tensor, self.params, self.plan = tensor, params, plan

    def result(self):
        result = self.slab.results.look()[self.index]
        _demand(result, "encoding")
        return result


class Gpu:
    """A device that the library has opened."""

    def __init__(self, name):
        self.handle = None  # also once it is closed: the garbage collector may do so before others that use it are gone
        self.library, handle = gpu(), ctypes.c_void_p()
        self.library.comet_gpu_open(name.encode(), None, ctypes.byref(handle))
        self.handle = handle.value

    def __del__(self):
        handle, self.handle = self.handle, None
        if handle:
            self.library.comet_gpu_close(handle)


class DeviceSession:
    counts_zeros = False

    def __init__(self, device):
        self.gpu, self.device = Gpu(device.name), device
        self.library, self.handle = self.gpu.library, self.gpu.handle
        device.attach(self.gpu)
        self.slabs, self.decoded = [], Results(device)
        self.empty_strided = functools.partial(torch.empty_strided, device=device.torch_device)

    def __del__(self):
        if hasattr(self, "decoded") and not sys.is_finalizing():
            self.device.wait()  # its kernels may be running

    def serves(self, role, tensor):
        if tensor.dtype in _TYPES:
            return role in LOSSY or role is Role.INTERVAL
        return tensor.dtype in (torch.bool, torch.int64)  # of these, what the methods pack_... take

    # ---- encoding ----

    def encode(self, prepared, tensor, bound, support=False, seed=None):
        """A Frame of a tensor that is as `prepared` says, whose job gets the bound; lengths are known later (block_bytes)."""
        bound = made_absolute(bound, [tensor])
        described = self._tensor(prepared)
        params = self._params(bound, support or bound.keep_support, seed)
        plan = Plan()
        self.library.comet_gpu_plan_init(ctypes.byref(plan))
        self.library.comet_gpu_plan_tensor(ctypes.byref(described), ctypes.byref(params), ctypes.byref(plan))
        queue = self.device.queue()
        slab = self._slab(_rounded(plan.frame_bytes), queue)
        source, workspace = self.device.source(tensor), self.device.allocate(plan.encode_bytes)
        frame = Frame(slab, slab.results.n, described, params, plan)
        self.library.comet_gpu_encode_to_arena(self.handle, ctypes.byref(described), ctypes.byref(params), source.pointer,
                                               ctypes.byref(slab.arena), workspace.pointer, slab.results.next(), queue)
        slab.end += _rounded(plan.frame_bytes)
        slab.n_live += 1
        job = prepared.job
        job.eb, job.bytes_raw, job.bytes_coded, job.bytes_block = bound.eb, plan.tensor_bytes, 0, 0
        job.n_nonzero, job.n_nonfinite, job.seconds = plan.n_elements, 0, 0.0
        return frame

    def _tensor(self, prepared):
        described, dims = Tensor(), prepared.job.dims
        self.library.comet_tensor_init(ctypes.byref(described), DTYPES[prepared.dtype], prepared.job.n_dims, dims)
        described.layout = CHANNELS_LAST if prepared.channels_last else PLANAR
        return described

    def _params(self, bound, keep_support, seed):
        params = Params()
        self.library.comet_params_init(ctypes.byref(params))
        params.bound_mode, params.bound = (LOSSLESS, 0.0) if bound.lossless else (ABSOLUTE, bound.eb)
        params.level, params.profile = FAST, DEVICE
        params.keep_support = keep_support and not bound.lossless
        params.dither, params.dither_seed = seed is not None, seed or 0
        return params

    def _slab(self, n_bytes, queue):
        """A slab with room for a frame of n_bytes at the most."""
        slab = next((one for one in reversed(self.slabs) if one.fits(n_bytes, queue)), None)
        if slab is None:
            slab = Slab(self.device, max(_SLAB_BYTES, _FRAMES_A_SLAB * n_bytes), queue)
            self.slabs.append(slab)
        if slab.fresh:
            self.library.comet_gpu_arena_reset(self.handle, ctypes.byref(slab.arena), 0, queue)
            slab.fresh = False
        return slab

    def pack_two(self, tensor):
        """A block of booleans. For others the host would have to wait for what the device finds in them."""
        return Booleans(tensor) if tensor.dtype is torch.bool else None

    def pack_integers(self, tensor):
        """How large they are is not known without waiting for the device."""
        return None

    def pack_windows(self, indices, width, kernel, stride, padding, dilation):
        """A block of max pooling's indices, as session.Session.pack_windows describes them."""
        height = (indices.shape[2] - 1) * stride[0] + (kernel[0] - 1) * dilation[0] + 1
        return Indices(indices, height * width) if height * width <= _MOST_INDICES else None

    # ---- decoding ----

    def decode(self, block, tensor, n_bytes):
        """Decodes into a tensor of n_bytes that is dense in memory."""
        if isinstance(block, Packed):
            block.decode(tensor)
        else:
            self._decode_frame(block, tensor)

    def _decode_frame(self, frame, tensor):
        result, slab, queue = frame.result(), frame.slab, self.device.queue()
        if queue != slab.queue:
            self.device.wait()
        if self.decoded.n == _RESULTS:
            self.check()
        begin = slab.buffer.pointer
        place = Pointer(begin.memory, begin.offset + ARENA_HEAD + result.offset)
        target, workspace = self.device.target(tensor), self.device.allocate(frame.plan.decode_bytes)
        self.library.comet_gpu_decode(self.handle, ctypes.byref(frame.tensor), ctypes.byref(frame.params), place, result.bytes,
                                      target.pointer, workspace.pointer, self.decoded.next(), queue)
        self.device.fill(tensor, target)

    def check(self):
        results, self.decoded = self.decoded.look(), Results(self.device)
        for result in results:
            _demand(result, "decoding")

    # ---- blocks ----

    def block_bytes(self, block):
        """What the block takes; for a frame, waits for the device."""
        return block.bytes if isinstance(block, Packed) else _rounded(block.result().bytes)

    def free(self, block):
        if isinstance(block, Packed):
            return
        slab = block.slab
        slab.n_live -= 1
        if slab.n_live == 0:
            slab.begin()
            if len(self.slabs) > 1:
                self.slabs.remove(slab)
