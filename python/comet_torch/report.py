"""What a context did: tensors, bytes and time, by site, by module and in all."""
import math

from .bounds import describe

_MB = 1e6


class Figures:
    """Sums over the contents of one site."""

    __slots__ = ("n", "raw", "coded", "seconds", "n_decoded", "bound", "eb", "derived")

    def __init__(self):
        self.n = self.raw = self.coded = self.n_decoded = self.derived = 0
        self.seconds = 0.0
        self.bound, self.eb = None, 0.0


class Report:
    def __init__(self, assessor, session):
        self.assessor, self.session = assessor, session
        self.sites = []
        self.n_passed, self.bytes_passed = {}, {}

    # ---- what hooks tell ----

    def _of(self, site):
        if site.figures is None:
            site.figures = Figures()
            self.sites.append(site)
        return site.figures

    def coded(self, site, content):
        figures = site.figures or self._of(site)
        figures.n += 1
        figures.raw += content.raw_bytes
        figures.coded += content.coded_bytes
        figures.seconds += content.seconds
        figures.bound, figures.eb = content.bound, content.eb

    def measured(self, figures, content):
        """The length of a frame on a device is known once it is decoded."""
        content.coded_bytes = content.stored_bytes()
        figures.coded += content.coded_bytes

    def packed(self, site, content):
        """A tensor of which one bit an element is kept."""
        figures = self._of(site)
        figures.n += 1
        figures.raw += content.raw_bytes
        figures.coded += content.coded_bytes

    def derived(self, site, content):
        """A tensor of the site is computed again in backward, from others that are coded. Of a result of ReLU the signs are stored."""
        figures = self._of(site)
        figures.n += 1
        figures.raw += content.raw_bytes
        figures.coded += content.coded_bytes
        figures.derived += content.raw_bytes

    def passed(self, role, tensor):
        self.n_passed[role] = self.n_passed.get(role, 0) + 1
        self.bytes_passed[role] = self.bytes_passed.get(role, 0) + tensor.numel() * tensor.element_size()

    # ---- what users ask ----

    def totals(self):
        """Sums over all steps so far, in bytes. `raw` counts a tensor once, however many nodes saved it; `derived` is the part of raw
        that is computed again instead of being stored."""
        raw = sum(site.figures.raw for site in self.sites)
        stored = sum(site.figures.coded for site in self.sites)
        return {"tensors": sum(site.figures.n for site in self.sites), "raw": raw, "stored": stored,
                "derived": sum(site.figures.derived for site in self.sites), "ratio": raw / stored if stored else math.nan,
                "passed": sum(self.bytes_passed.values()), "peak_stored": self.session.memory().peak_reserved}

    def modules(self):
        """One entry for each module that saved tensors: a dict of its name, sums and the bounds of its sites."""
        modules = {}
        for site in self.sites:
            f = site.figures
            m = modules.setdefault(site.module, {"module": site.module, "tensors": 0, "raw": 0, "stored": 0, "derived": 0, "seconds": 0.0,
                                                 "bounds": [], "errors": []})
            m["tensors"] += f.n
            m["raw"] += f.raw
            m["stored"] += f.coded
            m["derived"] += f.derived
            m["seconds"] += f.seconds
            if f.derived == 0:
                m["bounds"].append(describe(f.bound))
            m["errors"] += _measured(self.assessor.report(site))
        return list(modules.values())

    def text(self):
        lines = [f"{'module':<40} {'tensors':>8} {'raw MB':>10} {'stored MB':>10} {'ratio':>7} {'error':>6} {'s':>7}  bounds"]
        lines += [_line(m) for m in self.modules()]
        t = self.totals()
        seconds = sum(site.figures.seconds for site in self.sites)
        lines.append(_line({"module": "all", "tensors": t["tensors"], "raw": t["raw"], "stored": t["stored"], "seconds": seconds,
                            "bounds": [], "errors": []}))
        lines.append(f"computed again instead of stored: {t['derived'] / _MB:.2f} MB; left alone: {t['passed'] / _MB:.2f} MB, of which "
                     + ", ".join(f"{role.value} {n / _MB:.2f}" for role, n in sorted(self.bytes_passed.items(), key=lambda item: -item[1])))
        lines.append(f"peak of coded tensors: {t['peak_stored'] / _MB:.2f} MB")
        return "\n".join(lines)


def _measured(report):
    """Measured errors of gradients, in units of what they may be."""
    states = [state for kinds in report.get("uses", {}).values() for state in kinds.values()]
    return [state.sigma_measured / state.sigma_target for state in states
            if state.sigma_target > 0 and math.isfinite(state.sigma_measured)]


def _line(m):
    ratio = f"{m['raw'] / m['stored']:.1f}" if m["stored"] else "-"
    error = f"{max(m['errors']):.2f}" if m["errors"] else "-"
    bounds = ", ".join(dict.fromkeys(m["bounds"]))
    return f"{m['module'] or '(outside)':<40} {m['tensors']:>8} {m['raw'] / _MB:>10.2f} {m['stored'] / _MB:>10.2f} {ratio:>7} {error:>6} " \
        f"{m['seconds']:>7.2f}  {bounds}"
