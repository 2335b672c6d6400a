"""Tests of comet_torch: two threads, nets.py importable, and no notice about the allocator, which has tests of its own."""
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(2)


@pytest.fixture(autouse=True)
def an_allocator_that_gives_memory_back(monkeypatch):
    from comet_torch import allocator

    monkeypatch.setattr(allocator, "in_use", lambda: "jemalloc")
