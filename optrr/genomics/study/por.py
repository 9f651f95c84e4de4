"""POR Fig. 5: as published, then with its slip mended, with unbiased statistics, and with the certified optimum.

Setting of POR §V-B: N people, one allele × status attribute for each SNP, a ~ Bin(N, 1/3), b ~ Bin(N−a, 1/3),
c ~ Bin(N−a−b, 2/5), ε_i uniform in 3..5, error = mean |χ² − χ²_true|.

The authors' public code (https://github.com/ay0408/Optimized-RR, Example.ipynb) lays out the records of one SNP after the
other in one array and randomizes only when all are laid out, so that every SNP's reports come from the records of the last
SNP; they are then compared with each SNP's own true statistic. Two rows repeat that slip; all others are without it.

    published heuristic, published Kronecker
                every SNP randomized from the last one's records; Kronecker scales the ε_i that the heuristic achieved
    requested   randomized response at the ε_i asked for: the accuracy that POR's heuristic and the optimum promise
    heuristic   POR's, which replaces some of the ε_i; its total E is what kronecker and optimum may spend
    records     the same on whole records, as a check
    kronecker   every ε_i scaled down until they sum to E
    optimum     every ε_i scaled until the certified optimum's total is E (within 0.01, or 0.1 beyond 20 SNPs)

A SNP's reports under any of these are ordinary randomized response at its achieved ε_i, so its counts are drawn directly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from optrr.errors import InvalidInput
from optrr.genomics.study.grid import CellResult, run_grid
from optrr.genomics.study.por_draws import FEW, PEOPLE, WAYS, ScaledOptimum, one_set
from optrr.genomics.tests import Progress
from optrr.show import SOFTWARE
from optrr.show.result import TableResult

if TYPE_CHECKING:
    import pyarrow as pa

SIZES = tuple(range(10, 101, 10))
# Where the optimum is solved, too, which takes minutes.
SOLVED = (10, 20, 50, 100)
# So that no two seeds have a number of SNPs whose draws agree.
_APART = 1000


@dataclass(frozen=True)
class PorSetting:
    """Numbers of ``snps``, draws of the ε_i (``repeats``), and for how many at 50 SNPs the optimum is solved (``optima``)."""

    snps: Sequence[int] = SIZES
    repeats: int = 20
    optima: int = 6
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.snps or min(self.snps) < 2 or len(set(self.snps)) < len(self.snps):
            raise InvalidInput(f"numbers of SNPs {list(self.snps)}; give different ones of at least 2")
        if self.repeats < 2:
            raise InvalidInput(f"{self.repeats} repeats; give at least 2, standard errors come from their spread")
        if self.optima < 0:
            raise InvalidInput(f"{self.optima} optima; give 0 or more")

    @property
    def digest(self) -> str:
        """Of the setting and the version."""
        return hashlib.sha256(json.dumps([asdict(self), SOFTWARE]).encode()).hexdigest()


@dataclass(frozen=True)
class PorRow:
    """Means over ``repeats`` draws of the ε_i, and standard errors between them.

    ``total`` ε in nats, ``epsilon`` the mean ε_i, ``naive`` and ``unbiased`` mean |χ² − χ² of the true table| of the statistic
    of the perturbed counts and of the one from the unbiased table.
    """

    snps: int
    method: str
    repeats: int
    total: float
    total_se: float
    epsilon: float
    epsilon_se: float
    naive: float
    naive_se: float
    unbiased: float
    unbiased_se: float


@dataclass(frozen=True, eq=False, repr=False)
class PorErrors(TableResult):
    """The rows of Fig. 5, and the digest of its setting and version."""

    setting: PorSetting
    digest: str
    rows: tuple[PorRow, ...]

    in_summary = ("setting", "digest", "rows")
    drawn = ("naive",)

    def _keys(self) -> int:
        return 1

    def headline(self) -> str:
        """What was repeated, and how often."""
        numbers = ", ".join(map(str, self.setting.snps))
        return f"POR Fig. 5: {PEOPLE} people, {numbers} SNPs, {self.setting.repeats} draws of the ε_i each"

    def to_arrow(self) -> pa.Table:
        """One row for each number of SNPs and way."""
        import pyarrow as pa  # noqa: PLC0415 (slow to import, and --help needs none of it)

        # the way first, by which charts name rows
        names = ("method", *(name for name in PorRow.__dataclass_fields__ if name != "method"))
        return pa.table({name: [getattr(row, name) for row in self.rows] for name in names})


def run_por(setting: PorSetting, progress: Progress | None = None, state: Path | None = None) -> PorErrors:
    """The experiment; twenty minutes with the optimum, seconds without it (``optima=0``).

    Parameters
    ----------
    progress
        told how many of how many numbers of SNPs are done.
    state
        a file that keeps finished numbers of SNPs (:mod:`optrr.genomics.study.grid`).
    """
    rows: list[PorRow] = []
    names = [str(n) for n in setting.snps]
    for name, kept in run_grid(names, lambda name: _cell(int(name), setting), setting.digest, state):
        rows += [PorRow(int(name), way, *numbers) for way, numbers in kept.items()]
        if progress is not None:
            progress(names.index(name) + 1, len(names))
    return PorErrors(setting, setting.digest, tuple(rows))


def _cell(snps: int, setting: PorSetting) -> CellResult:
    """Every way at this number of SNPs: the fields of its row."""
    generator = np.random.default_rng(snps + _APART * (setting.seed - 1))
    measured: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in WAYS}
    search = ScaledOptimum()
    for k in range(setting.repeats):
        solved = snps in SOLVED and setting.optima > 0 and (snps <= FEW or k * snps < setting.optima * 50)
        for name, *values in one_set(generator, snps, search if solved else None):
            measured[name].append((values[0], values[1], values[2], values[3]))
    out: CellResult = {}
    for name, each in measured.items():
        if each:
            drawn = np.array(each)
            spread = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn)) if len(drawn) > 1 else np.full(4, np.nan)
            out[name] = [len(drawn), *np.stack([drawn.mean(axis=0), spread], axis=1).ravel().tolist()]
    return out
