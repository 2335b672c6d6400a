"""compress() around a loop with accelerate: nothing is added for it."""
import pytest
import torch
from torch import nn

pytest.importorskip("accelerate")

from accelerate import Accelerator  # noqa: E402
from company import assert_nothing_left  # noqa: E402

import comet_torch  # noqa: E402

STEPS = 6


def train(compressed, accumulated=1, clip=False, **options):
    """Losses, weights and the Memory of a loop as accelerate's documents write it."""
    torch.manual_seed(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulated)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 8))
    data = torch.utils.data.TensorDataset(torch.randn(STEPS * accumulated * 128, 64), torch.randint(8, (STEPS * accumulated * 128,)))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2),
                                                   torch.utils.data.DataLoader(data, batch_size=128))
    losses = []

    def loop():
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if clip and accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())

    memory = None
    if compressed:
        with comet_torch.compress(model, optimizer, **options) as memory:
            loop()
        assert_nothing_left(memory, model, optimizer.optimizer)
    else:
        loop()
    return losses, torch.cat([p.detach().flatten() for p in model.parameters()]), memory


@pytest.mark.parametrize("accumulated", [1, 3])
def test_lossless_is_plain(accumulated):
    losses, weights, _ = train(False, accumulated)
    coded_losses, coded_weights, memory = train(True, accumulated, eb="lossless")
    assert coded_losses == losses and torch.equal(coded_weights, weights)
    assert memory.figures.totals()["tensors"] > 0


@pytest.mark.parametrize("accumulated", [1, 3])
def test_step_is_one_of_the_optimizer(accumulated):
    losses, _, memory = train(True, accumulated, clip=True)
    assert len(losses) == STEPS * accumulated
    assert memory.assessor.step == STEPS
    assert memory.figures.totals()["ratio"] > 1.2
