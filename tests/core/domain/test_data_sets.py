"""Data as people have them, from a data frame to estimates that cover the truth, with nothing edited by hand.

`fair` comes with statsmodels and `adult` with this package. `people` has the columns, types and gaps of well-known sets of R
(survey, jasa) and of a vote in the Bundestag.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pytest

import optrr
import optrr.core.estimation
from optrr.core.design.design_file import load_design
from optrr.core.design.infer import Proposing
from optrr.core.design.specification import Specification, read_specification
from optrr.core.domain.datasets import ADULT_EIGHT, adult, adult_domain
from optrr.core.mechanisms.release import release_file
from optrr.core.records.counts import count, count_many
from optrr.core.records.observed import observed_domain

# Chance that one data set's intervals miss a true proportion although all is well; seeds are fixed besides.
FALSE_ALARM = 1e-4


def fair() -> pd.DataFrame:
    """6,366 women: halves (ages 17.5, 22, …), whole numbers kept as floats, and hours as real numbers."""
    return pytest.importorskip("statsmodels.api").datasets.fair.load_pandas().data


def people() -> pd.DataFrame:
    """Umlauts, semicolons and slashes, intervals of ``pandas.cut``, an order, marks, dates, years, and numbers with gaps."""
    rng, n = np.random.default_rng(5), 4_000
    day = pd.Timestamp("1967-09-01") + pd.to_timedelta(rng.integers(0, 2400, n), unit="D")
    later = day + pd.to_timedelta(rng.integers(1, 300, n), unit="D")
    return pd.DataFrame(
        {
            "partei": rng.choice(["CDU/CSU", "SPD", "Grüne", "Die; Übrigen"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "land": rng.choice(["Baden-Württemberg", "Thüringen", "Köln, Stadt"], n),
            "alter": pd.cut(rng.uniform(18, 90, n), [18, 30, 45, 60, 90]),
            "Sex": rng.choice(["Female", "Male", "NA"], n, p=[0.49, 0.5, 0.01]),
            "Exer": pd.Categorical(rng.choice(EXERCISE, n), categories=EXERCISE, ordered=True),
            "Smoke": rng.choice(["Never", "Regul", "Occas", "Heavy", "."], n),
            "Pulse": np.where(rng.random(n) < 0.19, np.nan, rng.integers(35, 105, n)),
            "Height": np.where(rng.random(n) < 0.1, np.nan, rng.normal(172, 10, n)),
            "accept": day,
            "transplant": np.where(rng.random(n) < 0.3, pd.NaT, later),
            "year": day.to_period("Y"),
            "mismatch": np.where(rng.random(n) < 0.35, np.nan, rng.integers(0, 5, n)),
        }
    ).astype({"transplant": "datetime64[ns]"})


EXERCISE = ["None", "Some", "Freq"]
PEOPLE = Proposing(
    bins={"Pulse": 4, "Height": 5, "accept": 3, "transplant": ["-inf", "1970-01-01", "1972-01-01", "inf"]},
    missing=["NA", "."],
)
SETS = {
    "fair": (fair, Proposing(bins={"affairs": [0, 1e-9, 1, 5, np.inf]})),
    "people": (people, PEOPLE),
    "adult": (lambda: adult().to_pandas(), Proposing()),
}


def covered(released, design, truth) -> None:
    """Every attribute's simultaneous intervals hold the true proportions, which no mechanism has seen."""
    confidence = 1 - FALSE_ALARM / design.domain.m
    for name in design.domain.names:
        counts = count(released, design.domain, [name])
        estimate = optrr.estimate(counts, design.mechanism, confidence=confidence, simultaneous=True)
        true = truth[name].proportions
        assert np.all((estimate.lower <= true) & (true <= estimate.upper)), name
        assert estimate.to_arrow()[name].to_pylist() == list(design.domain[name].texts)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in ("fair", "adult"))) for n in SETS])
def test_from_a_frame_to_estimates(tmp_path: Path, name: str) -> None:
    make, proposing = SETS[name]
    frame = make()
    (tmp_path / "spec.toml").write_text(
        Specification.from_frame(frame, proposing, epsilon=2.0).to_toml(), encoding="utf-8"
    )
    wanted = read_specification(tmp_path / "spec.toml")
    assert wanted.domain.names == tuple(frame.columns)
    made = optrr.design(wanted.domain, wanted.epsilons)
    optrr.save(made, tmp_path / "design.json")
    design = load_design(tmp_path / "design.json")
    truth = {n: count(frame, design.domain, [n]) for n in design.domain.names}
    for column in frame.columns:  # and the truth is what pandas says it is
        assert truth[column].n == len(frame)
        missing = design.domain[column].missing_code
        if missing is not None:
            assert truth[column].table[missing] == frame[column].isin(["NA", "."]).sum() + frame[column].isna().sum()
    covered(design.mechanism.randomize(frame, random_state=7), design, truth)
    frame.to_csv(tmp_path / "true.csv", index=False, sep=";", encoding="latin-1")
    release_file(tmp_path / "true.csv", design.mechanism, tmp_path / "released.parquet", 8)
    covered(tmp_path / "released.parquet", design, truth)
    # polars has no intervals and periods
    plain = pl.from_pandas(frame.astype({name: str for name in ("alter", "year") if name in frame}))
    covered(design.mechanism.randomize(plain, random_state=9), design, truth)


def test_the_shape_of_adult():
    assert adult().shape == (32_561, 9)
    assert adult().schema.names == list(adult_domain().names)
    assert adult_domain().sizes.tolist() == [9, 16, 7, 15, 6, 5, 2, 42, 2]
    assert set(adult_domain().names) - set(ADULT_EIGHT) == {"native-country"}
    assert adult_domain().subset(ADULT_EIGHT).sizes.tolist() == [9, 16, 7, 15, 6, 5, 2, 2]


def test_every_declared_category_occurs_and_no_other():
    observed = observed_domain(adult(), adult_domain().names)
    for declared, seen in zip(adult_domain(), observed, strict=True):
        assert set(declared.categories) == set(seen.categories)


def test_published_counts_of_adult():
    """Class and sex frequencies of the training file as its UCI documentation and textbooks give them."""
    tables = count_many(adult(), adult_domain(), [["income"], ["sex"], ["race"]])
    assert tables["income",].table.tolist() == [24_720, 7_841]
    assert tables["sex",].table.tolist() == [10_771, 21_790]
    assert tables["race",].table.tolist() == [311, 1_039, 3_124, 271, 27_816]
    assert pc.sum(pc.equal(adult()["native-country"], "United-States")).as_py() == 29_170
