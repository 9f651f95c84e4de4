"""The result of a scan: one row for each variant under the field's usual column names (PLINK's ``.assoc``), as a TSV.

    CHR SNP BP A1 A2 TEST N  F_A F_U      estimated frequency of A1 in cases and controls (noise may take it outside 0..1)
    STAT DF P                             χ² statistic, its degrees of freedom, p-value
    P_GC BONF FDR_BH                      p after genomic control, Bonferroni, Benjamini–Hochberg
    OR SE L95 U95                         odds ratio of A1, standard error of its logarithm (NA where the interval is not
                                          bounded) and 95 % interval; 0 and inf where noise leaves no limit
    EXPECTED                              smallest number of observed (randomized) records expected in a cell of genotype
                                          and status if they were not associated; the smaller, the farther from χ²
    NAIVE_STAT NAIVE_P                    the test that takes randomized records for true ones, where asked for

Every variant that varies has an interval; a variant that does not, like any undefined number, is NA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.genomics.genotypes import Variants
from optrr.genomics.inflation import Inflation
from optrr.genomics.multiple import GENOME_WIDE, bonferroni, controlled_p, false_discovery_rate
from optrr.genomics.odds import OddsRatios
from optrr.genomics.scores import Scores
from optrr.models.tests.genotypes import ASSUMING
from optrr.records.whole_files import whole_file
from optrr.show.printable import amount
from optrr.show.result import TableResult, in_json
from optrr_solvers.arrays import IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Rows formatted at once, so that text takes a few megabytes.
_ROWS = 1 << 14
# Variants that a summary lists.
TOP = 10


@dataclass(frozen=True, eq=False, repr=False)
class Associations(TableResult):
    """Tests of every variant. ``naive`` holds the invalid test's p-values where they were asked for.

    ``odds_of``: odds ratios of the variants of these numbers; ``skipped``: variants left out by reason; ``warnings``: one line
    each; ``inflation``: λ_GC and what it says (:mod:`optrr.genomics.inflation`); ``naive_harmless``: the share of variants
    whose naive test keeps its level (:mod:`optrr.genomics.noise`).
    """

    variants: Variants
    test: str
    n: IntArray
    scores: Scores
    odds_of: Callable[[slice | IntArray], OddsRatios]
    naive: Scores | None
    skipped: Mapping[str, int]
    inflation: Inflation
    warnings: tuple[str, ...] = ()
    naive_harmless: float | None = None

    in_summary = ("test", "lambda_gc", "warnings")

    @property
    def lambda_gc(self) -> float:
        """Genomic control factor."""
        return self.inflation.factor

    @property
    def notes_on_lambda(self) -> str:
        """What λ_GC says about confounding here, in one sentence."""
        return str(self.inflation)

    @property
    def notes_on_naive(self) -> str:
        """Whether the naive test keeps its level, in one sentence."""
        what = "the naive test (NAIVE_P) takes randomized counts for true ones"
        if self.test == ASSUMING:
            return f"{what}; it is not valid, because randomized genotypes are not in Hardy-Weinberg proportions"
        if self.naive_harmless is None:
            return f"{what}; its p-values are not valid"
        if self.naive_harmless == 1:
            return (
                f"{what}; here its level holds, because the mechanism keeps genotype and status independent where they are "
                "(a product of mechanisms, or a margin that is nearly uniform)"
            )
        return (
            f"{what}; its p-values are not valid for {100 * (1 - self.naive_harmless):.3g} % of the variants: the mechanism "
            "itself makes genotype and status dependent there"
        )

    def headline(self) -> str:
        """Which test, of how many variants, and the smallest p-value."""
        best = self.top(1)
        least = f", smallest p {self.scores.p_value[best[0]]:.3g} ({self.variants.name[best[0]]})" if best.size else ""
        return f"{self.test} test of {amount(len(self.variants), 'variant')}, λ {self.lambda_gc:.3g}{least}"

    def summary(self) -> dict[str, Any]:
        """The command line's JSON object, with the variants of the smallest p-values."""
        p, inflation, top = self.scores.p_value, self.inflation, self.rows(self.top(TOP))
        without, error = inflation.without_randomization
        named: dict[str, Any] = {
            "n": int(self.n.max()),
            "variants": len(self.variants),
            "lambda_gc_error": inflation.factor * inflation.relative_error,
            "lambda_gc_p_value": inflation.chance,
            "lambda_gc_visible": inflation.visible.share,
            "lambda_gc_visible_error": inflation.visible.standard_error,
            "lambda_gc_visible_at_most": inflation.visible.most,
            "lambda_gc_without_randomization": without,
            "lambda_gc_without_randomization_error": error,
            "genome_wide": int(np.sum(p <= GENOME_WIDE)),
            "bonferroni": int(np.sum(bonferroni(p) <= 0.05)),
            "skipped": dict(self.skipped),
            "top": [dict(zip(top, row, strict=True)) for row in zip(*top.values(), strict=True)],
        }
        return {name: in_json(value) for name, value in named.items()} | super().summary()

    def to_arrow(self) -> pa.Table:
        """One row per variant, the columns of the TSV; undefined numbers are null."""
        return _arrow(self.columns)

    def _head(self, count: int | None) -> tuple[pa.Table, int]:
        # odds ratios take most of the time, so they are worked out for the rows shown only
        return _arrow(self.rows(slice(count))), len(self.variants)

    def plot(self) -> Figure:
        """−log10 p along the genome."""
        from optrr.genomics.plots import manhattan  # noqa: PLC0415 (matplotlib takes a second to import)

        return manhattan(self.variants, self.scores.p_value, self.test)

    @cached_property
    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The table, column by column, shape (V,) each."""
        return self.rows(slice(None))

    def rows(self, which: slice | IntArray) -> dict[str, NDArray[np.generic]]:
        """The rows of the variants of these numbers, column by column; odds ratios are worked out for these only."""
        odds = self.odds_of(which)
        own = {"F_A": odds.cases, "F_U": odds.controls, "OR": odds.ratio, "L95": odds.low, "U95": odds.high}
        own["SE"] = odds.standard_error
        return {name: own[name] if name in own else column[which] for name, column in self._statistics.items()}

    @cached_property
    def _statistics(self) -> dict[str, NDArray[np.generic]]:
        s, later = self.scores, np.empty(0)
        out: dict[str, NDArray[np.generic]] = {
            "CHR": self.variants.chromosome,
            "SNP": self.variants.name,
            "BP": self.variants.position,
            "A1": self.variants.a1,
            "A2": self.variants.a2,
            "TEST": np.full(len(self.variants), self.test.upper(), dtype=object),
            "N": self.n,
            "F_A": later,
            "F_U": later,
            "STAT": s.statistic,
            "DF": s.df,
            "P": s.p_value,
            "P_GC": controlled_p(s.statistic, s.df),
            "BONF": bonferroni(s.p_value),
            "FDR_BH": false_discovery_rate(s.p_value),
            "OR": later,
            "SE": later,
            "L95": later,
            "U95": later,
            "EXPECTED": s.expected,
        }
        if self.naive is not None:
            out["NAIVE_STAT"], out["NAIVE_P"] = self.naive.statistic, self.naive.p_value
        return out

    def top(self, count: int) -> IntArray:
        """Numbers of the variants with the smallest p-values, best first; undefined ones never."""
        order = np.argsort(self.scores.p_value, kind="stable")
        return np.asarray(order[: min(count, int(np.isfinite(self.scores.p_value).sum()))])

    def write_tsv(self, path: Path) -> None:
        """Write the table, whole or not at all."""
        columns = self.columns
        with whole_file(path) as partial, partial.open("w", encoding="utf-8") as out:
            out.write("\t".join(columns) + "\n")
            for start in range(0, len(self.variants), _ROWS):
                pieces = [_texts(column[start : start + _ROWS]) for column in columns.values()]
                out.writelines("\t".join(row) + "\n" for row in zip(*pieces, strict=True))


def _arrow(columns: Mapping[str, NDArray[np.generic]]) -> pa.Table:
    return pa.table({name: pa.array(values.tolist(), from_pandas=True) for name, values in columns.items()})


def _texts(values: NDArray[np.generic]) -> list[str]:
    if values.dtype.kind != "f":
        return [str(v) for v in values]
    return ["NA" if math.isnan(v) else f"{v:.6g}" for v in values.tolist()]
