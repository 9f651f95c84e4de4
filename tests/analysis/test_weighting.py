"""Weighted estimates: against formulas written out record by record, statsmodels, and the unweighted estimate."""

import json
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import sqrtm
from scipy.stats import f as f_distribution

import optrr
import optrr.analysis.weighted
from optrr import Domain, InvalidInput, PublicColumns, count, design, estimate
from optrr.analysis.weighted import rao_scott
from optrr.analysis.weighting.estimating import estimate_weighted
from optrr.cli.main import run
from optrr.core.design.design_file import load_design
from optrr.core.mechanisms.matrix import MatrixMechanism, from_probabilities

DOMAIN = Domain.of({"a": ["x", "y", "z"], "b": [0, 1]})


def made(epsilon: float = 1.5):
    return design(DOMAIN, epsilon, method="kronecker")


def people(rng, n=120, strata=3, schools=5) -> pd.DataFrame:
    """Records with a weight, a stratum, a cluster within it whose names repeat in other strata, and a group."""
    return pd.DataFrame(
        {
            "a": rng.choice(["x", "y", "z"], n),
            "w": rng.uniform(0.5, 4, n).round(3),
            "b": rng.integers(0, 2, n),
            "region": np.concatenate(
                [np.repeat(range(strata), schools), rng.integers(0, strata, n - strata * schools)]
            ),
            "school": np.concatenate([np.tile(range(schools), strata), rng.integers(0, schools, n - strata * schools)]),
            "sex": rng.choice(["f", "m"], n),
        }
    )


def scores(data: pd.DataFrame, mechanism, names) -> np.ndarray:
    """(n, R): what each record's report counts for every cell, from the dense inverse of the distortion matrix."""
    inverse = np.linalg.inv(mechanism.matrix(names))
    cells = [
        np.ravel_multi_index([DOMAIN[n].codes[str(r[n])] for n in names], [DOMAIN[n].size for n in names])
        for _, r in data.iterrows()
    ]
    return inverse[cells]


def linearised(y, w, stratum, cluster, inside, lone=None):
    """Shares, totals and their covariances over the records inside, by loops over strata and clusters."""
    total = sum(wi for wi, i in zip(w, inside, strict=True) if i)
    share = sum(wi * yi for wi, yi, i in zip(w, y, inside, strict=True) if i) / total
    covariances = []
    for centre, divisor in ((share, total), (0 * share, 1.0)):
        by_stratum = defaultdict(lambda: defaultdict(lambda: np.zeros(y.shape[1])))
        for yi, wi, h, c, i in zip(y, w, stratum, cluster, inside, strict=True):
            by_stratum[h][c] = by_stratum[h][c] + (wi * (yi - centre) / divisor if i else 0.0)
        every = [z for clusters in by_stratum.values() for z in clusters.values()]
        out = np.zeros((y.shape[1],) * 2)
        for clusters in by_stratum.values():
            z = np.array(list(clusters.values()))
            if len(z) == 1:
                off = z[0] - sum(every) / len(every)
                out += np.outer(off, off)
                continue
            off = z - z.mean(axis=0)
            out += len(z) / (len(z) - 1) * off.T @ off
        covariances.append(out)
    return share, total * share, *covariances


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("names", [("a",), ("b", "a")])
def test_shares_totals_and_errors_are_those_of_the_formulas_written_out(seed, names):
    rng = np.random.default_rng(seed)
    mechanism = made(float(rng.uniform(0.5, 4))).mechanism
    if seed % 2:  # matrices that are not symmetric
        given = (from_probabilities(0.6 * np.eye(r) + 0.4 * rng.dirichlet(np.ones(r), r)) for r in (3, 2))
        mechanism = MatrixMechanism(DOMAIN, tuple(given))
    data = people(rng)
    chosen = rng.permutation([("weights", "w"), ("strata", "region"), ("clusters", "school")])[: 1 + seed % 3]
    options = {str(k): str(v) for k, v in chosen}
    y = scores(data, mechanism, names)
    w = data.w if "weights" in options else np.ones(len(data))
    stratum = data.region if "strata" in options else np.zeros(len(data))
    cluster = data.school if "clusters" in options else range(len(data))
    every = estimate_weighted(data, mechanism, names, **options)
    groups = estimate_weighted(data, mechanism, names, by="sex", **options)
    tables = [(every.table, np.ones(len(data), bool)), *((t, data.sex == t.label[0]) for t in groups.tables)]
    assert [t.label for t in groups.tables] == [("f",), ("m",)]
    for table, inside in tables:
        share, total, shares_covariance, totals_covariance = linearised(y, w, stratum, cluster, inside)
        np.testing.assert_allclose(table.estimate.ravel(), share, atol=1e-10)
        np.testing.assert_allclose(table.total.ravel(), total, atol=1e-8)
        np.testing.assert_allclose(table.covariance, shares_covariance, atol=1e-12)
        np.testing.assert_allclose(table.standard_error.ravel() ** 2, np.diag(shares_covariance), rtol=1e-8)
        np.testing.assert_allclose(table.total_standard_error.ravel() ** 2, np.diag(totals_covariance), rtol=1e-8)
        assert table.n == inside.sum()
        assert np.all((table.lower >= 0) & (table.lower <= np.clip(table.estimate, 0, 1)))
        assert np.all((np.clip(table.estimate, 0, 1) <= table.upper) & (table.upper <= 1))


@pytest.mark.parametrize("kind", ["polars", "arrow", "categorical", "views"])
def test_columns_of_every_kind_are_read_alike(kind):
    data, mechanism = people(np.random.default_rng(14)), made().mechanism
    options = {"weights": "w", "strata": "region", "clusters": "school", "by": "sex"}
    expected = estimate_weighted(data, mechanism, "a", **options)
    pa = pytest.importorskip("pyarrow")
    if kind == "polars":
        given = pytest.importorskip("polars").from_pandas(data)
    elif kind == "categorical":
        given = data.astype({"region": "category", "school": "category", "sex": "category"})
    else:
        given = pa.Table.from_pandas(data.astype(str) if kind == "views" else data, preserve_index=False)
    if kind == "views":
        given = given.cast(pa.schema([(name, pa.string_view()) for name in given.schema.names]))
    assert estimate_weighted(given, mechanism, "a", **options).to_arrow().equals(expected.to_arrow())
    lists = pa.table({"a": ["x", "y"], "region": [[1], [2]]})
    with pytest.raises(InvalidInput, match=r"column 'region' has type list<.*give texts, numbers or dates"):
        estimate_weighted(lists, mechanism, "a", strata="region")


@pytest.mark.parametrize("clustered", [False, True])
def test_without_noise_they_are_the_weighted_means_and_robust_errors_of_statsmodels(clustered):
    statsmodels = pytest.importorskip("statsmodels.api")
    data = people(np.random.default_rng(3), 200)
    mechanism = made(40.0).mechanism
    table = estimate_weighted(data, mechanism, "a", weights="w", clusters="school" if clustered else None).table
    for k, value in enumerate(["x", "y", "z"]):
        model = statsmodels.WLS((data.a == value).astype(float), np.ones(len(data)), weights=data.w)
        fit = (
            model.fit(cov_type="cluster", cov_kwds={"groups": data.school}) if clustered else model.fit(cov_type="HC1")
        )
        np.testing.assert_allclose(table.estimate[k], fit.params.iloc[0], rtol=1e-9)
        np.testing.assert_allclose(table.standard_error[k], fit.bse.iloc[0], rtol=1e-9)


def test_without_columns_they_are_the_unweighted_estimates():
    data, mechanism = people(np.random.default_rng(4), 3000), made().mechanism
    plain = estimate(count(data, DOMAIN, ["a", "b"], allow_extra=True), mechanism)
    weighted = estimate_weighted(data, mechanism, ["a", "b"])
    table = weighted.table
    np.testing.assert_allclose(table.estimate, plain.estimate, atol=1e-12)
    np.testing.assert_allclose(table.standard_error, plain.standard_error, rtol=1e-9)
    # Student's quantile makes 3000 records 2997 or so
    np.testing.assert_allclose(table.lower, plain.lower, atol=2e-4)
    np.testing.assert_allclose(table.upper, plain.upper, atol=2e-4)
    np.testing.assert_allclose(table.design_effect, 1.0, rtol=1e-9)
    assert weighted.warnings == ()


def test_weights_that_are_multiplied_change_totals_alone():
    data, mechanism = people(np.random.default_rng(5)), made().mechanism
    one = estimate_weighted(data, mechanism, "a", weights="w", strata="region").table
    other = estimate_weighted(data.assign(w=data.w * 1000), mechanism, "a", weights="w", strata="region").table
    for name in ("estimate", "standard_error", "lower", "upper", "effective_n"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9)
    np.testing.assert_allclose(1000 * one.total, other.total, rtol=1e-9)
    np.testing.assert_allclose(1000 * one.total_standard_error, other.total_standard_error, rtol=1e-9)


def test_a_stratum_with_one_cluster_is_refused_or_centred():
    rng = np.random.default_rng(7)
    data, mechanism = people(rng), made().mechanism
    data.loc[data.region == 2, "school"] = 0
    with pytest.raises(InvalidInput, match="1 of 3 strata have only one cluster"):
        estimate_weighted(data, mechanism, "a", weights="w", strata="region", clusters="school")
    centred = estimate_weighted(
        data, mechanism, "a", weights="w", strata="region", clusters="school", lonely_psu="centred"
    )
    expected = linearised(scores(data, mechanism, ["a"]), data.w, data.region, data.school, np.ones(len(data), bool))
    np.testing.assert_allclose(centred.table.covariance, expected[2], atol=1e-12)
    np.testing.assert_allclose(centred.table.total_standard_error**2, np.diag(expected[3]), rtol=1e-8)
    assert any("only one cluster" in line for line in centred.warnings)
    # nobody of the group is in the cluster that is alone
    data.loc[data.region == 2, "sex"] = "m"
    by = estimate_weighted(
        data, mechanism, "a", weights="w", strata="region", clusters="school", by="sex", lonely_psu="centred"
    )
    for table in by.tables:
        y, inside = scores(data, mechanism, ["a"]), data.sex == table.label[0]
        expected = linearised(y, data.w, data.region, data.school, inside)
        np.testing.assert_allclose(table.covariance, expected[2], atol=1e-12)
        np.testing.assert_allclose(table.total_standard_error**2, np.diag(expected[3]), rtol=1e-8)
    with pytest.raises(InvalidInput, match="one cluster, which shows no variance"):
        estimate_weighted(data.assign(school=1), mechanism, "a", clusters="school")


def test_simultaneous_intervals_are_wider_and_reports_alike_have_no_error():
    data, mechanism = people(np.random.default_rng(8)), made(40.0).mechanism
    data["b"] = 0
    one, all_together = (
        estimate_weighted(data, mechanism, "b", weights="w", simultaneous=together) for together in (False, True)
    )
    assert np.isnan(one.table.standard_error).all()
    assert "2 of 2 cells have no standard error" in one.warnings[0]
    np.testing.assert_allclose(one.table.effective_n, data.w.sum() ** 2 / (data.w**2).sum())
    assert 0 < one.table.upper[1] < all_together.table.upper[1] < 0.1


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("epsilon", [1.5, 30.0])
def test_a_group_of_one_record_shows_nothing(epsilon):
    mechanism = design({"a": 3}, epsilon).mechanism
    data = pd.DataFrame({"a": [0, 1, 0, 1, 0], "g": list("vvvvu")})
    alone, _ = estimate_weighted(data, mechanism, "a", by="g").tables
    assert (
        alone.n == 1 and np.isnan(alone.standard_error).all() and np.ptp([alone.lower, alone.upper], axis=0).min() == 1
    )
    # nobody reports category 2: its total shows as little of an error as its share
    whole = estimate_weighted(data, mechanism, "a").table
    assert (
        np.isnan(whole.standard_error).tolist() == np.isnan(whole.total_standard_error).tolist() == [False, False, True]
    )


@pytest.mark.slow
def test_intervals_of_rare_cells_hold_where_few_records_have_large_weights():
    # 2 % of the records weigh 30 times as much as the others, so that 3 % of the people are often in none of them. Covered in
    # some 98 of 100 samples; 49 or fewer of 60 come once in 10^8 at that rate, and nearly always at 65 %
    domain = Domain.of({"a": 3})
    mechanism = design(domain, {"a": 6.0}).mechanism
    rng, shares = np.random.default_rng(78), np.array([0.94, 0.03, 0.03])
    covered = np.zeros(3, dtype=int)
    for _ in range(60):
        weights = np.where(rng.random(1000) < 0.02, 30.0, 1.0)
        reports = mechanism.randomize_codes(rng.choice(3, (1000, 1), p=shares), rng)
        table = estimate_weighted(pd.DataFrame({"a": reports[:, 0], "w": weights}), mechanism, "a", weights="w").table
        covered += (table.lower <= shares) & (shares <= table.upper)
    assert np.all(covered >= 50)


WRONG = {
    "a negative weight": ({"w": -1.0}, {"weights": "w"}, "record 1: the weight is missing, or neither 0 nor"),
    "a missing weight": ({"w": None}, {"weights": "w"}, "record 1: the weight is missing, or neither 0 nor"),
    "weights whose squares are 0": (
        {"w": 1e-170},
        {"weights": "w"},
        "record 1: the weight is missing, or neither 0 nor",
    ),
    "a weight in words": ({"w": "much"}, {"weights": "w"}, "is not a number"),
    "no weight": ({"w": 0.0}, {"weights": "w"}, "every weight is 0"),
    "a missing stratum": ({"region": None}, {"strata": "region"}, "record 1: missing value"),
    "no such column": ({}, {"weights": "v"}, "column 'v' is missing"),
    "an attribute as weight": ({}, {"weights": "b"}, "'b' cannot be public"),
    "an attribute as group": ({}, {"by": "b"}, "'b' cannot be public"),
    "one column twice": ({}, {"strata": "region", "clusters": "region"}, "named twice"),
    "a confidence of 1": ({}, {"confidence": 1.0}, "confidence"),
    "another way": ({}, {"lonely_psu": "ignore"}, "lonely_psu"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_without_a_value(case):
    columns, options, said = WRONG[case]
    data = people(np.random.default_rng(9)).assign(**columns)
    with pytest.raises(InvalidInput, match=said) as refused:
        estimate_weighted(data, made().mechanism, "a", **options)
    assert "much" not in str(refused.value)


def test_groups_may_be_several_columns_with_missing_values():
    data = people(np.random.default_rng(10))
    data["sex"] = data.sex.where(data.sex == "f")
    by = estimate_weighted(data, made().mechanism, "a", by=["region", "sex"])
    assert [t.label for t in by.tables] == [(str(r), s) for r in range(3) for s in ("f", None)]
    rows = by.to_pandas()
    assert list(rows.columns[:4]) == ["region", "sex", "a", "estimate"]
    assert len(rows) == 18
    assert rows.n.tolist()[::3] == [
        int(((data.region == r) & (data.sex.isna() == m)).sum()) for r in range(3) for m in (0, 1)
    ]
    assert "by region × sex" in by.headline()


PUBLIC = PublicColumns("w", "region", "school", ("sex",))


@pytest.fixture
def declared(tmp_path):
    """A design that declares public columns, its file, and the true records as CSV."""
    spec = tmp_path / "spec.toml"
    spec.write_text(
        'epsilon = 1.5\n[public]\nweight = "w"\nstratum = "region"\ncluster = "school"\ngroup = ["sex"]\n'
        '[[attributes]]\nname = "a"\ncategories = ["x", "y", "z"]\n[[attributes]]\nname = "b"\ncategories = [0, 1]\n'
    )
    people(np.random.default_rng(11), 600).to_csv(tmp_path / "true.csv", index=False)
    assert run(["design", str(spec), "-o", str(tmp_path / "design.json")]) == 0
    return tmp_path


def told(capsys, *arguments) -> tuple[dict, str]:
    assert run([*map(str, arguments), "--json"]) == 0
    out = capsys.readouterr()
    return json.loads(out.out), out.err


def test_specifications_and_design_files_keep_public_columns(declared, capsys):
    read = optrr.read_specification(declared / "spec.toml")
    assert read.public == PUBLIC
    again = declared / "again.toml"
    again.write_text(read.to_toml())
    assert optrr.read_specification(again).public == PUBLIC
    kept = load_design(declared / "design.json")
    assert kept.public == PUBLIC
    assert "not protected" in kept.warnings[0]
    assert run(["verify", str(declared / "design.json")]) == 0
    assert (
        "public columns, not protected (weight 'w', stratum 'region', cluster 'school', group 'sex')"
        in capsys.readouterr().out
    )
    plain = made()
    optrr.save(plain, declared / "plain.json")
    assert "public" not in json.loads((declared / "plain.json").read_text())


def test_a_declaration_in_a_design_file_is_under_its_digest(declared):
    record = json.loads((declared / "design.json").read_text())
    record["public"]["weight"] = "income"
    (declared / "forged.json").write_text(json.dumps(record))
    with pytest.raises(InvalidInput, match="changed after it was written"):
        load_design(declared / "forged.json")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_carry_public_columns_unchanged_and_name_them(declared, capsys, kind):
    target = declared / f"randomized.{kind}"
    command = ("randomize", declared / "true.csv", "--design", declared / "design.json", "-o", target, "--keep-order")
    _, warned = told(capsys, *command)
    assert "public columns, not protected" in warned
    read = pd.read_csv if kind == "csv" else pd.read_parquet
    true, randomized = pd.read_csv(declared / "true.csv", dtype=str), read(target).astype(str)
    assert list(randomized.columns) == list(true.columns)
    for name in ("w", "region", "school", "sex"):
        assert (randomized[name] == true[name]).all()
    assert (randomized.a != true.a).any()
    (origin,) = optrr.core.records.reading.registry.origins_of(target)
    assert origin.provenance.public == PUBLIC


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_carry_public_columns_unchanged(declared, kind):
    made, data = load_design(declared / "design.json"), people(np.random.default_rng(12))
    data.index = data.index + 7
    if kind == "polars":
        given = pytest.importorskip("polars").from_pandas(data)
    elif kind == "arrow":
        given = pytest.importorskip("pyarrow").Table.from_pandas(data, preserve_index=False)
    else:
        given = data
    out = made.randomize(given, random_state=1)
    assert type(out) is type(given)
    back = out if kind == "pandas" else out.to_pandas()
    assert list(back.columns) == list(data.columns)
    assert list(back.index) == list(data.index if kind == "pandas" else range(len(data)))
    for name in PUBLIC.names:
        assert (back[name].to_numpy() == data[name].to_numpy()).all()
    assert (back.a.to_numpy() != data.a.to_numpy()).any()
    if kind != "polars":
        (origin,) = optrr.core.records.reading.registry.origins_of(out)
        assert origin.provenance.public == PUBLIC
    with pytest.raises(InvalidInput, match="the public column 'w' is missing"):
        made.randomize(
            given.drop("w", axis=1) if kind == "pandas" else given.drop(["w"]) if kind == "arrow" else given.drop("w")
        )


@pytest.mark.parametrize("case", ["a negative weight", "a missing weight", "a weight in words", "a missing stratum"])
def test_public_columns_that_no_estimate_could_read_are_not_released(declared, case):
    """What is mended after a release is bound to it no more, and a second release spends again."""
    columns, _, said = WRONG[case]
    data = people(np.random.default_rng(9)).assign(**columns)
    with pytest.raises(InvalidInput, match=said):
        load_design(declared / "design.json").randomize(data)
    data.to_csv(declared / "wrong.csv", index=False)
    design_file, target = declared / "design.json", declared / "released.csv"
    assert run(["randomize", str(declared / "wrong.csv"), "--design", str(design_file), "-o", str(target)]) == 2
    assert not target.exists()


def test_the_command_estimates_by_what_the_design_declares(declared, capsys):
    files = ("--design", declared / "design.json", "--attributes", "a")
    told(capsys, "randomize", declared / "true.csv", "--design", declared / "design.json", "-o", declared / "r.csv")
    weighted, warned = told(capsys, "estimate", declared / "r.csv", *files)
    assert weighted["public"] == {"weight": "w", "stratum": "region", "cluster": "school", "by": []}
    assert "not protected (weight 'w', stratum 'region', cluster 'school')" in warned
    mechanism = load_design(declared / "design.json").mechanism
    direct = estimate_weighted(declared / "r.csv", mechanism, "a", weights="w", strata="region", clusters="school")
    for name, values in direct.table.columns().items():
        np.testing.assert_allclose(weighted[name], values)
    assert weighted["clusters"] == 15
    groups, _ = told(capsys, "estimate", declared / "r.csv", *files, "--by", "sex", "-o", declared / "groups.csv")
    assert [g["group"] for g in groups["groups"]] == [{"sex": "f"}, {"sex": "m"}]
    assert sum(g["n"] for g in groups["groups"]) == groups["n"] == 600
    assert pd.read_csv(declared / "groups.csv").columns[0] == "sex"
    unweighted, warned = told(capsys, "estimate", declared / "r.csv", *files, "--unweighted")
    assert "public" not in unweighted and not warned
    assert run(["estimate", str(declared / "r.csv"), *map(str, files), "--by", "sex"]) == 0
    assert "a, sex = f" in capsys.readouterr().out
    report = declared / "page.html"
    told(capsys, "estimate", declared / "r.csv", *files, "--html", report)
    assert "public columns, not protected" in report.read_text()


@pytest.mark.parametrize(
    "command",
    [("test", "--attributes", "a,b", "--hypothesis", "trend"), ("model", "--attributes", "a,b", "--terms", "a+b")],
)
def test_commands_that_ignore_the_sample_say_so(declared, capsys, command):
    told(capsys, "randomize", declared / "true.csv", "--design", declared / "design.json", "-o", declared / "r.csv")
    said, warned = told(capsys, command[0], declared / "r.csv", "--design", declared / "design.json", *command[1:])
    line = "errors ignore that these records were sampled by weight 'w', stratum 'region', cluster 'school'"
    assert line in warned
    assert any(line in doubt for doubt in said["doubts"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('weight = ""', "has no name"),
        ('weigth = "w"', "no public role"),
        ("weight = 3", "no column's name"),
        ('weight = "a"', "'a' cannot be public"),
        ('group = ["s", "s"]', "named twice"),
    ],
)
def test_declarations_that_mean_nothing_are_refused(tmp_path, given, said):
    spec = tmp_path / "spec.toml"
    spec.write_text(f'epsilon = 1\n[public]\n{given}\n[[attributes]]\nname = "a"\nsize = 2\n')
    with pytest.raises(InvalidInput, match=said):
        optrr.read_specification(spec)


def test_proposals_keep_public_columns_apart(tmp_path, capsys):
    people(np.random.default_rng(13)).to_csv(tmp_path / "data.csv", index=False)
    roles = ("weight=w", "stratum=region", "cluster=school", "group=sex")
    told(capsys, "spec", tmp_path / "data.csv", "-o", tmp_path / "s.toml", *(f"--public={role}" for role in roles))
    read = optrr.read_specification(tmp_path / "s.toml")
    assert read.public == PUBLIC
    assert read.domain.names == ("a", "b")
    assert run(["spec", str(tmp_path / "data.csv"), "--public", "weight=v"]) == 2
    assert "column 'v' is missing" in capsys.readouterr().err


def test_every_command_that_reads_a_specification_carries_public_columns_or_says_that_it_does_not(declared, capsys):
    spec, out = declared / "spec.toml", declared / "out.json"
    _, warned = told(capsys, "allocate", spec, "--total-epsilon", 2, "-o", out)
    kept = optrr.load(out)
    assert getattr(kept, "public", None) == PUBLIC or "are left out" in warned
    _, warned = told(capsys, "waves", "design", spec, "--lifetime-epsilon", 4, "-o", out)
    assert "a longitudinal design carries the attributes alone" in warned


def test_options_declare_public_columns_too(tmp_path, capsys):
    out = tmp_path / "d.json"
    options = ["--attribute", "a=2:1", "--public", "weight=w", "--public", "group=x", "--public", "group=y"]
    told(capsys, "design", *options, "-o", out)
    assert load_design(out).public == PublicColumns("w", group=("x", "y"))
    assert run(["design", "--attribute", "a=2:1", "--public", "w"]) == 2
    assert "not of the form role=column" in capsys.readouterr().err


def test_designs_made_in_python_declare_public_columns(tmp_path):
    roles = {"weight": "w", "stratum": "region", "cluster": "school", "group": ["sex"]}
    for public in (PUBLIC, roles):
        of_ratios = design(DOMAIN, 1.0, total=2.0, public=public)
        for each in (design(DOMAIN, 1.5, public=public), of_ratios):
            assert each.public == PUBLIC
            optrr.save(each, tmp_path / "d.json")
            assert load_design(tmp_path / "d.json").public == PUBLIC
    assert not made().public
    with pytest.raises(InvalidInput, match="no public role 'weigth'"):
        design(DOMAIN, 1.5, public={"weigth": "w"})
    with pytest.raises(InvalidInput, match="'b' cannot be public"):
        design(DOMAIN, 1.5, public={"group": "b"})


def test_public_columns_are_named_when_records_are_randomized(declared, capsys):
    optrr.save(made(), declared / "plain.json")
    roles = ("--public=weight=w", "--public=stratum=region", "--public=cluster=school", "--public=group=sex")
    given, out = declared / "true.csv", declared / "out.csv"
    said, warned = told(
        capsys, "randomize", given, "--design", declared / "plain.json", "-o", out, *roles, "--keep-order"
    )
    assert "public columns, not protected" in warned and said["public"]["weight"] == "w"
    before, after = (pd.read_csv(place, keep_default_na=False) for place in (given, out))
    assert before[["w", "region", "school", "sex"]].equals(after[["w", "region", "school", "sex"]])
    # beside those that the design declares
    wide = before.assign(town=1)
    wide.to_csv(declared / "wide.csv", index=False)
    command = ("randomize", declared / "wide.csv", "--design", declared / "design.json", "-o", out)
    assert told(capsys, *command, "--public=group=town")[0]["public"]["group"] == ["sex", "town"]
    assert run(list(map(str, command))) == 2
    optrr.save(optrr.SampledTables(DOMAIN, (("a",), ("b",)), np.full(2, 0.5), 1.0), declared / "tables.json")
    capsys.readouterr()
    assert run(["randomize", str(given), "--design", str(declared / "tables.json"), "-o", str(out), roles[0]]) == 2
    assert "--public: answers have no other columns" in capsys.readouterr().err


def test_what_carries_the_attributes_alone_says_so(declared, capsys):
    alone = "carries the attributes alone: estimates cannot use the public columns (weight 'w', stratum 'region'"
    said, warned = told(capsys, "export", declared / "design.json", "-o", declared / "sampler.json")
    assert alone in warned and alone in said["warnings"][0]
    optrr.save(made(), declared / "plain.json")
    said, warned = told(capsys, "export", declared / "plain.json", "-o", declared / "sampler.json")
    assert not warned and "warnings" not in said


@pytest.mark.parametrize("source", ["design.json", "spec.toml"])
def test_a_survey_says_that_its_page_carries_the_attributes_alone(declared, source):
    pytest.importorskip("starlette", reason="the survey's server is not installed")
    preparing = pytest.importorskip("optrr.survey.preparing")
    told_of = preparing.prepared(declared / source).warnings
    assert len(told_of) == 1 and "weight 'w', stratum 'region'" in told_of[0]
    optrr.save(made(), declared / "plain.json")
    assert not preparing.prepared(declared / "plain.json").warnings


def randomized(mechanism, data: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The records with a and b randomized."""
    return data.assign(**mechanism.randomize(data[["a", "b"]], random_state=seed))


def slow_independence(data, mechanism, shape):
    """Rao and Scott's F with numerical derivatives and the eigenvalues of D⁻¹S, S of the hypothesis: statistic and p-value."""
    y, w = scores(data, mechanism, ["a", "b"]), data.w.to_numpy()
    share, _, covariance, _ = linearised(y, w, data.region, data.school, np.ones(len(w), dtype=bool))

    def apart(flat):
        table = flat.reshape(shape)
        return (table - np.outer(table.sum(axis=1), table.sum(axis=0)))[:-1, :-1].ravel()

    step = 1e-6
    slopes = np.array([(apart(share + step * e) - apart(share - step * e)) / (2 * step) for e in np.eye(share.size)]).T
    table, matrix = share.reshape(shape), mechanism.matrix(["a", "b"])
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)).ravel() @ matrix
    counts = slopes @ np.linalg.inv(matrix).T
    plain = counts @ (np.diag(expected) - np.outer(expected, expected)) @ counts.T
    cells = np.array(
        [np.ravel_multi_index((DOMAIN["a"].codes[a], b), shape) for a, b in zip(data.a, data.b, strict=True)]
    )
    observed, hypothesis = 0.0, 0.0
    mean, whole = np.array([w[cells == v].sum() for v in range(share.size)]) / w.sum(), np.sum(w**2) / w.sum() ** 2
    for v in range(share.size):
        own = w[cells == v]
        both = [np.outer(each, each) for each in (counts[:, v] - counts @ mean, counts[:, v] - counts @ expected)]
        observed = observed + np.sum(own**2) / w.sum() ** 2 * both[0]
        # records of the report and one more, whose weight is that of all records, by squares
        mean_weight = (np.sum(own**2) / w.sum() ** 2 + whole**2) / (own.sum() / w.sum() + whole)
        hypothesis = hypothesis + expected[v] * mean_weight * both[1]
    white = np.linalg.inv(sqrtm(plain))
    moved = sqrtm(white @ hypothesis @ white) @ np.linalg.inv(sqrtm(white @ observed @ white)) @ white
    effects = np.linalg.eigvals(moved @ slopes @ covariance @ slopes.T @ moved.T).real
    squares = pd.Series(w**2).groupby([data.region, data.school]).sum()
    sizes = squares.groupby(level=0).transform("size")
    degrees = squares.sum() ** 2 / np.sum(squares**2 * sizes / (sizes - 1))
    d = effects.sum() ** 2 / np.sum(effects**2)
    f = apart(share) @ np.linalg.inv(plain) @ apart(share) / effects.sum()
    return f * slopes.shape[0], f_distribution.sf(f, d, degrees * d)


@pytest.mark.parametrize("seed", range(3))
def test_independence_of_a_sample_is_that_of_its_formula_record_by_record(seed):
    mechanism = made(4.0).mechanism
    data = randomized(mechanism, people(np.random.default_rng(seed), 600), seed)
    result = optrr.analysis.weighted.test_weighted(
        data, mechanism, ["a", "b"], weights="w", strata="region", clusters="school"
    )
    slow = slow_independence(data, mechanism, (3, 2))
    # derivatives are differences
    np.testing.assert_allclose((result.statistic, result.p_value), slow, rtol=1e-6)
    assert (result.df, result.n, result.calibration) == (2, 600, "rao-scott")
    assert any("were measured to reject" in line for line in result.warnings)


@pytest.mark.parametrize("turned", [False, True])
def test_the_effect_of_two_by_two_cells_has_the_sign_of_the_weighted_risk_difference(turned):
    rng = np.random.default_rng(2)
    made = design(Domain.of({"a": 2, "b": 2}), 30.0, method="kronecker")
    a, u, w = rng.integers(0, 2, 900), rng.uniform(size=900), rng.uniform(1, 5, 900)
    data = pd.DataFrame({"a": a, "b": (u < 0.35 + 0.3 * (a != turned)).astype(int), "w": w})
    result = optrr.analysis.weighted.test_weighted(data, made.mechanism, ["a", "b"], weights="w")
    shares = [np.average(part.b, weights=part.w) for _, part in data.groupby("a")]
    assert np.sign(result.effect) == np.sign(shares[1] - shares[0]) == (-1 if turned else 1)
    (row,) = made.reports(data).measure("risk-difference", "a", "b", sample=optrr.Sample(weights="w")).rows
    assert row.estimate == pytest.approx(shares[1] - shares[0])
    assert result.effect**2 == pytest.approx(result.statistic)


def test_independence_holds_its_level_where_a_cell_expects_five_records():
    """4000 samples of 400 people one by one, two weights: at 5 % not 144 to 256 are rejected once in 10,000 times.

    The sample's own variance, too small where the rare cell happens to be empty, rejects 8 %.
    """
    rng, kernel = (
        np.random.default_rng(6),
        design(Domain.of({"a": 2, "b": 2}), 6.0, method="kronecker").mechanism.kernel(["a", "b"]),
    )
    law, weights = kernel.expected(np.outer([0.9, 0.1], [0.87, 0.13])).ravel(), np.array([1.0, 2.5])
    reports = rng.multinomial(200, law / law.sum(), size=(4000, 2)).astype(float)
    share = np.einsum("k,bkv->bv", weights, reports) / (200 * weights.sum())
    squares = np.einsum("k,bkv->bv", weights**2, reports) / (200 * weights.sum()) ** 2
    apart = np.eye(4) - share[:, None, :]
    covariance = np.einsum("bv,bvx,bvy->bxy", squares, apart, apart)
    tested = rao_scott(kernel, share, covariance, squares, np.full(4000, 300.0))
    p = f_distribution.sf(tested.statistic, tested.upper, tested.lower)
    assert tested.clear.all()
    assert 144 <= np.sum(p <= 0.05) <= 256


def test_independence_of_equal_weights_is_nearly_that_of_the_plain_test():
    mechanism = made(4.0).mechanism
    data = randomized(mechanism, people(np.random.default_rng(5), 5000), 5)
    weighted = optrr.analysis.weighted.test_weighted(data, mechanism, ["a", "b"])
    plain = optrr.test(count(data, DOMAIN, ["a", "b"], allow_extra=True), mechanism)
    assert weighted.p_value == pytest.approx(plain.p_value, abs=0.02)
    assert not weighted.warnings


def test_what_a_test_of_a_sample_cannot_use_is_refused(declared, capsys):
    mechanism = made(4.0).mechanism
    data = people(np.random.default_rng(0), 300)
    with pytest.raises(InvalidInput, match="two attributes"):
        optrr.analysis.weighted.test_weighted(data, mechanism, ["a"], weights="w")
    with pytest.raises(InvalidInput, match="the test of a weighted sample needs 3; collapse categories, as in"):
        optrr.analysis.weighted.test_weighted(data[data.a != "z"], mechanism, ["a", "b"], weights="w")
    place = [str(declared / "true.csv"), "--design", str(declared / "design.json"), "--attributes", "a,b"]
    assert run(["test", *place, "--hypothesis", "trend", "--weights", "w"]) == 2
    assert "--weights: weights, strata and PSUs are for the test of independence" in capsys.readouterr().err
    assert run(["test", *place, "--unweighted", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "errors ignore that these records were sampled" not in err and json.loads(out)["calibration"] != "rao-scott"
    assert run(["test", *place, "--hypothesis", "trend"]) == 0
    assert "errors ignore that these records were sampled" in capsys.readouterr().err
