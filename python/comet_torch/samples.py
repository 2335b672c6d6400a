"""Samples measure the true error of a weight's gradient.

Forward keeps a few channels of a layer's input as they are; backward has them as they were stored; and since the gradient is linear
in the input, the gradient from their difference is the error that these channels made. A sample has up to 16 channels, fewer where
the batch is large, and then fewer images: images differ more than channels do. Samplers take turns, so that the samples of one step
stay within TURN_BYTES, and each turn takes the next channels.
"""
import torch

from .gains import energy, weighted

TURN_BYTES = 24 << 20
_ELEMENTS = 1 << 20
_CHANNELS, _FEWEST_CHANNELS = 16, 2


class ConvolutionSampler:
    """Of the input of a convolution node with the weight `weight_shape`."""

    def __init__(self, node, weight_shape):
        self.stride, self.padding = list(node._saved_stride), list(node._saved_padding)
        self.dilation, self.output_padding = list(node._saved_dilation), list(node._saved_output_padding)
        self.transposed, self.groups = bool(node._saved_transposed), int(node._saved_groups)
        self.weight_shape = tuple(weight_shape)

    def take(self, x, turn):
        """(channels, images) of the sample as slices, and its copy."""
        if x.dim() < 3:
            return None  # without a batch
        sides = x[0, 0].numel()
        channels = max(_FEWEST_CHANNELS, min(_CHANNELS, _ELEMENTS // max(1, x.shape[0] * sides)))
        if self.groups > 1:  # whole groups
            of_group = x.shape[1] // self.groups
            channels = max(1, channels // of_group) * of_group
        channels = min(channels, x.shape[1])
        images = max(1, min(x.shape[0], _ELEMENTS // max(1, channels * sides)))
        first = turn % (x.shape[1] // channels) * channels
        part = (slice(0, images), slice(first, first + channels))
        return part, x.detach()[part].float().clone()

    def _weight_of(self, part, n_channels):
        """(weight that reads the sampled channels, channels of dY that belong to them, groups)"""
        first, last = part[1].start, part[1].stop
        if self.groups == 1:
            shape = list(self.weight_shape)
            shape[0 if self.transposed else 1] = last - first
            return shape, slice(None), 1
        of_group = n_channels // self.groups
        groups = (last - first) // of_group
        outputs = self.weight_shape[1] if self.transposed else self.weight_shape[0] // self.groups
        shape = list(self.weight_shape)
        shape[0] = last - first if self.transposed else groups * outputs
        return shape, slice(first // of_group * outputs, (first // of_group + groups) * outputs), groups

    def gradient(self, error, dy, part, n_channels):
        shape, outputs, groups = self._weight_of(part, n_channels)
        dy = dy.detach()[part[0], outputs].float().contiguous()
        weight = torch.empty(shape, dtype=torch.float32, device=dy.device)
        result = torch.ops.aten.convolution_backward(dy, error.contiguous(), weight, None, self.stride, self.padding, self.dilation,
                                                     self.transposed, self.output_padding, groups, [False, True, False])
        return result[1], dy


class ProductSampler:
    """Of an operand of a matrix product with a weight. Its features are the last dimension where it is the left operand, else the
    one before it; all other elements are rows."""

    def __init__(self, is_left):
        self.is_left = is_left

    def _features_last(self, tensor):
        return tensor if self.is_left else tensor.transpose(-1, -2)

    def take(self, x, turn):
        if x.dim() < 2:
            return None
        x = self._features_last(x.detach())
        features = min(_CHANNELS, x.shape[-1])
        first = turn % (x.shape[-1] // features) * features
        rows = max(1, _ELEMENTS // (features * max(1, x[..., 0].numel() // x.shape[-2])))
        part = (Ellipsis, slice(0, rows), slice(first, first + features))
        return part, x[part].float().clone()

    def cut(self, x, part):
        return self._features_last(x.detach())[part]

    def gradient(self, error, dy, part, n_channels):
        dy = self._features_last(dy.detach())[..., part[1], :].float()
        return error.transpose(-1, -2) @ dy, dy


class Sample:
    """What forward keeps of one input until backward has read it."""

    def __init__(self, sampler, tensor, turn):
        taken = sampler.take(tensor, turn)
        self.sampler, self.error = sampler, None
        self.part, self.raw = taken if taken else (None, None)
        self.n_features = tensor.shape[1] if isinstance(sampler, ConvolutionSampler) else 0

    def compare(self, tensor):
        """Backward has the decoded input."""
        if self.raw is None:
            return
        cut = self.sampler.cut(tensor, self.part) if isinstance(self.sampler, ProductSampler) else tensor.detach()[self.part]
        self.error = cut.float().sub_(self.raw) if cut.dtype != torch.float32 else cut - self.raw
        self.nonzero = float(torch.count_nonzero(cut)) / max(1, cut.numel())
        self.raw = None

    def quotient(self, dy, taps, eb):
        """The measured squared error of the sampled channels' gradient over its prediction for the bound eb; NaN: unknown.
        `taps` is of all channels."""
        if self.error is None or not eb > 0:
            return float("nan")
        gradient, dy = self.sampler.gradient(self.error, dy, self.part, self.n_features)
        sampled = self.error.shape[1] if self.n_features else self.error.shape[-1]
        predicted = weighted(self._taps(taps, sampled), self.nonzero, energy(dy)) * eb * eb
        return energy(gradient) / predicted if predicted > 0 else float("nan")

    def _taps(self, taps, sampled):
        s = self.sampler
        if isinstance(s, ProductSampler):
            return sampled
        return taps if s.groups > 1 else taps * sampled / self.n_features
