"""Level auto: which tensors are worth the time that level dense takes.

Both levels give the same values back, dense from fewer bytes in more time. A few steps in a row find out what each level costs: the first
codes all tensors dense, each of the others a part of them fast, so that no step stores much more than usual. Then those tensors are
coded dense that save most bytes for each second more, as long as that takes at most _SHARE of the time of a step that codes all fast.
It is found out again each time the number of assessments has doubled, since bounds grow.
"""
import time

from .bounds import DENSE, FAST

_SHARE = 0.015
_PARTS = 4


class Cost:
    """Of one site in one step: bytes, and seconds to encode and decode."""

    __slots__ = ("bytes", "seconds")

    def __init__(self):
        self.bytes, self.seconds = 0, 0.0

    def add(self, n_bytes, seconds):
        self.bytes += n_bytes
        self.seconds += seconds


def choose(fast, dense, budget):
    """The keys to be coded dense, of {key: Cost} for both levels, within `budget` seconds more."""
    gains = []
    for key, cost in dense.items():
        if key in fast and cost.bytes < fast[key].bytes:
            gains.append((max(cost.seconds - fast[key].seconds, 1e-9), fast[key].bytes - cost.bytes, key))
    gains.sort(key=lambda gain: gain[0] / gain[1])
    chosen, spent = set(), 0.0
    for seconds, _, key in gains:
        if spent + seconds <= budget:
            chosen.add(key)
            spent += seconds
    return frozenset(chosen)


class Levels:
    def __init__(self):
        self.dense = frozenset()
        self.trial = None  # the number of a step that finds out; 0: all dense, p: each _PARTS-th site fast, from site p - 1 on
        self.costs = {FAST: {}, DENSE: {}}
        self.n_chosen = 0  # assessments when levels were chosen
        self.step_began = self.dense_seconds = 0.0

    def of(self, site):
        trial = self.trial
        if trial is None:
            site.coding = None
            return DENSE if site.key in self.dense else FAST
        if trial > 0 and site.index % _PARTS != trial - 1:
            site.coding = None
            return DENSE
        level = FAST if trial else DENSE
        site.coding = self.costs[level].setdefault(site.key, Cost())
        return level

    def end_step(self, n_assessed):
        now = time.perf_counter()
        seconds, self.step_began = now - self.step_began, now
        if self.trial is None:
            if n_assessed >= 2 * self.n_chosen:
                self.trial, self.costs = 0, {FAST: {}, DENSE: {}}
            return
        if self.trial == 0:
            self.dense_seconds = seconds
        if self.trial < _PARTS:
            self.trial += 1
        else:
            self._choose()
            self.trial, self.n_chosen = None, n_assessed

    def _choose(self):
        fast, dense = self.costs[FAST], self.costs[DENSE]
        more = sum(max(0.0, cost.seconds - fast[key].seconds) for key, cost in dense.items() if key in fast)
        self.dense = choose(fast, dense, _SHARE * max(0.0, self.dense_seconds - more))
