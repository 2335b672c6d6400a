"""What tests of training programs share."""
import torch


def assert_nothing_left(memory, model, optimizer=None):
    """No hook of the context is on the model or the optimiser, and what forward saves is no longer coded."""
    for module in model.modules():
        assert not module._forward_pre_hooks and not module._forward_hooks
    if optimizer is not None:
        assert not optimizer._optimizer_step_post_hooks
    n_before = memory.figures.totals()["tensors"]
    weight = torch.ones(64, 1024, requires_grad=True)
    weight.exp().sum().backward()
    assert torch.equal(weight.grad, torch.full_like(weight, torch.e))
    assert memory.figures.totals()["tensors"] == n_before and memory.hooks.pending == []
