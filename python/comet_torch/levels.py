"""Level auto: which tensors are worth the time that level dense takes.

Both levels give the same values back, dense from fewer bytes in more time. Two steps in a row find out what each level costs: one codes
all tensors fast, the next one dense. Then those tensors are coded dense that save most bytes for each second more, as long as that takes
at most _SHARE of the time of a step. It is found out again each time the number of assessments has doubled, since bounds grow.
"""
import time

from .bounds import DENSE, FAST

_SHARE = 0.015


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
        self.trial = None  # the level of all tensors in this step, which finds out what it costs
        self.costs = {FAST: {}, DENSE: {}}
        self.n_chosen = 0  # assessments when levels were chosen
        self.step_began = self.fast_seconds = 0.0

    def of(self, site):
        if self.trial is None:
            site.coding = None
            return DENSE if site.key in self.dense else FAST
        site.coding = self.costs[self.trial].setdefault(site.key, Cost())
        return self.trial

    def end_step(self, n_assessed):
        now = time.perf_counter()
        seconds, self.step_began = now - self.step_began, now
        if self.trial == FAST:
            self.trial, self.fast_seconds = DENSE, seconds
        elif self.trial == DENSE:
            self.dense = choose(self.costs[FAST], self.costs[DENSE], _SHARE * self.fast_seconds)
            self.trial, self.n_chosen = None, n_assessed
        elif n_assessed >= 2 * self.n_chosen:
            self.trial, self.costs = FAST, {FAST: {}, DENSE: {}}
