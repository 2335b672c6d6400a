"""The adaptive bound: which error each saved tensor may have.

Each step of the optimiser has a number, and src/adapt says which steps are assessed. In these, every node that reads a tensor with an
error is watched (uses.py): when it has run in backward, it is known what errors of its input do to the gradients that it computes.
Gradients of weights tell their own noise as well (noise.py). From these, the native library computes the bounds of the steps that
follow. In other steps there are no hooks on nodes.

Until a tensor has a bound, it is stored within 0.05 of its deviation. A loss spike, or values that are not finite, bring it back to
that. docs/theory.md has the derivations, docs/training.md the rules, which are those of Comet's own engine.
"""
import math

import torch

from .adaptive import Adaptive
from .bounds import ABSOLUTE, AUTO, DENSE, LEVELS, STDDEV, Bound
from .forms import LogProbabilityForm
from .gains import MOST_OF_ODDS
from .handles import fills_its_memory
from .levels import Levels
from .noise import GradientNoise
from .roles import LOSSY, NEEDS_SUPPORT, Role
from .samples import TURN_BYTES
from .spread import taken
from .uses import HARMLESS, Facts, watch_of

_WIDEST = 0.35  # deviations; docs/theory.md, section 8
# In place of a deviation; errors of logarithms stay below 0.21, and begin at 0.03.
_UNITS = {"row": 1.0, "log_probability": 0.6, "log_odds": 0.6}
_NARROW_ASSESSMENTS = 2  # level dense until bounds have doubled twice
_LEAD = 10  # steps before an assessment in which gradients are already averaged
_SPIKE, _SPIKE_SPREADS = 2.0, 6.0  # a spike is twice the mean loss, and six mean deviations above it
# Of the share, what one consumer may add to one of several gradients that its node passes on; docs/theory.md, section 9.
_LOCAL = 1 / 8
_VERSION = 1
_OF_ODDS = frozenset(MOST_OF_ODDS)


class Use:
    """A consumer of a tensor: one node that reads it in backward."""

    __slots__ = ("key", "site", "consumers", "noise", "n_weights", "turn", "n_sampled", "known")

    def __init__(self, key, site):
        self.key, self.site = key, site
        self.consumers = {}  # kind of observation: number in the native library
        self.n_weights = {}
        self.noise = {}
        self.turn = None  # of those that keep samples
        self.n_sampled = 0
        self.known = False  # its node ran in an assessed step; without consumers then, no error does harm there


class Place:
    """What is known of a site."""

    __slots__ = ("tensor", "n_elements", "deviation", "roles", "new", "form")

    def __init__(self, n_elements):
        self.tensor = None  # its number in the native library
        self.n_elements = n_elements
        self.deviation = 0.0
        self.roles = set()
        self.new = True  # a consumer was found after the last assessment
        self.form = None


def _form_of(roles, tensor):
    """What of the tensor is coded: its values, log-odds, or where nobody else reads it normalised rows or log-probabilities."""
    if roles == {Role.LOG_SOFTMAX}:
        return "log_probability" if LogProbabilityForm().fits(tensor, 0) else None
    if roles == {Role.LOGITS}:
        return "log_probability"
    if roles & _OF_ODDS and not roles & NEEDS_SUPPORT:
        return "log_odds" if fills_its_memory(tensor) else None
    return "row" if roles == {Role.LAYER_NORM} else None


def _eb_for(saved, content):
    """The bound as a use of this role knows it."""
    if content.bound.form != "log_odds" or saved.role in _OF_ODDS:
        return content.eb
    return content.eb * max(MOST_OF_ODDS[role] for role in content.site.roles & _OF_ODDS)


class Assessor:
    adapts = True

    def __init__(self, noise=0.01, level="auto", window=1000):
        if not (0 < noise < 1):
            raise ValueError(f"noise={noise!r}: the share of noise that errors may add lies between 0 and 1; 0.01 is usual")
        if level not in LEVELS:
            raise ValueError(f"level={level!r}: the levels are {', '.join(LEVELS)}")
        self.share, self.window, self.level = float(noise), int(window), LEVELS[level]
        self.start = min(0.5 * math.sqrt(self.share), 0.05)
        self._reset()
        self.begin_step()

    def _reset(self):
        self.adaptive = Adaptive(self.share, self.window)
        self.places, self.uses, self.added = {}, {}, False
        self.step = self.n_collected = self.n_withdrawals = self.n_pass = 0
        self.loss_mean = self.loss_spread = 0.0
        self.turn_filled, self.n_turns = 0, 1
        self.unsafe = False
        self.levels = Levels()

    # ---- before a tensor is coded ----

    def bound(self, site, saved):
        place = self.places.get(site.key)
        if place is None:
            place = self.places[site.key] = Place(saved.tensor.numel())
        place.roles |= site.roles
        place.roles.add(saved.role)
        form = place.form = _form_of(place.roles, saved.tensor)
        level = self._level_of(site)
        keep_support = bool(NEEDS_SUPPORT & place.roles)
        if self.due or place.deviation == 0:
            place.deviation = self._deviation_of(saved.tensor, place)
        eb = self._eb_of(place)
        if eb > 0 and place.deviation > 0:
            eb = min(eb, _WIDEST * place.deviation)
            return Bound(eb, ABSOLUTE, level, keep_support, form)
        if form:
            return Bound(self.start * place.deviation, ABSOLUTE, level, keep_support, form)
        return Bound(self.start, STDDEV, level, keep_support)

    def _level_of(self, site):
        if self.adaptive.n_assessed < _NARROW_ASSESSMENTS:
            return DENSE
        return self.levels.of(site) if self.level == AUTO else self.level

    def _deviation_of(self, tensor, place):
        """Of the values that are coded. That of a result of ReLU is about zero, as small values are what counts there."""
        if place.form:
            return _UNITS[place.form]
        x = taken(tensor)
        mean = 0.0 if place.roles & NEEDS_SUPPORT else float(x.mean())
        deviation = math.sqrt(max(0.0, float(x.square().mean()) - mean * mean))
        return deviation if math.isfinite(deviation) else 0.0

    def _eb_of(self, place):
        if place.new or self.adaptive.n_assessed == 0:
            return 0.0
        return math.inf if place.tensor is None else self.adaptive.eb(place.tensor)  # no consumers: no error does harm

    # ---- nodes ----

    def node_made(self, node, kind, fields):
        """`fields`: all saved fields of a node, those coded with an error among them."""
        facts = {}
        for saved in fields:
            if saved.site is None:
                continue
            place, content = self.places.get(saved.site.key), saved.ticket.content
            if place is None:  # its bound is not adaptive
                continue
            if saved.role not in LOSSY or saved.role in HARMLESS or content is None:
                continue
            use = self._use_of(saved, place)
            # Where a form did not fit this time, eb has another unit.
            if self.watching and content.eb > 0 and content.bound.form == place.form:
                sampled = self._is_sampled(use, saved)
                facts[saved.key] = Facts(_eb_for(saved, content), content.nonzero, place.form, use.n_sampled, sampled,
                                         self._sources(saved, content))
        if facts:
            self._watch(node, kind, {saved.field: saved for saved in fields}, facts)

    def _use_of(self, saved, place):
        use = self.uses.get(saved.key)
        if use is None:
            use = self.uses[saved.key] = Use(saved.key, saved.site.key)
            if saved.ticket.content.site is saved.site:  # not where the tensor is computed again from that of the site
                place.roles.add(saved.role)
            place.new = True
            self.added |= self.adaptive.n_assessed > 0
        return use

    def _sources(self, saved, content):
        """The uses whose errors the tensor has, with their bounds. One that is computed from several has the errors of all, and each of
        them is held responsible for the whole, so that all their bounds fall or rise by the same factor."""
        sources = getattr(content, "sources", (content,))
        found = [(saved.key, sources[0].eb)]
        for source in sources[1:]:
            if source.site.key in self.places:
                key = f"{saved.key} from {source.site.key}"
                if key not in self.uses:
                    self.uses[key] = Use(key, source.site.key)
                    self.places[source.site.key].new = True
                found.append((key, source.eb))
        return tuple(found)

    def _watch(self, node, kind, fields, facts):
        watch = watch_of(node, kind, fields, facts)
        if watch is None:
            return
        for saved, sample in watch.samples:
            saved.ticket.sample = sample
        watch.samples = ()  # which refer to tensors that forward frees
        step, due = self.step, self.due
        node.register_hook(lambda grad_inputs, grad_outputs: self._node_ran(watch, facts, step, due, grad_inputs, grad_outputs))

    def _node_ran(self, watch, facts, step, due, grad_inputs, grad_outputs):
        if step != self.step:
            return  # a graph of an earlier step
        with torch.no_grad():
            known = dict.fromkeys(facts, grad_outputs[0] is not None)
            for seen in watch.observe(grad_inputs, grad_outputs):
                known[seen.key] &= self._observed(seen, facts[seen.key], due)
            for key in known:
                for one, _ in facts[key].sources:
                    self.uses[one].known |= known[key] and due

    def unpacked(self, ticket, tensor):
        """Backward reads a tensor of which forward kept a sample."""
        with torch.no_grad():
            ticket.sample.compare(tensor)
        ticket.sample = None

    # ---- samples take turns ----

    def _is_sampled(self, use, saved):
        """Is it this use's turn? Not before the first assessment, when bounds are far from what they will be."""
        if saved.role not in (Role.CONV_INPUT, Role.LINEAR_INPUT):
            return False
        if use.turn is None:
            self._take_turn(use, saved)
        if not self.due or self.adaptive.n_assessed == 0 or self.n_collected % self.n_turns != use.turn:
            return False
        use.n_sampled += 1
        return True

    def _take_turn(self, use, saved):
        bytes_taken = 4 * min(1 << 20, 16 * saved.tensor.numel() // max(1, saved.tensor.shape[min(1, saved.tensor.dim() - 1)]))
        if self.turn_filled and self.turn_filled + bytes_taken > TURN_BYTES:
            self.n_turns += 1
            self.turn_filled = 0
        self.turn_filled += bytes_taken
        use.turn = self.n_turns - 1

    # ---- what was observed ----

    def _observed(self, seen, facts, due):
        """Reports to the native library; False where something is not known yet."""
        use = self.uses[seen.key]
        noise = 0.0
        if seen.gradient is not None:
            noise = self._noise_of(use, seen)
        if not due or self.unsafe or seen.gain is None or noise is None:
            return False
        gain = seen.gain if seen.local is None else max(seen.gain, seen.local / (_LOCAL * max(1, self.n_pass)))
        harm = gain * facts.eb**2
        for key, eb in facts.sources:
            self.adaptive.observe(self._consumer_of(self.uses[key], seen), harm / eb**2, noise, seen.quotient * harm, eb)
        return True

    def _noise_of(self, use, seen):
        noise = use.noise.get(seen.kind)
        if noise is None:
            noise = use.noise[seen.kind] = GradientNoise()
        return noise.seen(seen.gradient, self.step)

    def _consumer_of(self, use, seen):
        consumer = use.consumers.get(seen.kind)
        if consumer is None:
            place = self.places[use.site]
            if place.tensor is None:
                place.tensor = self.adaptive.add_tensor(use.site, max(1, place.n_elements))
            n_weights = use.n_weights[seen.kind] = seen.gradient.numel() if seen.gradient is not None else 0
            self.n_pass += seen.gradient is None
            consumer = use.consumers[seen.kind] = self.adaptive.add_consumer(place.tensor, f"{use.key} {seen.kind}", n_weights)
        return consumer

    # ---- steps ----

    def begin_step(self):
        self.due = self.adaptive.due(self.step)
        self.watching = self.due or self.adaptive.due(self.step + _LEAD)

    def end_step(self):
        if self.due and not self.unsafe:
            self.n_collected += 1
            if self.adaptive.complete(self.step):
                self._assess()
        if self.unsafe:
            self.adaptive.retreat(self.step)
            self.n_withdrawals += 1
        elif self.added:
            self.adaptive.restart(self.step)
        self.added = self.unsafe = False
        if self.adaptive.n_assessed >= _NARROW_ASSESSMENTS:
            self.levels.end_step(self.adaptive.n_assessed)
        self.step += 1

    def _assess(self):
        self.adaptive.assess(self.step)
        waiting = {use.site for use in self.uses.values() if not use.known}
        for key, place in self.places.items():
            place.new = key in waiting

    def found_nonfinite(self, site):
        """A tensor of this step had values that are not finite."""
        self.unsafe = True

    def loss_known(self, loss):
        """Before backward. A loss far above that of the last steps withdraws all bounds."""
        loss = float(loss)
        if not math.isfinite(loss) or self._is_spike(loss):
            self.unsafe = True
        if math.isfinite(loss):
            self._follow_loss(loss)

    def _is_spike(self, loss):
        mean = self.loss_mean
        return mean > 0 and loss > _SPIKE * mean and loss > mean + _SPIKE_SPREADS * self.loss_spread

    def _follow_loss(self, loss):
        first = not self.loss_mean > 0
        if first or not self._is_spike(loss):
            self.loss_spread = loss / _SPIKE_SPREADS if first else 0.98 * self.loss_spread + 0.02 * abs(loss - self.loss_mean)
        self.loss_mean = loss if first else 0.98 * self.loss_mean + 0.02 * loss

    # ---- report and state ----

    def report(self, site):
        """{"eb", "form", "deviation", "uses": {key: {kind: ConsumerState}}} of a site; eb 0: no bound yet."""
        place = self.places.get(site.key)
        if place is None:
            return {}
        uses = {use.key: {kind: self.adaptive.consumer(number) for kind, number in use.consumers.items()}
                for use in self.uses.values() if use.site == site.key}
        return {"eb": self._eb_of(place), "form": place.form, "deviation": place.deviation, "uses": uses}

    def state_dict(self):
        """Between steps: all that decides later bounds."""
        return {
            "version": _VERSION, "share": self.share, "step": self.step, "n_collected": self.n_collected,
            "n_withdrawals": self.n_withdrawals, "n_pass": self.n_pass, "loss_mean": self.loss_mean, "loss_spread": self.loss_spread,
            "turn_filled": self.turn_filled, "n_turns": self.n_turns, "numbers": self.adaptive.numbers(),
            "places": [(key, p.tensor, p.n_elements, p.deviation, sorted(role.value for role in p.roles), p.new)
                       for key, p in self.places.items()],
            "uses": [(u.key, u.site, dict(u.consumers), dict(u.n_weights), {kind: n.state() for kind, n in u.noise.items()}, u.turn,
                      u.n_sampled, u.known) for u in self.uses.values()],
        }

    def load_state_dict(self, state):
        if state.get("version") != _VERSION:
            raise ValueError(f"this is no state of adaptive bounds of version {_VERSION}: it says {state.get('version')!r}")
        self._reset()
        for name in ("step", "n_collected", "n_withdrawals", "n_pass", "loss_mean", "loss_spread", "turn_filled", "n_turns"):
            setattr(self, name, state[name])
        for key, tensor, n_elements, deviation, roles, new in state["places"]:
            place = self.places[key] = Place(n_elements)
            place.tensor, place.deviation, place.new = tensor, deviation, new
            place.roles = {Role(value) for value in roles}
        for key, site, consumers, n_weights, noise, turn, n_sampled, known in state["uses"]:
            use = self.uses[key] = Use(key, site)
            use.consumers, use.n_weights = dict(consumers), dict(n_weights)
            use.turn, use.n_sampled, use.known = turn, n_sampled, known
            for kind, values in noise.items():
                use.noise[kind] = GradientNoise()
                use.noise[kind].load(values)
        self._declare()
        self.adaptive.load_numbers(state["numbers"])
        self.begin_step()

    def _declare(self):
        """Adds tensors and consumers to the native library in the order of their numbers, which a state keeps."""
        for key, place in sorted(((k, p) for k, p in self.places.items() if p.tensor is not None), key=lambda kp: kp[1].tensor):
            self.adaptive.add_tensor(key, max(1, place.n_elements))
        consumers = sorted((number, use, kind) for use in self.uses.values() for kind, number in use.consumers.items())
        for number, use, kind in consumers:
            self.adaptive.add_consumer(self.places[use.site].tensor, f"{use.key} {kind}", use.n_weights.get(kind, 0))
