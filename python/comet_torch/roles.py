"""What each saved tensor is to the backward pass of its node: its role decides how it is coded.

`role_of` names the role of one saved field of an autograd node. A field that no table names has the role EXACT: it is coded without
any loss, or passed through. So an operator that this file does not know trains with the right gradients, and saves less memory.
"""
import functools
from enum import Enum

import torch


class Role(Enum):
    EXACT = "exact"  # unknown, or backward needs every bit: coded lossless or passed through
    WEIGHT = "weight"  # a parameter, or computed from parameters alone: passed through
    SMALL = "statistics"  # means and deviations of norms, sums: passed through
    CONV_INPUT = "conv input"
    LINEAR_INPUT = "linear input"
    BATCH_NORM = "batch norm input"
    LAYER_NORM = "layer norm input"
    GROUP_NORM = "group norm input"
    RELU = "relu"  # backward needs only where it is positive
    GELU = "gelu input"
    SILU = "silu input"
    HARDSWISH = "hardswish input"
    SIGMOID = "sigmoid output"
    TANH = "tanh output"
    FACTOR = "factor of a product"
    QUERY = "query or key"
    VALUE = "value"
    ATTENTION = "attention output"
    SOFTMAX = "softmax output"
    LOG_SOFTMAX = "log-softmax output"
    LOGITS = "logits of a loss"  # of cross_entropy.py
    MASK = "mask or constant"  # a factor that has no gradient, such as a dropout mask: exact
    INTERVAL = "inside an interval"  # backward needs only whether a value lies inside: one bit, exact
    SHAPE = "shape only"  # backward reads its shape, never its values
    INTEGERS = "integers"

    __hash__ = object.__hash__  # Enum's own is a Python function, which costs a microsecond several times a tensor


# Roles whose values may come back with an error.
LOSSY = frozenset(
    {
        Role.CONV_INPUT, Role.LINEAR_INPUT, Role.BATCH_NORM, Role.LAYER_NORM, Role.GROUP_NORM, Role.RELU, Role.GELU, Role.SILU,
        Role.HARDSWISH, Role.SIGMOID, Role.TANH, Role.FACTOR, Role.QUERY, Role.VALUE, Role.ATTENTION, Role.SOFTMAX, Role.LOG_SOFTMAX,
        Role.LOGITS, Role.SHAPE,
    }
)
_OF_VALUES = LOSSY - {Role.SHAPE}
_EXACT = Role.EXACT  # members of an Enum are slow to look up
_Parameter = torch.nn.Parameter
# The strictest first: a tensor with several consumers is coded for the first of these that it has.
_STRICTNESS = (
    Role.EXACT, Role.INTEGERS, Role.MASK,
    Role.WEIGHT, Role.SMALL, Role.QUERY, Role.LOGITS, Role.LOG_SOFTMAX, Role.SOFTMAX, Role.SIGMOID, Role.TANH,
    Role.FACTOR, Role.GELU, Role.SILU, Role.HARDSWISH, Role.VALUE, Role.ATTENTION, Role.LAYER_NORM, Role.GROUP_NORM, Role.BATCH_NORM,
    Role.LINEAR_INPUT, Role.CONV_INPUT, Role.RELU, Role.INTERVAL, Role.SHAPE,
)
_RANK = {role: rank for rank, role in enumerate(_STRICTNESS)}


def stricter(a, b):
    """The stricter of two roles; either may be None."""
    if a is None or b is None:
        return a or b
    return a if _RANK[a] <= _RANK[b] else b


# Roles whose zeros and signs must come back exactly.
NEEDS_SUPPORT = frozenset({Role.RELU})
# Roles with dither, so that errors do not depend on the values. These lie close together at the ends of their range (most of a softmax's
# are near 0): rounding would give many of them the same error, and gradients that are sums over rows would collect it.
DITHERED = frozenset({Role.SOFTMAX, Role.LOG_SOFTMAX, Role.LOGITS, Role.SIGMOID, Role.TANH})
# Roles whose error disturbs the gradient of a weight of their own node.
OF_PARAMETER = frozenset({Role.CONV_INPUT, Role.LINEAR_INPUT, Role.BATCH_NORM, Role.LAYER_NORM, Role.GROUP_NORM})

_NORM = {"weight": Role.WEIGHT, "bias": Role.WEIGHT, "result1": Role.SMALL, "result2": Role.SMALL, "result3": Role.EXACT,
         "running_mean": Role.SMALL, "running_var": Role.SMALL}
_ATTENTION = {"query": Role.QUERY, "key": Role.QUERY, "value": Role.VALUE, "output": Role.ATTENTION, "logsumexp": Role.SMALL,
              "attn_mask": Role.EXACT, "attn_bias": Role.EXACT}

_POOL = {"self": Role.SHAPE, "result1": Role.INTEGERS, "indices": Role.INTEGERS}
_LOSS = {"self": Role.SHAPE, "total_weight": Role.SMALL, "target": Role.INTEGERS}

# The node's kind, that is its name without "Backward" and a number, and its saved fields.
FIELDS = {
    "Convolution": {"input": Role.CONV_INPUT, "weight": Role.WEIGHT},
    "ConvolutionOverrideable": {"input": Role.CONV_INPUT, "weight": Role.WEIGHT},
    "MkldnnConvolution": {"self": Role.CONV_INPUT, "weight": Role.WEIGHT},
    "NativeBatchNorm": dict(_NORM, input=Role.BATCH_NORM),
    "CudnnBatchNorm": dict(_NORM, input=Role.BATCH_NORM),
    "NativeLayerNorm": dict(_NORM, input=Role.LAYER_NORM),
    "FusedRmsNorm": dict(_NORM, input=Role.LAYER_NORM),
    "NativeGroupNorm": dict(_NORM, input=Role.GROUP_NORM),
    "Relu": {"result": Role.RELU},
    "LeakyRelu": {"self": Role.RELU},
    "Abs": {"self": Role.RELU},
    "Hardtanh": {"self": Role.INTERVAL},
    "Hardsigmoid": {"self": Role.INTERVAL},
    "Clamp": {"self": Role.INTERVAL},
    "ClampMin": {"self": Role.INTERVAL},
    "ClampMax": {"self": Role.INTERVAL},
    "Threshold": {"self": Role.INTERVAL},
    "Gelu": {"self": Role.GELU},
    "Silu": {"self": Role.SILU},
    "Hardswish": {"self": Role.HARDSWISH},
    "Sigmoid": {"result": Role.SIGMOID},
    "Tanh": {"result": Role.TANH},
    "Exp": {"result": Role.FACTOR},
    "Div": {"self": Role.FACTOR},
    "Addcmul": {"tensor1": Role.FACTOR, "tensor2": Role.FACTOR},
    "Softmax": {"result": Role.SOFTMAX},
    "SafeSoftmax": {"result": Role.SOFTMAX},
    "LogSoftmax": {"result": Role.LOG_SOFTMAX},
    "CometCrossEntropy": {"tensors": Role.LOGITS},
    "ScaledDotProductFlashAttentionForCpu": _ATTENTION,
    "ScaledDotProductFlashAttention": _ATTENTION,
    "ScaledDotProductCudnnAttention": _ATTENTION,
    "ScaledDotProductEfficientAttention": dict(_ATTENTION, log_sumexp=Role.SMALL),
    "NllLoss": _LOSS,
    "NllLoss2D": _LOSS,
    "NllLossNd": _LOSS,
    "MaxPool2DWithIndices": _POOL,
    "MaxPool3DWithIndices": _POOL,
    "AdaptiveMaxPool2D": _POOL,
    "AdaptiveMaxPool3D": _POOL,
    "AvgPool2D": _POOL,
    "AvgPool3D": _POOL,
    "AdaptiveAvgPool2D": _POOL,
    "AdaptiveAvgPool3D": _POOL,
    "MkldnnAdaptiveAvgPool2D": _POOL,
    "Mean": {"self": Role.SHAPE},
    "Gather": {"self": Role.SHAPE},
    "Embedding": {"weight": Role.WEIGHT, "indices": Role.INTEGERS},
}

# Products of matrices: operand and edge of the graph that it came from.
PRODUCTS = {"Addmm": {"mat1": 1, "mat2": 2}, "Mm": {"self": 0, "mat2": 1}, "Bmm": {"self": 0, "mat2": 1},
            "Baddbmm": {"batch1": 1, "batch2": 2}, "Linear": {"input": 0, "weight": 1}}
ELEMENTWISE_PRODUCTS = {"Mul": {"self": 0, "other": 1}}
_CONVOLUTIONS = frozenset({"Convolution", "ConvolutionOverrideable", "MkldnnConvolution"})

# Operators that make a weight of weights: copies of autocast, transposes, sums of LoRA, weight norm.
_OF_WEIGHTS = frozenset(
    {
        "ToCopy", "T", "Transpose", "View", "UnsafeView", "ReshapeAlias", "Permute", "Expand", "Add", "Sub", "Mul", "Div", "Mm", "Clone",
        "Alias", "Slice", "Select", "Cat", "Stack", "Squeeze", "Unsqueeze", "Split", "SplitWithSizes", "WeightNormInterface", "Neg",
        "AsStrided", "Unbind", "Detach",
    }
)
# Of these, products of matrices are of weights only if both operands are: the other may be data.
_OF_ALL = frozenset({"Mm"})
_DEEPEST = 12


@functools.lru_cache(maxsize=4096)
def _kind_of_name(name):
    return name.split("::")[-1].partition("Backward")[0]


def kind_of(node):
    """ "Convolution" for ConvolutionBackward0."""
    return _kind_of_name(node.name())


def is_of_weights(node, depth=0):
    """Is what this node gives back to computed from parameters alone? An edge without a node has no gradient: a constant."""
    if node is None:
        return False
    kind = kind_of(node)
    if kind == "AccumulateGrad":
        return True
    if kind not in _OF_WEIGHTS or depth > _DEEPEST:
        return False
    edges = [edge for edge, _ in node.next_functions]
    if kind not in _OF_ALL:
        edges = [edge for edge in edges if edge is not None]
    return len(edges) > 0 and all(is_of_weights(edge, depth + 1) for edge in edges)


def _edge(node, index):
    edges = node.next_functions
    return edges[index][0] if index < len(edges) else None


def is_parameter(tensor):
    """Is it a parameter or a view of one? isinstance is slow for parameters."""
    base = tensor._base
    return issubclass(type(tensor), _Parameter) or (base is not None and issubclass(type(base), _Parameter))


def _operand_role(node, edges, field, tensor):
    """A product of matrices is linear where one operand is a weight, else a product of two activations."""
    if is_parameter(tensor) or is_of_weights(_edge(node, edges[field])):
        return Role.WEIGHT
    other = next(edge for name, edge in edges.items() if name != field)
    if is_of_weights(_edge(node, other)):
        return Role.LINEAR_INPUT
    return Role.FACTOR if tensor.requires_grad else Role.MASK


def _factor_role(node, edge, tensor):
    if not tensor.requires_grad:
        return Role.WEIGHT if is_parameter(tensor) else Role.MASK
    return Role.WEIGHT if is_of_weights(_edge(node, edge)) else Role.FACTOR


def _power_role(node, tensor):
    """The exponent of Pow with another number is a tensor."""
    if not node.name().endswith("PowBackward0") or node._saved_exponent != 2:
        return Role.EXACT
    return Role.WEIGHT if is_of_weights(tensor.grad_fn) else Role.FACTOR


def role_of(node, kind, field, tensor):
    """The role of `tensor`, which `node` saved as `field`."""
    if not tensor.is_floating_point():
        return Role.EXACT if tensor.is_complex() else Role.INTEGERS
    fields = FIELDS.get(kind)
    if fields is None:
        return _role_of_graph(node, kind, field, tensor)
    role = fields.get(field, _EXACT)
    if role in _OF_VALUES:
        if is_of_weights(tensor.grad_fn):
            return Role.WEIGHT
        if kind in _CONVOLUTIONS and not is_of_weights(_edge(node, 1)):
            return Role.FACTOR
    return role


def _role_of_graph(node, kind, field, tensor):
    """Of operators whose operands' roles follow from where these come from."""
    if kind in PRODUCTS and field in PRODUCTS[kind]:
        return _operand_role(node, PRODUCTS[kind], field, tensor)
    if kind in ELEMENTWISE_PRODUCTS and field in ELEMENTWISE_PRODUCTS[kind]:
        return _factor_role(node, ELEMENTWISE_PRODUCTS[kind][field], tensor)
    return _power_role(node, tensor) if kind == "Pow" and field == "self" else _EXACT
