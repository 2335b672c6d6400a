"""A device of comet/gpu.h for tensors of the CPU, which are copied to it and back: the code path of CUDA tensors without a GPU."""
import ctypes

import torch

from comet_codec._gpu import Pointer
from comet_torch.device_session import DeviceSession
from comet_torch.devices import Devices


class StagedBuffer:
    def __init__(self, device, n_bytes):
        self.device, memory = device, ctypes.c_uint64()
        device.library.comet_gpu_allocate(device.handle, n_bytes + 16, ctypes.byref(memory))
        self.pointer = Pointer(memory.value, 0)

    def __del__(self):
        gpu = self.device.gpu
        if hasattr(self, "pointer") and gpu.handle:
            self.device.finish()  # work of the queue may use it
            gpu.library.comet_gpu_release(gpu.handle, self.pointer.memory)


class StagedDevice:
    """What devices.Cuda is for CUDA. `name` is one of comet_gpu_open, such as "opencl:0"."""

    def __init__(self, name):
        self.name, self.torch_device = name, torch.device("cpu")
        self.n_reads = 0

    def attach(self, gpu):
        self.gpu, self.library, self.handle = gpu, gpu.library, gpu.handle

    def queue(self):
        return None  # its own

    def finish(self):
        if self.gpu.handle:
            self.library.comet_gpu_finish(self.handle)

    wait = finish

    def allocate(self, n_bytes):
        return StagedBuffer(self, n_bytes)

    def read(self, buffer, n_bytes):
        self.n_reads += 1
        data = (ctypes.c_char * n_bytes)()
        self.library.comet_gpu_read(self.handle, buffer.pointer, data, n_bytes)
        return data.raw

    def source(self, tensor):
        buffer = StagedBuffer(self, tensor.numel() * tensor.element_size())
        self.library.comet_gpu_write(self.handle, buffer.pointer, tensor.data_ptr(), tensor.numel() * tensor.element_size())
        return buffer

    def target(self, tensor):
        return StagedBuffer(self, tensor.numel() * tensor.element_size())

    def fill(self, tensor, buffer):
        self.library.comet_gpu_read(self.handle, buffer.pointer, tensor.data_ptr(), tensor.numel() * tensor.element_size())


class StagedDevices(Devices):
    """All tensors are those of one device."""

    def __init__(self, host, session):
        super().__init__(host)
        self.sessions = {"staged": session}

    def of(self, tensor):
        return self.sessions["staged"]


def put_on(memory, name):
    """Tensors that the context of `memory` saves are coded on this device from now on. Returns the session."""
    session = DeviceSession(StagedDevice(name))
    memory.hooks.devices = StagedDevices(memory.session, session)
    return session
