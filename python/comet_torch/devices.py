"""Tensors on devices: who codes them, and what a device has to offer for that.

`Devices.of(tensor)` is the session that codes a tensor: that of the CPU, or a DeviceSession (device_session.py) of the tensor's device.
A device is an object with the methods of `Cuda`: pointers of tensors, the queue that PyTorch works in, and memory from its allocator.
Nothing else depends on the kind of device; tests put an OpenCL device in place of CUDA. No GPU has run this yet.
"""
import torch

from comet_codec import CometError
from comet_codec._gpu import Pointer

from .device_session import DeviceSession
from .notices import say_once

_LEGACY_STREAM = 1  # CU_STREAM_LEGACY: what CUDA calls its default stream where NULL means another one
_ALIGNMENT = 4  # bytes at which a tensor begins


class Buffer:
    """Memory on a device. `pointer` is of its first byte."""

    def __init__(self, tensor):
        self.tensor, self.pointer = tensor, Pointer(tensor.data_ptr(), 0)


class Cuda:
    """A device of torch.cuda."""

    def __init__(self, index):
        self.name, self.torch_device = f"cuda:{index}", torch.device("cuda", index)

    def attach(self, gpu):
        """`gpu` is the library's view of this device (device_session.Gpu); memory is PyTorch's here."""

    def queue(self):
        return torch.cuda.current_stream(self.torch_device).cuda_stream or _LEGACY_STREAM

    def wait(self):
        """Until all queues are empty."""
        torch.cuda.synchronize(self.torch_device)

    def allocate(self, n_bytes):
        """A Buffer, which may be let go once the work that uses it is in the queue."""
        return Buffer(torch.empty(n_bytes, dtype=torch.uint8, device=self.torch_device))

    def read(self, buffer, n_bytes):
        """The first bytes of a buffer, after the work in the queue."""
        return buffer.tensor[:n_bytes].cpu().numpy().tobytes()

    def source(self, tensor):
        """A Buffer with the values of a dense tensor."""
        return Buffer(tensor if tensor.data_ptr() % _ALIGNMENT == 0 else tensor.clone())

    def target(self, tensor):
        """A Buffer to decode a dense tensor into, which `fill` brings there."""
        return Buffer(tensor)

    def fill(self, tensor, buffer):
        """The work that writes the buffer is in the queue."""


class Devices:
    def __init__(self, host):
        self.host = host  # the session for tensors of the CPU
        self.sessions = {}  # by device; None where it is not served

    def of(self, tensor):
        """The session that codes a tensor, or None."""
        if tensor.is_cpu:
            return self.host
        device = tensor.device
        if device not in self.sessions:
            self.sessions[device] = self._open(device)
        return self.sessions[device]

    def _open(self, device):
        if device.type != "cuda" or torch.version.cuda is None:
            say_once(device.type, f"tensors on device {device.type} are left alone: this build codes those of the CPU and of CUDA.",
                     stacklevel=6)
            return None
        try:
            return DeviceSession(Cuda(device.index))
        except CometError as error:
            say_once(str(device), f"tensors on device {device} are left alone: {error}", stacklevel=6)
            return None

    def check(self):
        """Raises CometError where a device reported a failure since the last call."""
        for session in self.sessions.values():
            if session is not None:
                session.check()
