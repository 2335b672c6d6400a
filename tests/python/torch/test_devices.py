"""Tensors on devices: the code path of CUDA tensors, on the device that COMET_GPU_DEVICE names (cuda:0 with a driver, or with the mock that
COMET_CUDA_LIBRARY names). Where it names none: opencl:0, which is PoCL where that is installed; skipped without one."""
import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import comet_codec
import comet_torch
from comet_codec import CometError
from comet_codec._gpu import gpu
from comet_torch import device_session, devices, notices, roles
from comet_torch.device_bits import Booleans
from comet_torch.bounds import Bound, lossless, parse_bound
from comet_torch.session import Prepared
from staged_device import StagedDevice, put_on

NAME = os.environ.get("COMET_GPU_DEVICE", "opencl:0")
TYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


@pytest.fixture(scope="module", autouse=True)
def a_device():
    try:
        device_session.DeviceSession(StagedDevice(NAME))
    except CometError as error:
        if "COMET_GPU_DEVICE" in os.environ:
            raise
        pytest.skip(str(error))


@pytest.fixture
def session():
    return device_session.DeviceSession(StagedDevice(NAME))


def values_of(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).cumsum(-1).relu().to(dtype)


def bytes_of(session, frame):
    """What lies in the slab."""
    result = frame.result()
    data = session.device.read(frame.slab.buffer, device_session.ARENA_HEAD + frame.slab.room)
    begin = device_session.ARENA_HEAD + result.offset
    return data[begin : begin + result.bytes]


def bits(tensor):
    return tensor.view(torch.int16 if tensor.element_size() == 2 else torch.int32)


@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.values())
@pytest.mark.parametrize("shape", [(40000,), (3, 5, 33, 47), (2, 70, 190)], ids=str)
def test_frames_are_those_of_the_cpu(session, dtype, shape):
    frames = []
    for seed, bound in enumerate((Bound(0.05, parse_bound(0.05).mode), lossless(), Bound(0.5, parse_bound(0.5).mode, keep_support=True))):
        x = values_of(shape, dtype, seed)
        frames.append((x, bound, session.encode(Prepared(x, False), x, bound)))
    for x, bound, frame in frames:
        array = x.numpy() if dtype != torch.bfloat16 else bits(x).numpy().view(np.uint16)
        expected = comet_codec.compress(array, eb="lossless" if bound.lossless else bound.eb, level="fast", profile="device",
                                        keep_support=bound.keep_support, checksum=False,
                                        type=TYPES[dtype] if dtype == torch.bfloat16 else None)
        assert bytes_of(session, frame) == expected
        decoded = torch.empty_like(x)
        session.decode(frame, decoded, x.numel() * x.element_size())
        again = comet_codec.decompress(expected, bits=dtype == torch.bfloat16)
        assert np.array_equal(bits(decoded).numpy(), again.view(bits(decoded).numpy().dtype).reshape(shape))
        if bound.lossless:
            assert torch.equal(bits(decoded), bits(x))
    session.check()


def test_frames_take_as_much_as_they_have(session):
    tensors = [values_of((100000,), torch.float32, seed) for seed in range(5)]
    frames = [session.encode(Prepared(x, False), x, parse_bound(0.2)) for x in tensors]
    assert session.device.n_reads == 0  # the host does not wait for the device
    ends = [0]
    for frame in frames:
        assert frame.result().offset == ends[-1]
        ends.append(ends[-1] + session.block_bytes(frame))
    assert session.device.n_reads == 1 and len(session.slabs) == 1
    assert ends[-1] < 0.25 * 5 * 400000


def test_slabs_are_used_again_and_given_back(session, monkeypatch):
    monkeypatch.setattr(device_session, "_SLAB_BYTES", 1 << 16)
    x = torch.randn(30000)
    prepared = Prepared(x, False)
    frames = [session.encode(prepared, x, lossless()) for _ in range(12)]
    assert len(session.slabs) > 1
    for frame in frames[1:]:
        session.free(frame)
    assert frames[0].slab in session.slabs and len(session.slabs) <= 2
    decoded = torch.empty_like(x)
    session.decode(frames[0], decoded, 120000)
    assert torch.equal(decoded, x)
    session.free(frames[0])
    assert len(session.slabs) == 1
    slab = session.slabs[0]
    frame = session.encode(prepared, x, lossless())
    assert frame.slab is slab and frame.result().offset == 0


def test_a_failure_on_the_device_is_an_error(session):
    x = values_of((30000,), torch.float32)
    frame = session.encode(Prepared(x, False), x, parse_bound(0.1))
    frame.result()
    frame.params.bound = 0.2  # not what the frame's header says
    session.decode(frame, torch.empty_like(x), 120000)
    with pytest.raises(CometError, match="decoding on the device failed"):
        session.check()
    session.check()  # it is told once


@pytest.mark.parametrize("n", [1, 7, 8, 4099])
def test_booleans_take_a_bit(n, monkeypatch):
    monkeypatch.setattr("comet_torch.device_bits._PIECE", 1024)
    x = torch.rand(n, generator=torch.Generator().manual_seed(n)) < 0.3
    packed, decoded = Booleans(x), torch.empty_like(x)
    packed.decode(decoded)
    assert packed.bytes == (n + 7) // 8 and torch.equal(decoded, x)


def test_booleans_keep_the_order_of_memory():
    x = (torch.rand(2, 5, 3, 7) < 0.5).contiguous(memory_format=torch.channels_last)
    decoded = torch.empty_like(x)
    Booleans(x).decode(decoded)
    assert decoded.stride() == x.stride() and torch.equal(decoded, x)


def test_indices_of_pools_take_two_bytes(session):
    indices = torch.randint(0, 56 * 56, (2, 3, 28, 28))
    block, decoded = session.pack_windows(indices, 56, (2, 2), (2, 2), (0, 0), (1, 1)), torch.empty_like(indices)
    session.decode(block, decoded, indices.numel() * 8)
    assert session.block_bytes(block) == 2 * indices.numel() and torch.equal(decoded, indices)
    wide = torch.randint(0, 400 * 400, (1, 2, 200, 200))
    block = session.pack_windows(wide, 400, (2, 2), (2, 2), (0, 0), (1, 1))
    session.decode(block, wide.zero_(), wide.numel() * 8)
    assert session.block_bytes(block) == 4 * wide.numel() and int(wide.max()) >= 1 << 15


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.norm, self.wide, self.narrow = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x)))
        x = self.norm(x.mean(-1).flatten(1).unflatten(1, (-1, 64)))
        return self.narrow(F.gelu(self.wide(x)))


def gradients(net, x, eb, device, dtype=torch.float32):
    net.zero_grad()
    with comet_torch.compress(eb=eb, level="fast") as mem:
        session = put_on(mem, NAME) if device else None
        net(x.to(dtype)).float().square().mean().backward()
        totals = mem.figures.totals()
        if session:
            session.check()
            assert all(slab.n_live == 0 for slab in session.slabs)
    return [p.grad.clone() for p in net.parameters()], totals


@pytest.mark.parametrize("dtype", TYPES, ids=TYPES.values())
@pytest.mark.parametrize("eb", [0.02, "0.05std", "lossless"])
def test_gradients_are_those_of_the_cpu(dtype, eb):
    torch.manual_seed(0)
    if dtype is torch.float16 and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 1):
        pytest.skip("this torch has no f16 convolutions on the CPU")
    net, x = Net().to(dtype), torch.randn(16, 3, 32, 32)
    on_device, totals = gradients(net, x, eb, True, dtype)
    on_host, _ = gradients(net, x, eb, False, dtype)
    assert totals["tensors"] >= 4 and totals["stored"] > 0
    if eb != "lossless":
        assert totals["ratio"] > 1.5
    for a, b in zip(on_device, on_host):
        if eb == "0.05std":  # bounds differ in the last bits, as deviations are not those of the codec
            torch.testing.assert_close(a, b, rtol=0.02, atol=0.02 * float(b.abs().max()))
        else:
            assert torch.equal(a, b)


class Gates(nn.Module):
    """What else devices code: dithered results, intervals, booleans, indices of pools."""

    def __init__(self):
        super().__init__()
        self.conv, self.wide, self.narrow = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(64, 64), nn.Linear(64, 300)
        self.register_buffer("hidden", torch.ones(64, 64, dtype=torch.bool).triu(1))
        self.register_buffer("dropped", torch.rand(16, 64, 64) < 0.1)

    def forward(self, x):
        x = F.max_pool2d(F.hardtanh(self.conv(x)), 2).flatten(2).unflatten(2, (4, 64)).flatten(1, 2)
        x = (torch.sigmoid(self.wide(x)) + torch.tanh(x)).masked_fill(self.dropped, 0.0)
        attention = torch.softmax((x @ x.transpose(1, 2)).masked_fill(self.hidden, -float("inf")), -1)
        return torch.log_softmax(self.narrow(attention @ x), -1)


@pytest.mark.parametrize("eb", [0.02, "lossless"])
def test_dithered_and_exact_tensors_too(eb):
    torch.manual_seed(0)
    net, x = Gates(), torch.randn(16, 3, 32, 32)
    net(x).square().mean().backward()
    plain = [p.grad.clone() for p in net.parameters()]
    on_device, totals = gradients(net, x, eb, True)
    on_host, expected = gradients(net, x, eb, False)
    for true, a, b in zip(plain, on_device, on_host):
        if eb == "lossless":
            assert torch.equal(a, true)
        else:  # dither depends on the size of chunks, which differs
            assert 0 < float((a - true).norm()) < 1.5 * float((b - true).norm())
    assert totals["tensors"] == expected["tensors"]
    assert totals["stored"] < 1.4 * expected["stored"]


CUDA_KINDS = {"CudnnBatchNorm": "cudnn_batch_norm", "ScaledDotProductFlashAttention": "_scaled_dot_product_flash_attention",
              "ScaledDotProductCudnnAttention": "_scaled_dot_product_cudnn_attention",
              "ScaledDotProductEfficientAttention": "_scaled_dot_product_efficient_attention"}


@pytest.mark.parametrize("kind", CUDA_KINDS)
def test_names_of_what_nodes_on_cuda_save(kind):
    """Against the formulas that torch's own nodes were made from, since no such node can be made here."""
    path = Path(torch.__file__).parent.parent / "torchgen/packaged/autograd/derivatives.yaml"
    if not path.exists():
        pytest.skip("this torch does not have its derivatives.yaml")
    entry = re.search(rf"^- name: {CUDA_KINDS[kind]}\(.*?\n\n", path.read_text(), re.MULTILINE | re.DOTALL)
    assert entry, f"{kind} is not there any more"
    lossy = [field for field, role in roles.FIELDS[kind].items() if role in roles.LOSSY]
    lossy += {"CudnnBatchNorm": ["epsilon", "training", "result2", "running_var"]}.get(kind, ["is_causal", "scale"])
    assert len(lossy) > 2 and all(re.search(rf"\b{field}\b", entry.group()) for field in lossy)


def test_a_clamp_near_the_end_of_the_type_is_left_alone():
    x = torch.randn(64, 1024, requires_grad=True)
    with comet_torch.compress(eb=0.1) as mem:
        put_on(mem, NAME)
        x.clamp(-3e38, 3e38).sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x)) and mem.figures.totals()["tensors"] == 0


def test_training_with_adaptive_bounds():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    with comet_torch.compress(net, optimizer) as mem:
        session = put_on(mem, NAME)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = net(torch.randn(16, 3, 32, 32)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert mem.assessor.adaptive.n_assessed >= 1 and losses[-1] < losses[0]
    assert mem.figures.totals()["ratio"] > 2 and all(slab.n_live == 0 for slab in session.slabs)


def spoil(session):
    """Frames do not decode any more."""
    decode = session.decode

    def spoiled(frame, tensor, n_bytes):
        frame.params.bound = frame.params.bound * 2 + 1
        decode(frame, tensor, n_bytes)

    session.decode = spoiled


def test_a_failed_decode_stops_training():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    with comet_torch.compress(net, optimizer) as mem:
        spoil(put_on(mem, NAME))
        net(torch.randn(16, 3, 32, 32)).square().mean().backward()
        with pytest.raises(CometError, match="decoding on the device failed"):
            optimizer.step()


def test_a_failed_decode_of_the_last_step_is_told_at_the_end():
    with pytest.raises(CometError, match="decoding on the device failed"):
        with comet_torch.compress(eb=0.1) as mem:
            spoil(put_on(mem, NAME))
            Net()(torch.randn(16, 3, 32, 32)).square().mean().backward()


def test_a_library_that_is_missing_is_said_once(monkeypatch):
    monkeypatch.setenv("COMET_GPU", "/nowhere/libcomet_gpu.so")
    gpu.cache_clear()
    try:
        with pytest.raises(CometError, match="nowhere"):
            gpu()
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        notices.forget()
        with pytest.warns(UserWarning, match="left alone: /nowhere/libcomet_gpu.so"):
            assert devices.Devices(None)._open(torch.device("cuda", 0)) is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert devices.Devices(None)._open(torch.device("cuda", 0)) is None
    finally:
        monkeypatch.undo()
        gpu.cache_clear()
