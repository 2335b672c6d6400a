"""What a context did: tensors, bytes and time, by site, by module and in all."""


def describe(bound):
    """A bound as a user would write it."""
    if bound is None or bound.eb == 0:
        return "exact"
    return f"{bound.eb:.3g}" + {"std": "std", "row": " of each row", "probability": " of probabilities"}.get(bound.relative, "")


class Figures:
    """Sums over the contents of one site."""

    __slots__ = ("n", "raw", "coded", "seconds", "n_decoded", "bound", "eb")

    def __init__(self):
        self.n = self.raw = self.coded = self.n_decoded = 0
        self.seconds = 0.0
        self.bound, self.eb = None, 0.0


class Report:
    def __init__(self):
        self.sites = []
        self.n_passed = {}
        self.bytes_passed = {}

    def coded(self, site, content):
        figures = site.figures
        if figures is None:
            figures = site.figures = Figures()
            self.sites.append(site)
        figures.n += 1
        figures.raw += content.raw_bytes
        figures.coded += content.coded_bytes
        figures.bound, figures.eb = content.bound, content.eb

    def decoded(self, content):
        content.site.figures.n_decoded += 1

    def passed(self, role, tensor):
        self.n_passed[role] = self.n_passed.get(role, 0) + 1
        self.bytes_passed[role] = self.bytes_passed.get(role, 0) + tensor.numel() * tensor.element_size()

    def totals(self):
        raw = sum(site.figures.raw for site in self.sites)
        coded = sum(site.figures.coded for site in self.sites)
        return {"tensors": sum(site.figures.n for site in self.sites), "raw": raw, "stored": coded,
                "ratio": raw / coded if coded else float("nan")}

    def __str__(self):
        lines = [f"{'tensor':<58} {'role':<18} {'n':>6} {'raw MB':>9} {'stored':>9} {'ratio':>7}  bound"]
        for site in self.sites:
            f = site.figures
            lines.append(f"{site.key:<58} {site.role.value:<18} {f.n:>6} {f.raw / 1e6:>9.2f} {f.coded / 1e6:>9.2f} "
                         f"{f.raw / max(f.coded, 1):>7.1f}  {describe(f.bound)}")
        t = self.totals()
        lines.append(f"{'all':<58} {'':<18} {t['tensors']:>6} {t['raw'] / 1e6:>9.2f} {t['stored'] / 1e6:>9.2f} {t['ratio']:>7.1f}")
        return "\n".join(lines)
