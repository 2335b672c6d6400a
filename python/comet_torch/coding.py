"""How a tensor becomes a content: which blocks the codec makes of it."""
import torch

from .bounds import RELATIVE, STDDEV, Bound, lossless, made_absolute
from .forms import LogitsForm, LogOddsForm, LogProbabilityForm, Pieces, RowForm
from .handles import Content, Outline, layout_of, storage_of
from .roles import Role
from .session import DTYPES, Prepared

# Members of an Enum are slow to look up.
_LOGITS = Role.LOGITS
_ONLY_SMALLER = frozenset({Role.EXACT, Role.MASK})
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
    storage = storage_of(saved.tensor)._cdata
    views = [f.tensor for f in fields if f.tensor.dtype == saved.tensor.dtype and storage_of(f.tensor)._cdata == storage]
    return made_absolute(bound, views)


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

    def code(self, node, saved, storage, fields, kind, bound):
        """(content, may it be shared). The content is None where coding saves nothing."""
        tensor = saved.tensor
        dense, channels_last, first = layout_of(tensor, storage)
        site = saved.site
        if tensor.dtype in DTYPES:
            outline = site.prepared
            if outline is None or not outline.fits(dense, channels_last):
                outline = site.prepared = Prepared(dense, channels_last)
        else:
            outline = Outline(dense)
        content = Content(saved.session, outline, tensor, first, site)
        if tensor.dtype not in DTYPES:
            windows = _windows_of(node, kind, fields) if dense is tensor else None
            coded = self._code_integers(content, saved.session, dense, windows)
        elif bound.form is not None and dense is tensor and self._code_form(content, saved, fields, kind, bound):
            coded = True
        else:
            if dense is not tensor and first is not None and bound.mode in RELATIVE:
                bound = _of_views(saved, fields, bound)
            coded = self._code_floats(content, saved, dense, outline, bound)
        return (content if coded else None), first is not None and saved.role is not _LOGITS

    def _set_block(self, content, block):
        content.block = block
        content.coded_bytes = content.session.block_bytes(block)
        return True

    def _code_integers(self, content, session, dense, windows):
        block = session.pack_two(dense) if dense.dtype in (torch.bool, torch.uint8) else None
        if windows is not None and dense.dtype is torch.int64 and dense.dim() == 4 and dense.numel() > 0:
            block = session.pack_windows(dense, *windows)
        if block is None and dense.dtype is not torch.bool:
            block = session.pack_integers(dense)
        return block is not None and self._set_block(content, block)

    def _code_form(self, content, saved, fields, kind, bound):
        form = form_of(bound.form, saved, kind, fields)
        if form is None or not form.fits(saved.tensor, bound.eb):
            return False
        content.pieces = pieces = Pieces(saved.session, form, saved.tensor, bound, lambda: self._seed(saved.site, bound, False))
        if saved.session is self.session:  # devices tell later
            content.coded_bytes = sum(self.session.block_bytes(block) for block in pieces.blocks)
        self._note(content, saved, bound, bound.eb, pieces)
        content.support = False
        return True

    def _code_floats(self, content, saved, dense, prepared, bound):
        site, session = saved.site, saved.session
        if bound.form is not None:  # which did not fit: in units of the deviation, as the rows' bound is
            bound = Bound(bound.eb, STDDEV, bound.level) if bound.form == "row" else lossless(bound.level)
        exact = bound.lossless
        if exact and not saved.tensor.requires_grad:
            block = session.pack_two(dense)
            if block is not None:
                return self._set_block(content, block)
        support = site.support and not exact
        keeps = support or bound.keep_support
        seed = None if exact or keeps or not site.dithered else self._seed(site, bound, keeps)
        content.block = session.encode(prepared, dense, bound, support, seed)
        job = prepared.job
        eb = job.eb
        if eb == 0 and site.role in _ONLY_SMALLER and job.bytes_coded * _LEAST_RATIO > job.bytes_raw:
            return False
        self._note(content, saved, bound, eb, job)
        content.support = eb == 0 or keeps
        content.coded_bytes = job.bytes_block
        if seed is not None and eb > 0:
            self._dithered(content, site, dense, job)
        return True

    def _seed(self, site, bound, keep_support):
        """Of the next tensor's dither, which is another one in each step; None: without."""
        if bound.lossless or keep_support or not site.dithered:
            return None
        if self.step != self.assessor.step:
            self.step, self.n_dithered = self.assessor.step, 0
        self.n_dithered += 1
        return self.step << 20 | self.n_dithered

    def _dithered(self, content, site, dense, job):
        """Dither moves zeros. Those of a softmax are masked, and come back as zeros all the same."""
        content.nonzero, session = 1.0, content.session
        may_have_zeros = job.n_nonzero < content.n_elements or not session.counts_zeros
        if Role.SOFTMAX in site.roles and may_have_zeros:
            content.nonzero = job.n_nonzero / content.n_elements
            content.mask = session.pack_two(dense != 0)
            if content.coded_bytes:  # devices tell later
                content.coded_bytes += session.block_bytes(content.mask)

    def _note(self, content, saved, bound, eb, job):
        content.bound, content.eb, content.lossless = bound, eb, eb == 0
        content.nonzero = job.n_nonzero / (content.n_elements or 1)
        content.seconds = job.seconds
        if job.n_nonfinite and eb > 0 and bool((~torch.isfinite(saved.tensor)).any()):  # not beside it in its storage
            self.assessor.found_nonfinite(saved.site)
