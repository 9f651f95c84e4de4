"""Errors of all known protocols for tables at one total ε on three real data sets, relative to the lower bound.

Adult, Berkeley's admissions and markers of the 1000 Genomes Project; all pairs, and all one-way tables for ways that give no
more. Errors are n E‖π̂ − π‖² summed over the tables. *Predicted* ones are of estimates without bias, at the uniform
population. *Drawn* ones are around the people's own shares:

    one-way   reports of the library multi-freq-ldpy (0.2.5), through the project's estimates, over their prediction
    pairs     HDG and TDG (Yang, Wang, Li & others 2020, *Answering multi-dimensional range queries under local differential
              privacy*; the repository privmdr), categories as intervals of equal length; their estimates are clipped, smoothed
              and so biased, which helps where noise would swamp a table, so the mixture's are shown as they are and
              projected onto proper tables

What is not installed is left out, and rivals.md says so: ``multi_freq_ldpy``, and ``HDG`` and ``factorization``, which are
single files. Writes rivals.csv, rivals_drawn.csv, rivals.svg (Adult's pairs) and rivals.md; ten minutes on one core.
"""

import importlib.util
import io
import math
import types
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from itertools import combinations

import numpy as np
import published
import pyarrow as pa
from any_mechanism import asked, populations
from field_protocols import FieldProtocol, FieldReports, Oracle, fake_data, sample, split
from matplotlib import pyplot as plt
from matplotlib.ticker import NullLocator
from public_optimiser import public_error
from writing import save, write_csv, write_text

from optrr.core.display.charts import COLOURS
from optrr.core.domain.domain import Domain
from optrr.core.estimation.simplex import projection
from optrr_solvers.allocation.any_mechanism import error_bound
from optrr_solvers.allocation.mixture import mixture
from optrr_solvers.allocation.workload import TableWorkload

SEED = 3
TOTALS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
DRAWN_TOTALS = (0.5, 1.0, 2.0, 4.0, 8.0)
RUNS, LIBRARY_TOTALS, LIBRARY_PEOPLE = 3, (1.0, 4.0), 5_000
# The picture goes up to this many times the bound; public optimisers are run up to so many cells, here with one start.
MOST_SHOWN, MOST_CELLS = 60, 64

Way = Callable[[TableWorkload, float], float]


def optimiser(workload: TableWorkload, total: float) -> float:
    """McKenna and others' public optimiser; NaN where it is not installed, has too many cells, or is at a total not shown."""
    if math.prod(workload.sizes.tolist()) > MOST_CELLS or total not in DRAWN_TOTALS or not installed("factorization"):
        return math.nan
    return public_error(workload, total, starts=1, rounds=4)


def smp(workload: TableWorkload, total: float) -> float:
    """Each person reports one random attribute."""
    return published.of_protocol(workload, sample(workload.sizes, total))


def fakes(workload: TableWorkload, total: float) -> float:
    """RS+FD at this ε of the whole record, by the best of its three kinds of fake answers."""
    kinds: tuple[tuple[Oracle, bool], ...] = (("grr", False), ("oue", False), ("oue", True))
    return min(published.of_protocol(workload, fake_data(workload.sizes, total, o, zeros=z)) for o, z in kinds)


OURS: dict[str, Way] = {
    "mixture": lambda workload, total: mixture(workload, total).error,
    "random tables, combined": published.combined,
    "optimum over full records": published.optimum,
}
PUBLISHED: dict[str, Way] = {
    "random tables, by themselves": published.apart,
    "CALM's groups": published.calm,
    "random parities": published.parity,
    "public optimiser": optimiser,
    "SPL": published.spl,
    "SMP": smp,
    "RS+FD": fakes,
    "RR on every attribute": published.kronecker,
    "RR on the whole record": published.whole_record,
}
# What gives no pairs.
ONE_WAY_ONLY = ("SMP", "RS+FD")
GRIDS = {"HDG": "AG_Uniform_Grid_1_2_way_optimal", "TDG": "AG_Uniform_Grid_optimal"}


def installed(module: str) -> bool:
    """Whether a public package, or file of one, can be imported."""
    return importlib.util.find_spec(module) is not None


def predicted(totals: tuple[float, ...] = TOTALS) -> Iterator[dict[str, object]]:
    """Error over the bound of every way, for all pairs and all one-way tables of each set of people."""
    for people, domain, _ in populations():
        for width in (2, 1):
            workload = published.wanted(domain.sizes.tolist(), width)
            for total in totals:
                bound = error_bound(workload, total)
                known = {k: w for k, w in (OURS | PUBLISHED).items() if width == 1 or k not in ONE_WAY_ONLY}
                ways = {k: known[k](workload, total) / bound if k in known else math.nan for k in OURS | PUBLISHED}
                if np.nanmin(list(ways.values())) < 1 - 1e-9:
                    raise AssertionError(f"below what no mechanism can be below: {people}, {width}, {total}, {ways}")
                kind = {1: "one-way", 2: "pairs"}[width]
                yield {"people": people, "tables": kind, "total": total, "bound": bound, **ways}


def shares_of(codes: np.ndarray, sizes: list[int], attributes: tuple[int, ...]) -> np.ndarray:
    """The people's own shares of the cells of a table, flat."""
    flat = np.ravel_multi_index(tuple(codes[:, list(attributes)].T), [sizes[i] for i in attributes])
    return np.bincount(flat, minlength=math.prod(sizes[i] for i in attributes)) / len(codes)


def drawn_pairs() -> Iterator[dict[str, object]]:
    """n times the squared error around the people's own shares, over the bound, of HDG, TDG and the mixture; all people."""
    for people, domain, codes in populations():
        sizes, plain = domain.sizes.tolist(), Domain.of({a.name: a.size for a in domain})
        pairs = list(combinations(range(domain.m), 2))
        truth = {pair: shares_of(codes, sizes, pair) for pair in pairs}
        workload = published.wanted(sizes, 2)
        for total in DRAWN_TOTALS:
            bound, way = error_bound(workload, total), asked(plain, total)
            errors: dict[str, list[float]] = {}

            for run in range(RUNS):
                answers = way.randomize(pa.table(dict(zip(plain.names, codes.T, strict=True))), random_state=run)
                tables = {p: way.estimate(answers, [plain.names[i] for i in p]).estimate.ravel() for p in pairs}
                tables_of = {"mixture": tables, "mixture, projected": {p: projection(t) for p, t in tables.items()}}
                tables_of |= {name: grids(name, codes, sizes, total, run) for name in GRIDS if installed(name)}
                for name, each in tables_of.items():
                    off = sum(float(np.sum((t - truth[pair]) ** 2)) for pair, t in each.items())
                    errors.setdefault(name, []).append(len(codes) * off / bound)
            for name, values in errors.items():
                yield _drawn(people, "pairs", name, total, values)


def _drawn(people: str, tables: str, way: str, total: float, values: list[float]) -> dict[str, object]:
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    row = {"people": people, "tables": tables, "way": way, "total": total}
    return row | {"ratio": float(np.mean(values)), "standard error": spread}


def grids(name: str, codes: np.ndarray, sizes: list[int], total: float, seed: int) -> dict[tuple[int, int], np.ndarray]:
    """Pair tables of the public HDG or TDG; category v of r is the v-th of r intervals of a domain of 2^k values."""
    np.random.seed(seed)  # noqa: NPY002 (what that code draws with)
    width = 1 << max(1, math.ceil(math.log2(max(sizes))))
    ends = [np.arange(r + 1) * width // r for r in sizes]
    # anywhere in its interval, as that code takes values of a cell to be equally frequent
    low, high = (np.column_stack([e[codes[:, i] + k] for i, e in enumerate(ends)]) for k in (0, 1))
    records = np.random.permutation(low + (np.random.random(low.shape) * (high - low)).astype(int))  # noqa: NPY002
    args = types.SimpleNamespace(user_num=len(codes), attribute_num=len(sizes), domain_size=width, epsilon=total)
    args.consistency_iteration_num_max = args.weighted_update_iteration_num_max = 100
    made = getattr(importlib.import_module(name), GRIDS[name])(args=args)
    with redirect_stdout(io.StringIO()):
        made.group_attribute()
        made.construct_Grid_set()
        made.get_LDP_Grid_set_divide_user(records.tolist())
        made.get_consistent_Grid_set()
    if name == "HDG":
        made.get_weight_update_for_2_way_group()
    out = {}
    for grid in (g for g in made.Grid_set if len(g.attribute_set) == 2):
        i, j = grid.attribute_set
        if name == "HDG":
            fine = grid.weighted_update_matrix
        else:
            fine = np.zeros((width, width))
            for c in grid.cell_list:
                (a, b), (x, y) = c.left_interval_list, c.right_interval_list
                fine[a : x + 1, b : y + 1] = c.consistent_count / ((x + 1 - a) * (y + 1 - b))
        table = np.add.reduceat(np.add.reduceat(fine, ends[i][:-1], axis=0), ends[j][:-1], axis=1)
        out[i, j] = table.ravel() / len(codes)
    return out


def drawn_one_way() -> Iterator[dict[str, object]]:
    """Squared error of the library's reports over their prediction for these people."""
    if not installed("multi_freq_ldpy"):
        return
    rsfd, smps, spls = (
        importlib.import_module(f"multi_freq_ldpy.mdim_freq_est.{name}_solution") for name in ("RSpFD", "SMP", "SPL")
    )
    rng = np.random.default_rng(SEED)
    for people, domain, codes in populations():
        sizes, m = domain.sizes.tolist(), domain.m
        chosen = codes[rng.integers(0, len(codes), LIBRARY_PEOPLE)]
        truth = [shares_of(chosen, sizes, (i,)) for i in range(m)]
        for total in LIBRARY_TOTALS:
            counted = math.log1p(math.expm1(total) / m)
            for name, protocol, client in (
                ("SPL, GRR", split(sizes, total, "grr"), lambda x, e: spls.SPL_GRR_Client(x, sizes, m, e)),  # noqa: B023
                ("SPL, OUE", split(sizes, total, "oue"), lambda x, e: spls.SPL_UE_Client(x, sizes, m, e)),  # noqa: B023
                ("SMP, GRR", sample(sizes, total, "grr"), lambda x, e: smps.SMP_GRR_Client(x, sizes, m, e)),  # noqa: B023
                ("SMP, OUE", sample(sizes, total, "oue"), lambda x, e: smps.SMP_UE_Client(x, sizes, m, e)),  # noqa: B023
                ("RS+FD, GRR", fake_data(sizes, total), lambda x, _: rsfd.RSpFD_GRR_Client(x, sizes, m, counted)),  # noqa: B023
            ):
                exact = sum(float(v.sum()) for v in protocol.data_variance(truth, LIBRARY_PEOPLE))
                ratios = []
                for _ in range(RUNS):
                    raw = [client(tuple(row), total) for row in chosen.tolist()]
                    estimates = _reports(protocol, raw).estimate()
                    off = sum(float(np.sum((e - t) ** 2)) for e, t in zip(estimates, truth, strict=True))
                    ratios.append(off / exact)
                yield _drawn(people, "one-way", name, total, ratios)


def _reports(protocol: FieldProtocol, raw: list) -> FieldReports:
    m = protocol.m
    if protocol.kind == "SMP":
        answers = [[value for attribute, value in raw if attribute == i] for i in range(m)]
    else:
        answers = [[row[i] for row in raw] for i in range(m)]
    return FieldReports(protocol, tuple(np.asarray(a).astype(np.int64) for a in answers))


def picture(rows: list[dict], drawn: list[dict]) -> None:
    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    shown = [w for w in OURS | PUBLISHED if np.nanmin([MOST_SHOWN, *(r[w] for r in rows)]) < MOST_SHOWN]
    for k, way in enumerate(shown):
        style = {"color": COLOURS[k % len(COLOURS)], "label": way + (" (ours)" if way in OURS else "")}
        line = "-" if way in OURS else "--"
        axes.plot([r["total"] for r in rows], [r[way] for r in rows], line, marker="o", markersize=3, **style)
    for marker, way in zip("x+s", dict.fromkeys(r["way"] for r in drawn if r["way"] != "mixture"), strict=False):
        points = [(r["total"], r["ratio"]) for r in drawn if r["way"] == way]
        style = {"marker": marker, "color": "black", "facecolors": None if marker in "x+" else "none"}
        axes.scatter(*zip(*points, strict=True), s=22, linewidth=1, label=f"{way} (drawn, biased)", **style)
    axes.axhline(1, color="black", linewidth=1)
    note = {"xytext": (4, -11), "textcoords": "offset points", "fontsize": 8}
    axes.annotate("no mechanism without bias can be below", (rows[2]["total"], 1), **note)
    axes.set(xscale="log", yscale="log", xlabel="total ε of a person (nats)", ylabel="error over the bound")
    axes.set_title("Adult, all pairs of nine attributes")
    axes.set_xticks([r["total"] for r in rows], [f"{r['total']:g}" for r in rows])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    # what is further away has its place in the table
    axes.set_ylim(0.01, MOST_SHOWN)
    ticks = (0.01, 0.1, 1, 2, 5, 10, 20, 50)
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.legend(fontsize=7, loc="lower right")
    save(figure, "rivals.svg")


def report(rows: list[dict], drawn: list[dict]) -> str:
    ways = [*OURS, *PUBLISHED]
    lines = [
        "Error over the bound that no mechanism passes whose estimates have no bias at the uniform population. The "
        "smallest",
        "of a row is **bold**, also where it is not ours. The first three are this project's.",
        "",
        "| tables | people | total ε | bound | " + " | ".join(ways) + " |",
        "|---" * (len(ways) + 4) + "|",
    ]
    for r in sorted(rows, key=lambda r: r["tables"] != "pairs"):
        best = np.nanmin([r[w] for w in ways])
        cells = [
            "" if math.isnan(r[w]) else f"**{r[w]:.4g}**" if r[w] <= best * 1.0005 else f"{r[w]:.4g}" for w in ways
        ]
        lines.append(
            f"| {r['tables']} | {r['people']} | {r['total']:g} | {r['bound']:.5g} | " + " | ".join(cells) + " |"
        )
    lines += [
        "",
        "Empty: SMP and RS+FD give no pairs (at most one answer of a report is true). The public optimiser holds a "
        "whole",
        f"matrix and is run up to {MOST_CELLS} cells, at five totals; Adult has millions of cells, the genomes "
        "thousands.",
    ]
    losses = [(r, w) for r in rows for w in PUBLISHED if r[w] < min(r[o] for o in OURS) * 0.999]
    said = (f"{w} on {r['people']}'s {r['tables']} at ε = {r['total']:g} ({r[w]:.4g})" for r, w in losses)
    lines += [
        "",
        "Published ways more accurate than all of ours, by more than 0.1 %: " + ("; ".join(said) or "none") + ".",
        "",
        f"Drawn, {RUNS} runs. Pairs: n × squared error around the people's own shares, over the bound, with all "
        "people; HDG,",
        "TDG and projected tables are biased, so that the bound does not bind them and the number of people matters.",
        f"One-way: reports of multi-freq-ldpy on {LIBRARY_PEOPLE:,} people, their squared error over its prediction.",
        "",
        "| tables | people | total ε | way | ratio | its standard error |",
        "|---" * 6 + "|",
    ]
    for r in drawn:
        name = f"{r['tables']} | {r['people']} | {r['total']:g} | {r['way']}"
        lines.append(f"| {name} | {r['ratio']:.4g} | {r['standard error']:.2g} |")
    absent = [name for name in ("multi_freq_ldpy", "HDG", "factorization") if not installed(name)]
    lines += ["", "Not installed, and left out: " + (", ".join(absent) or "nothing") + "."]
    return "\n".join(lines)


def main() -> None:
    rows = list(predicted())
    drawn = [*drawn_pairs(), *drawn_one_way()]
    write_csv("rivals.csv", rows)
    write_csv("rivals_drawn.csv", drawn)
    picture(
        [r for r in rows if r["people"] == "Adult" and r["tables"] == "pairs"],
        [r for r in drawn if r["people"] == "Adult" and r["tables"] == "pairs"],
    )
    write_text("rivals.md", report(rows, drawn))


if __name__ == "__main__":
    main()
