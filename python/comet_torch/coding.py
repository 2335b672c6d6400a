"""How a tensor becomes a content: which blocks the codec makes of it."""
import torch

from .bounds import ABSOLUTE, RANGE, STDDEV, Bound, lossless
from .forms import LogitsForm, LogOddsForm, LogProbabilityForm, Pieces, RowForm
from .handles import Content, layout_of, storage_of
from .roles import DITHERED, Role
from .session import DTYPES

_LEAST_RATIO = 1.1  # of tensors that are coded without loss though they have floating point values


def form_of(name, saved, kind, fields):
    """The form of this name for what a node with these fields saved, or None."""
    if name == "log_probability":
        return LogitsForm() if saved.role is Role.LOGITS else LogProbabilityForm()
    if name == "log_odds":
        return LogOddsForm(saved.tensor.dtype, Role.TANH in saved.site.roles)
    tensors = {saved.field: saved.tensor for saved in fields}
    if kind == "NativeLayerNorm":
        return RowForm(tensors["result1"], tensors["result2"])
    return RowForm(None, tensors["result1"]) if kind == "FusedRmsNorm" else None


def _of_views(saved, fields, bound):
    """A whole storage is coded, of which the node saved views: a relative bound is relative to the one with the least."""
    if bound.lossless or bound.mode not in (STDDEV, RANGE):
        return bound
    storage = storage_of(saved.tensor)._cdata
    views = [f.tensor for f in fields if f.tensor.dtype == saved.tensor.dtype and storage_of(f.tensor)._cdata == storage]
    views = [view.double() if view.dtype == torch.float64 else view.float() for view in views]
    units = [float(view.std(unbiased=False) if bound.mode == STDDEV else view.max() - view.min()) for view in views]
    if not all(0 < unit < float("inf") for unit in units):
        return lossless(bound.level)
    return Bound(bound.eb * min(units), ABSOLUTE, bound.level, bound.keep_support, bound.form)


def _pair(values):
    return (values[0], values[-1])


def _windows_of(node, kind, fields):
    """(width of the planes, kernel, stride, padding, dilation) of a max pool's node; None for other nodes."""
    pooled = next((f.tensor for f in fields if f.field == "self"), None) if kind == "MaxPool2DWithIndices" else None
    if pooled is None:
        return None
    kernel = _pair(node._saved_kernel_size)
    stride = _pair(node._saved_stride) if node._saved_stride else kernel  # none given: that of the kernel
    return pooled.shape[-1], kernel, stride, _pair(node._saved_padding), _pair(node._saved_dilation)


class Coder:
    def __init__(self, session, assessor):
        self.session, self.assessor = session, assessor
        self.step = self.n_dithered = 0

    def code(self, node, saved, fields, kind, bound):
        """(content, may it be shared). The content is None where coding saves nothing."""
        tensor = saved.tensor
        dense, channels_last, first = layout_of(tensor)
        content = Content(self.session, dense, tensor, first)
        content.site = saved.site
        if tensor.dtype not in DTYPES:
            coded = self._code_integers(content, dense, _windows_of(node, kind, fields) if dense is tensor else None)
        elif bound.form is not None and dense is tensor and self._code_form(content, saved, fields, kind, bound):
            coded = True
        else:
            bound = bound if dense is tensor or first is None else _of_views(saved, fields, bound)
            coded = self._code_floats(content, saved, dense, channels_last, bound)
        return (content if coded else None), first is not None and saved.role is not Role.LOGITS

    def _set_block(self, content, block):
        content.block = block
        content.coded_bytes = self.session.block_bytes(block)
        return True

    def _code_integers(self, content, dense, windows):
        block = self.session.pack_two(dense) if dense.dtype in (torch.bool, torch.uint8) else None
        if windows is not None and dense.dtype is torch.int64 and dense.dim() == 4 and dense.numel() > 0:
            block = self.session.pack_windows(dense, *windows)
        if block is None and dense.dtype is not torch.bool:
            block = self.session.pack_integers(dense)
        return block is not None and self._set_block(content, block)

    def _code_form(self, content, saved, fields, kind, bound):
        form = form_of(bound.form, saved, kind, fields)
        if form is None or not form.fits(saved.tensor, bound.eb):
            return False
        content.pieces = pieces = Pieces(form, saved.tensor, bound, self.session.encode, lambda: self._seed(saved.site, bound, False))
        content.coded_bytes = sum(self.session.block_bytes(block) for block in pieces.blocks)
        self._note(content, saved, bound, bound.eb, pieces)
        content.support = False
        return True

    def _code_floats(self, content, saved, dense, channels_last, bound):
        site = saved.site
        if bound.form is not None:  # which did not fit: in units of the deviation, as the rows' bound is
            bound = Bound(bound.eb, STDDEV, bound.level) if bound.form == "row" else lossless(bound.level)
        if bound.lossless and not saved.tensor.requires_grad:
            block = self.session.pack_two(dense)
            if block is not None:
                return self._set_block(content, block)
        support = site.support and not bound.lossless
        seed = self._seed(site, bound, support or bound.keep_support)
        block, job = self.session.encode(dense, channels_last, bound, support, seed)
        if job.eb == 0 and site.role in (Role.EXACT, Role.MASK) and job.bytes_coded * _LEAST_RATIO > job.bytes_raw:
            self.session.free(block)
            return False
        self._note(content, saved, bound, job.eb, job)
        content.support = job.eb == 0 or support or bound.keep_support
        content.block, content.coded_bytes = block, job.bytes_block
        if seed is not None and job.eb > 0:
            self._dithered(content, site, dense, job)
        return True

    def _seed(self, site, bound, keep_support):
        """Of the next tensor's dither, which is another one in each step; None: without."""
        if bound.lossless or keep_support or not DITHERED & site.roles:
            return None
        if self.step != self.assessor.step:
            self.step, self.n_dithered = self.assessor.step, 0
        self.n_dithered += 1
        return self.step << 20 | self.n_dithered

    def _dithered(self, content, site, dense, job):
        """Dither moves zeros. Those of a softmax are masked, and come back as zeros all the same."""
        content.nonzero = 1.0
        if Role.SOFTMAX in site.roles and job.n_nonzero < content.n_elements:
            content.nonzero = job.n_nonzero / content.n_elements
            content.mask = self.session.pack_two(dense != 0)
            content.coded_bytes += self.session.block_bytes(content.mask)

    def _note(self, content, saved, bound, eb, job):
        content.bound, content.eb, content.lossless = bound, eb, eb == 0
        content.nonzero = job.n_nonzero / max(content.n_elements, 1)
        content.seconds = job.seconds
        if job.n_nonfinite and eb > 0 and bool((~torch.isfinite(saved.tensor)).any()):  # not beside it in its storage
            self.assessor.found_nonfinite(saved.site)
