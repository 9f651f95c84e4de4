"""Designs for genotypes and status: totals, budgets, the layout, star eigenvalues, what a status is worth."""

import numpy as np
import pytest

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.genomics.cohort import listed_variants
from optrr.genomics.designing import Budget, Wanted, genomic_design
from optrr.genomics.layout import genomic_domain, layout_of, star_eigenvalues
from optrr_solvers import BlockLaw, Problem, ProductLaw, TableLaw, solve

NAMES = [f"rs{k}" for k in range(12)]


def visibility(design) -> float:
    layout = layout_of(design.domain)
    return float(np.mean(star_eigenvalues(design.law, layout.attributes, layout.status)[:, 1, 1] ** 2))


@pytest.mark.parametrize("method", ["auto", "kronecker"])
@pytest.mark.parametrize("total", [1.0, 4.0, 20.0])
def test_a_fixed_total_is_met_from_below(method, total):
    design = genomic_design(Wanted(NAMES, method=method), Budget(total))
    assert total * (1 - 1e-6) <= design.epsilon <= total
    one = design.attribute_epsilons
    assert np.ptp(one[1:]) < 1e-9
    if method == "kronecker":
        assert one.sum() == pytest.approx(total, rel=1e-6)
        np.testing.assert_allclose(design.conditional_epsilons, one, rtol=1e-12)
    else:
        assert design.lower_bound == pytest.approx(design.epsilon, rel=1e-8)
        assert one.sum() > 1.5 * total


def test_a_fixed_epsilon_is_met_exactly():
    design = genomic_design(Wanted(NAMES), Budget(variants=0.4, status=1.3))
    np.testing.assert_allclose(design.attribute_epsilons, [1.3] + [0.4] * 12, rtol=1e-9)
    reference = solve(Problem(np.array([2] + [3] * 12), np.array([1.3] + [0.4] * 12)), "reduced")
    assert design.epsilon == pytest.approx(reference.upper, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "kronecker"])
def test_the_status_gets_what_makes_associations_most_visible(method):
    best = genomic_design(Wanted(NAMES, method=method), Budget(4.0))
    chosen = float(best.attribute_epsilons[0])
    for factor in (0.5, 0.8, 1.25, 1.6):
        other = genomic_design(Wanted(NAMES, method=method), Budget(4.0, status=factor * chosen))
        assert visibility(other) < visibility(best)


def test_budgets_keep_their_ratios():
    ratios = np.array([1.0] * 6 + [2.0] * 6)
    design = genomic_design(Wanted(NAMES), Budget(6.0, variants=ratios, status=1.0))
    one = design.attribute_epsilons
    np.testing.assert_allclose(one[7:] / one[1], 2.0, rtol=1e-8)
    assert one[0] == pytest.approx(1.0, rel=1e-9)
    assert design.epsilon == pytest.approx(6.0, rel=1e-6)


def test_missing_category_and_preserved_pairs():
    design = genomic_design(Wanted(NAMES[:4], missing=True, preserve_pairs=True), Budget(variants=0.3, status=0.3))
    assert design.domain.sizes.tolist() == [2, 4, 4, 4, 4]
    assert design.domain["rs0"].categories == (0, 1, 2, None)
    one = design.solution.problem.eigenvalues
    lam = star_eigenvalues(design.law, np.arange(1, 5), 0)
    assert np.all(lam[:, 1, 1] >= one[1:] * one[0] * (1 - 1e-6))
    free = genomic_design(Wanted(NAMES[:4], missing=True), Budget(variants=0.3, status=0.3))
    assert free.epsilon < design.epsilon <= 1.5 + 1e-9


def test_layouts():
    domain = genomic_domain(["x", "y"], missing=True)
    layout = layout_of(domain)
    assert (layout.status, layout.names, layout.missing) == (0, ("x", "y"), True)
    np.testing.assert_array_equal(layout.attributes, [1, 2])
    layout = layout_of(Domain.of({"x": 3, "status": 2, "y": 3}))
    assert layout.status == 1
    np.testing.assert_array_equal(layout.attributes, [0, 2])
    for bad, message in [
        ({"x": 3, "status": 3}, "it needs 2"),
        ({"x": 3, "y": 4, "status": 2}, "or all 4 with missing"),
        ({"x": 5, "status": 2}, "give all genotypes 3"),
        ({"status": 2}, "only 'status'"),
        ({"x": 3}, "not a design for genotypes"),
        ({"status": 2, "x": (None, 0, 1, 2)}, "put it last"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            layout_of(Domain.of(bad))


def test_a_status_column_that_is_not_named_is_no_variant(tmp_path):
    table = tmp_path / "panel.csv"
    table.write_text("sample,status,rs1\na,case,0\n")
    with pytest.raises(
        InvalidInput, match=r"column 'status' is read as a variant; .*``column=status`` ``cases=VALUE``"
    ):
        listed_variants(table)


@pytest.mark.slow
def test_refusals():
    with pytest.raises(InvalidInput, match="has the name of the phenotype, 'status'"):
        genomic_domain(["status"])
    with pytest.raises(InvalidInput, match="no variants"):
        genomic_domain([])
    with pytest.raises(InvalidInput, match="positive number"):
        genomic_design(Wanted(NAMES), Budget(-1.0))
    with pytest.raises(InvalidInput, match="leaves nothing"):
        genomic_design(Wanted(NAMES), Budget(2.0, status=2.0))
    with pytest.raises(InvalidInput, match="5 variant epsilons for 12"):
        genomic_design(Wanted(NAMES), Budget(variants=np.ones(5)))
    with pytest.raises(InvalidInput, match="epsilon 0 for every variant"):
        genomic_design(Wanted(NAMES), Budget(variants=0.0))
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(InvalidInput, match=f"epsilon {wrong:g} for variant 'rs3'"):
            genomic_design(Wanted(NAMES), Budget(4.0, variants=np.where(np.arange(12) == 3, wrong, 1.0)))
    with pytest.raises(InvalidInput, match="'rs1' is listed 2 times"):
        genomic_domain(["rs0", "rs1", "rs1"])
    with pytest.raises(InvalidInput, match="total epsilon of 3 is too small"):
        # POR's heuristic answers small epsilons with a total near ln of the number of possible records
        genomic_design(Wanted(NAMES, method="inductive"), Budget(3.0))


@pytest.mark.parametrize("method", ["inductive", "kronecker", "classes", "reduced"])
def test_star_is_the_marginal(method):
    generator = np.random.default_rng(1)
    sizes, epsilons = np.r_[2, generator.integers(3, 5, 6)], np.r_[1.0, generator.choice([0.5, 0.9], 6)]
    law = solve(Problem(sizes, epsilons), method).law
    eigenvalues = star_eigenvalues(law, np.arange(1, 7), 0)
    for k in range(6):
        expected = law.eigenvalues((k + 1, 0))
        np.testing.assert_allclose(eigenvalues[k], expected, atol=1e-14)


def test_star_of_blocks_and_of_hidden_pairs():
    blocks = BlockLaw(
        [((0, 1), ProductLaw(np.array([2, 3]), np.array([1.0, 0.5]))), ((2,), ProductLaw(np.array([3]), np.ones(1)))]
    )
    eigenvalues = star_eigenvalues(blocks, np.array([1, 2]), 0)
    np.testing.assert_allclose(eigenvalues[:, 1, 1], eigenvalues[:, 1, 0] * eigenvalues[:, 0, 1], rtol=1e-12)
    # exactly one of two binary attributes changes or stays: with these masses the pair's eigenvalue is 0
    law = TableLaw(np.array([2, 2]), np.log([[0.4, 0.25], [0.25, 0.1]]))
    assert abs(law.eigenvalues((0, 1))[1, 1]) < 1e-12
    with pytest.raises(InvalidInput, match="non-identifiable"):
        star_eigenvalues(law, np.array([1]), 0)


@pytest.mark.slow
def test_every_variant_its_own_budget():
    epsilons = np.linspace(0.3, 0.9, 23)
    design = genomic_design(Wanted([f"v{k}" for k in range(23)]), Budget(variants=epsilons, status=1.0))
    np.testing.assert_allclose(design.attribute_epsilons[1:], epsilons, rtol=1e-6)
    assert design.lower_bound <= design.epsilon <= design.lower_bound + 0.01
    assert design.epsilon < 0.5 * design.kronecker_epsilon
    eigenvalues = star_eigenvalues(design.law, np.arange(1, 24), 0)
    assert np.all(np.diff(eigenvalues[:, 1, 1]) > 0)
    np.testing.assert_allclose(
        eigenvalues[[0, 22], 1, 1], [design.law.eigenvalues((k, 0))[1, 1] for k in (1, 23)], rtol=1e-9
    )


def test_pairs_of_very_many_variants_are_refused_in_a_line() -> None:
    wanted = Wanted([f"v{k}" for k in range(20_001)], preserve_pairs=True)
    with pytest.raises(InvalidInput, match="20001 variants with the status are too many to preserve"):
        genomic_design(wanted, Budget(8.0))
