"""Every result that is a table goes into every data frame library and shows itself."""

import importlib
import inspect
import pkgutil
import sys

import numpy as np
import pyarrow as pa
import pytest
from genotypes import cohort_of
from matplotlib.figure import Figure

import optrr
import optrr.analysis.loglinear
import optrr.analysis.measures
import optrr.analysis.regression.fitting
import optrr.analysis.synthesis.drawing
import optrr.analysis.weighting.estimating
import optrr.core.design
import optrr.core.estimation
import optrr.core.inference
import optrr.devices.audit
from optrr import genomics, longitudinal
from optrr.core.account import Accounting
from optrr.core.design.design_file import recomputed_design
from optrr.core.display.result import TableResult
from optrr.core.estimation.table import counted_table
from optrr.core.provenance.accounting import Release

DOMAIN = optrr.Domain.of({"a": 2, "b": ["<i>x</i>", "y", "z"]})


def cohort():
    return cohort_of(np.random.default_rng(1).integers(0, 3, (120, 4)), names=[f"v{i}" for i in range(4)])


def counts():
    rng = np.random.default_rng(2)
    return optrr.count(np.stack([rng.integers(0, 2, 50), rng.integers(0, 3, 50)], axis=1), DOMAIN, ["a", "b"])


def scanned():
    people = cohort()
    design = genomics.genomic_design(
        genomics.Wanted(list(people.variants.name)), genomics.Budget(total=8.0, status=3.0)
    )
    layout = genomics.layout_of(design.domain)
    records = genomics.records_of(people, layout)
    genomics.randomize_records(records, design.mechanism, 3)
    return genomics.scan(genomics.randomized_cohort(people, records, layout), design.law, layout)


def reported():
    people = cohort()
    return genomics.design(people, 8.0).randomize(people, random_state=3)


def asked_twice():
    design = longitudinal.longitudinal(DOMAIN, 1.0, 4.0)
    cells = np.random.default_rng(4).integers(0, 6, (40, 2))
    return longitudinal.Panel(design.domain, design.mechanism, cells).average()


def clustered():
    design = optrr.design(DOMAIN, 2.0)
    records = {a.name: np.random.default_rng(6).choice(a.texts, 200) for a in design.domain}
    return optrr.reports(design.randomize(optrr.core.domain.datasets.pa.table(records)), design).cluster(6, 0.1)


def weighted():
    design = optrr.design(DOMAIN, 2.0)
    rng = np.random.default_rng(5)
    frame = pa.table(
        {"a": rng.integers(0, 2, 60).astype(str), "b": rng.choice(list("yz"), 60), "w": rng.uniform(1, 2, 60)}
    )
    return optrr.analysis.weighting.estimating.estimate_weighted(frame, design.mechanism, ["a"], weights="w")


MADE = {
    "Design": lambda: optrr.design(DOMAIN, 1.0),
    "MethodComparison": lambda: optrr.core.design.compare(DOMAIN, np.array([1.0, 2.0])),
    "Verification": lambda: recomputed_design(optrr.design(DOMAIN, 1.0)),
    "Allocation": lambda: optrr.allocate(DOMAIN, 1.0),
    "SampledTables": lambda: optrr.SampledTables(optrr.Domain.of(DOMAIN), (("a",), ("b",)), np.full(2, 0.5), 1.0),
    "AttributeClusters": clustered,
    "Proposal": lambda: optrr.core.design.propose(
        pa.table({"a": [0, 1] * 9, "b": ["<i>x</i>", "y"] * 9}), optrr.core.design.Proposing()
    ),
    "Audit": lambda: optrr.audit(optrr.design(DOMAIN, 1.0), n=200),
    "Accounting": lambda: Accounting((Release.drawn(optrr.design(DOMAIN, 1.0)),)),
    "Counts": counts,
    "Estimate": lambda: optrr.estimate(counts(), optrr.design(DOMAIN, 2.0).mechanism),
    "EstimateAmong": lambda: optrr.analysis.measures.estimate_where(
        counted_table(counts(), optrr.design(DOMAIN, 2.0).mechanism), {}
    ),
    "WeightedEstimate": weighted,
    "Measures": lambda: optrr.analysis.measures.measure(
        counted_table(counts(), optrr.design(DOMAIN, 2.0).mechanism), "odds-ratio"
    ),
    "Derived": lambda: optrr.core.estimation.derive(
        counted_table(counts(), optrr.design(DOMAIN, 2.0).mechanism), "cramers-v"
    ),
    "TestFamily": lambda: optrr.core.inference.result.family(
        [("a", "b")] * 2, [optrr.test(counts(), optrr.design(DOMAIN, 2.0).mechanism)] * 2
    ),
    "LogLinear": lambda: optrr.analysis.fit_loglinear(counts(), optrr.design(DOMAIN, 2.0).mechanism, [("a", "b")]),
    "Regression": lambda: optrr.analysis.regression.fitting.regress(
        counts(), optrr.design(DOMAIN, 6.0).mechanism, "a ~ b"
    ),
    "Combined": lambda: optrr.analysis.combine([0.1, 0.3, 0.2]),
    "Synthetic": lambda: optrr.analysis.synthesis.drawing.synthesize(counts(), optrr.design(DOMAIN, 6.0).mechanism),
    "Poisoning": lambda: optrr.core.estimation.poisoning(counts(), optrr.design(DOMAIN, 2.0).mechanism, 2),
    "LongitudinalDesign": lambda: longitudinal.longitudinal(DOMAIN, 1.0, 4.0),
    "PanelEstimate": asked_twice,
    "Associations": scanned,
    "VariantReport": lambda: reported().variants(by_status=True),
    "Sight": lambda: genomics.sight(genomics.Wanted(["v1", "v2"]), 8.0, genomics.PlannedScan(2000, frequencies=(0.2,))),
    "Study": lambda: genomics.run_study(cohort(), genomics.StudyOptions((8.0,), 2, ("kronecker",), top=3)),
}


def every_kind(base):
    for kind in base.__subclasses__():
        yield kind
        yield from every_kind(kind)


def test_the_list_is_complete():
    for module in pkgutil.walk_packages(optrr.__path__, "optrr."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    tables = {
        k.__name__ for k in every_kind(TableResult) if not inspect.isabstract(k) and k.__module__.startswith("optrr.")
    }
    assert tables == set(MADE)


def keys_in(value):
    """All keys of a JSON object, at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_in, value.values()))
    return set().union(*map(keys_in, value)) if isinstance(value, list) else set()


# Columns that a JSON object has in another form: names of several attributes, of a curve, or of both ends of a range.
OTHER_NAMES = {
    "Accounting": {"from", "design", "release", "mechanism"},
    "SampledTables": {"attributes", "share", "subset_sizes", "likely"},
    "Synthetic": {"a", "b"},
    "Poisoning": {f"{how}_{end}" for how in ("added", "replaced", "left_out") for end in ("lower", "upper")},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MADE))
def test_a_table_goes_everywhere(name):
    result = MADE[name]()
    assert type(result).__name__ == name
    table = result.to_arrow()
    assert table.num_rows and table.num_columns > 1
    assert result.to_pandas().shape == result.to_polars().shape == table.shape
    assert list(result.to_pandas().columns) == table.column_names
    assert set(table.column_names[result._keys() :]) - keys_in(result.summary()) == OTHER_NAMES.get(name, set())
    page = result._repr_html_()
    assert page.count("<tr") == sum(1 + len(each.rows) for each in result.tables_shown(60)) and "<i>x" not in page
    shown = repr(result)
    assert shown.startswith(f"<{name}: ") and len(shown) < 300 and "0x" not in shown
    if name in ("AttributeClusters", "Proposal"):
        with pytest.raises(optrr.InvalidInput, match="has no chart"):
            result.plot()
    else:
        assert isinstance(result.plot(), Figure)
    assert all(isinstance(line, str) for line in result.warnings)


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_data_frame_without_its_library_is_refused_with_a_remedy(monkeypatch, name):
    result = optrr.design(DOMAIN, 2.0)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        optrr.InvalidInput, match=f"{name}, which is not installed: pip install {name}; or use to_arrow"
    ):
        getattr(result, f"to_{name}")()
