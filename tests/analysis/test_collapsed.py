"""Collapsed categories: beside matrices merged entry by entry, sums of cells, and records merged before."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import optrr
from optrr import Bootstrap, Constraints, Domain, InvalidInput, OptrrWarning, Sample, design
from optrr.analysis.collapsed import REST, CollapsedAsking

DOMAIN = Domain.of({"a": ["p", "q", "x", "y", "z"], "b": ["no", "yes"], "c": ["k", "l", "m"]})
POOL = {"a": ["x", "z"]}
SHARES = np.array([0.6, 0.37, 0.01, 0.015, 0.005])


def records(n, seed):
    rng = np.random.default_rng(seed)
    a = rng.choice(5, n, p=SHARES)
    b = (rng.random(n) < np.array([0.3, 0.5, 0.7, 0.7, 0.7])[a]).astype(int)
    codes = {"a": a, "b": b, "c": rng.integers(0, 3, n)}
    return pa.table({name: [DOMAIN[name].categories[k] for k in own] for name, own in codes.items()})


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptrrWarning)
        yield


@pytest.mark.parametrize("wishes", [{}, {"constraints": Constraints(preserve="pairs")}, {"method": "kronecker"}])
def test_the_kernel_is_the_matrix_merged_entry_by_entry(wishes):
    """Chances of merged reports are those of any category of the group, whichever it is."""
    made = design(DOMAIN, [0.7, 1.5, 2.0], **wishes)
    collapsed = CollapsedAsking.declared(made, POOL | {"c": ["k", "m"]})
    whole, small = made.mechanism.kernel(("a", "b", "c")), collapsed.mechanism.kernel(("a", "b", "c"))
    assert small.sizes == (4, 2, 2)
    into = [{"p": 0, "q": 1, "y": 2, "x": 3, "z": 3}, {"no": 0, "yes": 1}, {"l": 0, "k": 1, "m": 1}]
    cells = [
        tuple(m[DOMAIN.attributes[i].texts[k]] for i, (m, k) in enumerate(zip(into, u, strict=True)))
        for u in np.ndindex(5, 2, 3)
    ]
    matrix, merged = whole.matrix(), small.matrix().reshape(4, 2, 2, 4, 2, 2)
    for u, cell in enumerate(cells):
        wanted = np.zeros((4, 2, 2))
        for v, other in enumerate(cells):
            wanted[other] += matrix[u, v]
        np.testing.assert_allclose(merged[cell], wanted, atol=1e-12)


def test_estimates_are_sums_of_cells_and_say_what_was_collapsed():
    made = design(DOMAIN, 2.0, constraints=Constraints(preserve="pairs"))
    reports = made.reports(made.randomize(records(5000, 1), random_state=1))
    whole, collapsed = reports.table("a", "b").estimate, reports.collapsed(POOL)
    table = collapsed.table("a", "b")
    assert table.domain["a"].categories == ("p", "q", "y", REST)
    np.testing.assert_allclose(table.estimate, np.vstack([whole[[0, 1, 3]], whole[2] + whole[4]]), atol=1e-12)
    with pytest.warns(OptrrWarning, match=r"a: x, z collapsed as \(rest\)"):
        collapsed.measure("cramers-v", "a", "b")


def test_a_share_pools_what_is_estimated_below_it_and_nothing_in_order():
    made = design(DOMAIN, 6.0, method="kronecker")
    reports = made.reports(made.randomize(records(20_000, 2), random_state=2))
    for share in (0.03, "0.03", "3%", " 3 %"):
        assert dict(reports.collapsed(share).asking.parts) == {"a": (2, 3, 4)}
    # a single rare one goes with the next
    assert dict(reports.collapsed(0.007, "a").asking.parts) == {"a": (2, 4)}
    assert not reports.collapsed(0.03, "b", "c").asking.parts
    ordered = Domain((*DOMAIN.subset(["a"]), optrr.Attribute("o", ("s", "t", "u"), ordered=True)))
    assert not CollapsedAsking.below(design(ordered, 1.0), 0.9, {"o": np.array([0.8, 0.1, 0.1])}).parts
    with pytest.raises(InvalidInput, match="is ordered"):
        CollapsedAsking.declared(design(ordered, 1.0), {"o": ["s", "t"]})


@pytest.mark.slow
def test_of_true_records_every_analysis_is_that_of_records_merged_before():
    """ε of 30 leaves records as they are."""
    made, true = design(DOMAIN, 30.0), records(3000, 3)
    texts = [REST if text in POOL["a"] else text for text in true["a"].to_pylist()]
    small = design(Domain.of({"a": ["p", "q", "y", REST], "b": ["no", "yes"], "c": ["k", "l", "m"]}), 30.0)
    merged = small.reports(small.randomize(true.set_column(0, "a", [texts]), random_state=1))
    weights = pa.array(np.random.default_rng(4).uniform(0.5, 2.0, 3000))
    collapsed = made.reports(made.randomize(true, random_state=1)).collapsed(POOL)
    for ask in (
        lambda r: r.measure("cramers-v", "a", "b").value,
        lambda r: r.test("a", "b").statistic,
        lambda r: r.test("a", "b", given="c", calibration=Bootstrap(random_state=1)).statistic,
        lambda r: r.model("a*b").coefficients,
        lambda r: r.regress("b ~ a + c").to_pandas()["estimate"].to_numpy(float),
    ):
        np.testing.assert_allclose(ask(collapsed), ask(merged), rtol=1e-4, atol=1e-6)
    ours = made.reports(made.randomize(true, random_state=1).append_column("w", weights)).collapsed(POOL)
    theirs = small.reports(
        small.randomize(true.set_column(0, "a", [texts]), random_state=1).append_column("w", weights)
    )
    for ask in (
        lambda r: r.table("a", "b", sample=Sample(weights="w")).tables[0].estimate,
        lambda r: r.test("a", "b", sample=Sample(weights="w")).statistic,
    ):
        np.testing.assert_allclose(ask(ours), ask(theirs), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ({"a": ["x"]}, "name two"),
        ({"a": ["p", "q", "x", "y", "z"]}, "not all"),
        ({"a": ["x", "w"]}, "has no category 'w'"),
        ({"d": ["x", "y"]}, "there is no attribute"),
        (1.5, "above 0 and below 1"),
        ("150%", "above 0 and below 1"),
        ("rare", "give one such as 1%"),
        (None, "give one such as 1%"),
    ],
)
def test_what_cannot_be_collapsed_is_refused(pool, said):
    made = design(DOMAIN, 2.0)
    reports = made.reports(made.randomize(records(200, 5), random_state=1))
    with pytest.raises(InvalidInput, match=said):
        reports.collapsed(pool)
    with pytest.raises(InvalidInput, match="once"):
        reports.collapsed(POOL).collapsed(POOL)
