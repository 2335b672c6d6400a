"""Tests of comet_torch: two threads, and nets.py importable."""
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(2)
