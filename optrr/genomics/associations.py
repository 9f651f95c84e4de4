"""The result of a scan: one row for each variant under the field's usual column names (PLINK's ``.assoc``), as a TSV.

    CHR SNP BP A1 A2 TEST N  F_A F_U      estimated frequency of A1 in cases and controls (noise may take it outside 0..1)
    STAT DF P                             χ² statistic, its degrees of freedom, p-value
    P_GC BONF FDR_BH                      p after genomic control, Bonferroni, Benjamini–Hochberg
    OR SE L95 U95                         odds ratio of A1, standard error of its logarithm, 95 % interval
    EXPECTED                              smallest expected count of an observed cell under the null

What is undefined is NA.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optrr.genomics.genotypes import Variants
from optrr.genomics.multiple import bonferroni, controlled_p, false_discovery_rate, genomic_control
from optrr.genomics.odds import OddsRatios
from optrr.genomics.scores import Scores
from optrr.records.files import whole_file
from optrr_solvers.problem import IntArray

# Below this many expected observations in some cell, a χ² p-value of two degrees of freedom is not to be trusted.
FEW_EXPECTED = 5.0

# Rows formatted at once, so that text takes a few megabytes.
_ROWS = 1 << 14


@dataclass(frozen=True, eq=False)
class Associations:
    """Tests of every variant. ``naive`` holds the invalid test's p-values where they were asked for.

    ``skipped``: variants left out by reason; ``warnings``: one line each.
    """

    variants: Variants
    test: str
    n: IntArray
    scores: Scores
    odds: OddsRatios
    naive: Scores | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @cached_property
    def lambda_gc(self) -> float:
        """Genomic control factor."""
        return genomic_control(self.scores.statistic, self.scores.df)

    @cached_property
    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The table, column by column, shape (V,) each."""
        s, odds = self.scores, self.odds
        low, high = odds.interval()
        with np.errstate(over="ignore"):
            ratio = np.exp(odds.log_ratio)
        out: dict[str, NDArray[np.generic]] = {
            "CHR": self.variants.chromosome,
            "SNP": self.variants.name,
            "BP": self.variants.position,
            "A1": self.variants.a1,
            "A2": self.variants.a2,
            "TEST": np.full(len(self.variants), self.test.upper(), dtype=object),
            "N": self.n,
            "F_A": odds.cases,
            "F_U": odds.controls,
            "STAT": s.statistic,
            "DF": np.full(len(self.variants), s.df),
            "P": s.p_value,
            "P_GC": controlled_p(s.statistic, s.df),
            "BONF": bonferroni(s.p_value),
            "FDR_BH": false_discovery_rate(s.p_value),
            "OR": ratio,
            "SE": odds.standard_error,
            "L95": low,
            "U95": high,
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


def _texts(values: NDArray[np.generic]) -> list[str]:
    if values.dtype.kind != "f":
        return [str(v) for v in values]
    return ["NA" if math.isnan(v) else f"{v:.6g}" for v in values.tolist()]
