"""P-values of tests between log-linear models for many tables at once, for benchmarks that simulate tables."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optrr.analysis.loglinear.comparing import ModelTest
from optrr.core.inference.simulation import LimitOrDrawn, Simulation, simulated_p_values
from optrr_solvers.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class ModelTests:
    """Tests of a batch of tables, shape (B,); p-values are NaN where a test is not ``answered``.

    ``fewest`` records are expected in any report. The smaller model's faintest margin is shown as well as by ``worth`` true
    records a cell, and what is tested as well as by ``shown``.
    """

    p_value: FloatArray
    simulated: NDArray[np.bool_]
    by_ratio: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    fewest: FloatArray
    worth: FloatArray
    shown: FloatArray

    @classmethod
    def of(cls, test: ModelTest, tables: FloatArray, rng: np.random.Generator, rule: Simulation) -> "ModelTests":
        """Test tables of counts (B, *sizes) as :func:`optrr.analysis.loglinear.comparing.compare_models` tests one."""
        null = test.null
        fits, n = null.fitted(tables), tables.sum(axis=null.kernel.axes)
        statistic, by_score, answered = test.measured(tables, fits)
        fewest = n * fits.expected.min(axis=null.kernel.axes)
        told, others = np.flatnonzero(by_score), np.flatnonzero(~by_score)
        out = LimitOrDrawn.of(
            statistic[told], test.df, fewest[told],
            lambda where: test.draw(fits.part(told[where]), n[told[where]], rng), rule,
            clear=null.clear_of_zero(fits.part(told), n[told]), possible=answered[told],
        )  # fmt: skip
        p, simulated = np.full(n.size, np.nan), ~by_score
        p[told], simulated[told] = out.p_value, out.simulated
        if test.ratio is not None and others.size:
            draw = test.ratio.draw(tables[others], fits.part(others), rng)
            p[others] = simulated_p_values(statistic[others], draw, rule)[0]
        p[~answered] = np.nan
        return cls(p, simulated, ~by_score, answered, fewest, null.records_worth(fits, n), test.shown(fits, n))
