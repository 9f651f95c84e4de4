"""Public covariates of a scan: how they are read and matched, what is refused, and the command."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from genotypes import cohort_of

import optrr
from optrr import genomics
from optrr.cli.main import run
from optrr.core.errors import InvalidInput
from optrr.genomics.covariates import CovariateColumns, read_covariates

PEOPLE = np.array([f"p{k}" for k in range(8)], dtype=object)
NUMBERS = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])


def standardized(column: np.ndarray) -> np.ndarray:
    return (column - column.mean()) / column.std()


def test_people_are_matched_by_name_and_left_out_where_a_value_is_missing(tmp_path):
    file = tmp_path / "c.csv"
    rows = [("p9", 1.0, "a"), *((f"p{k}", NUMBERS[k], "ab"[k % 2]) for k in (7, 6, 5, 4, 3, 2, 1))]
    file.write_text("sample,age,group\n" + "\n".join(f"{a},{b if a != 'p3' else 'NA'},{c}" for a, b, c in rows))
    values = read_covariates(CovariateColumns(file), PEOPLE)
    rows_kept = [1, 2, 4, 5, 6, 7]
    assert values.rows.tolist() == rows_kept
    assert values.labels == ("age", "group")
    assert dict(values.left_out) == {"not in the table of covariates": 1, "without a value of some covariate": 1}
    np.testing.assert_allclose(values.columns[:, 0], standardized(NUMBERS[rows_kept]))
    np.testing.assert_allclose(values.columns[:, 1], standardized(np.array(rows_kept) % 2.0))
    assert str(values) == "age, group"


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame, lambda x: pl.DataFrame(x).to_arrow()])
def test_frames_are_matched_by_name_or_place(made):
    table = {"age": NUMBERS, "batch": np.arange(8) // 4, "trait": NUMBERS**2}
    asked = {"covariates": ("age",), "strata": "batch", "trait": "trait"}
    by_place = read_covariates(CovariateColumns(made(table), None, **asked), PEOPLE)
    back = {"IID": PEOPLE[::-1].tolist(), "FID": ["0"] * 8, **{name: column[::-1] for name, column in table.items()}}
    by_name = read_covariates(CovariateColumns(made(back), None, **asked), PEOPLE)
    for values in (by_place, by_name):
        assert values.columns.shape == (8, 2)
        np.testing.assert_array_equal(values.trait, NUMBERS**2)
        np.testing.assert_allclose(values.columns[:, 0], standardized(NUMBERS))
        assert str(values) == "age and strata by batch"
        assert values.names == ["age", "batch", "trait"]
        assert not values.is_binary
        assert not values.only_strata


def test_arrays_are_in_the_people_s_order():
    values = read_covariates(CovariateColumns(np.column_stack([NUMBERS, NUMBERS**2])), PEOPLE)
    assert values.labels == ("column 1", "column 2")
    gone = np.where(np.arange(8) == 2, np.nan, NUMBERS)
    assert read_covariates(CovariateColumns(gone), PEOPLE).rows.tolist() == [0, 1, 3, 4, 5, 6, 7]


def test_numbers_as_strata_are_categories_and_minus_nine_is_missing():
    table = {"sample": PEOPLE.tolist(), "site": [1, 2, 3, 1, 2, 3, 1, -9]}
    values = read_covariates(CovariateColumns(pd.DataFrame(table), strata="site"), PEOPLE)
    assert values.columns.shape == (7, 2)
    assert values.only_strata


REFUSED = {
    "no such column": (
        {"age": NUMBERS},
        {"covariates": ("agee",)},
        "no column 'agee'; it has 'sample', 'age'; did you mean 'age'",
    ),
    "constant": ({"age": np.ones(8)}, {}, "column 'age' is constant; leave the column out"),
    "one category": ({"age": ["x"] * 8}, {}, "column 'age' is constant; leave the column out"),
    "collinear": (
        {"age": NUMBERS, "twice": 3 - 2 * NUMBERS},
        {},
        "column 'twice' is a linear combination of the columns before it",
    ),
    "too many": ({f"c{k}": np.eye(8)[k] for k in range(7)}, {}, "6 columns for 8 people; give fewer covariates"),
    "a text as a trait": ({"t": [*"abcdefgh"]}, {"trait": "t"}, "a value of the trait is not a number"),
    "a constant trait": ({"t": np.ones(8)}, {"trait": "t"}, "all values are equal"),
    "twice": ({"age": NUMBERS}, {"covariates": ("age",), "trait": "age"}, "'age' is named twice"),
    **{
        f"people's names as {k}": (
            {"age": NUMBERS},
            {k: v},
            "column 'sample' of the table of covariates holds people's names",
        )
        for k, v in {"covariates": ("sample",), "strata": "sample", "trait": "sample"}.items()
    },
    "all missing": ({"age": ["NA"] * 8}, {}, "none of the 8 people has all of 'age'"),
}


@pytest.mark.parametrize("table, asked, said", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_adjusted_for_is_told_in_one_line(table, asked, said):
    frame = pd.DataFrame({"sample": PEOPLE.tolist(), **table})
    with pytest.raises(InvalidInput) as raised:
        read_covariates(CovariateColumns(frame, None, **asked), PEOPLE)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_tables_of_other_people_are_refused(tmp_path):
    frame = pd.DataFrame({"sample": [f"q{k}" for k in range(8)], "age": NUMBERS})
    with pytest.raises(InvalidInput, match="must keep their names when they are randomized"):
        read_covariates(CovariateColumns(frame), PEOPLE)
    with pytest.raises(InvalidInput, match="names a person twice"):
        read_covariates(CovariateColumns(pd.DataFrame({"sample": ["p1"] * 8, "age": NUMBERS})), PEOPLE)
    with pytest.raises(InvalidInput, match="5 rows for 8 people"):
        read_covariates(CovariateColumns(NUMBERS[:5]), PEOPLE)
    file = tmp_path / "c.csv"
    file.write_text("name,age\np1,3\n")
    with pytest.raises(InvalidInput, match="no column of people's names"):
        read_covariates(CovariateColumns(file), PEOPLE)
    assert read_covariates(CovariateColumns(frame.assign(name=PEOPLE), "name", ("age",)), PEOPLE).rows.size == 8


def cohort(n: int = 200, v: int = 4) -> genomics.Cohort:
    rng = np.random.default_rng(3)
    return cohort_of(rng.binomial(2, 0.3, (n, v)), rng.integers(0, 2, n))


def test_other_tests_and_answers_take_no_covariates():
    true, ages = cohort(), np.arange(200.0)
    reports = genomics.design(true, total=8.0).randomize(true, random_state=1)
    with pytest.raises(InvalidInput, match="genotypic cannot be adjusted for covariates"):
        reports.scan("genotypic", covariates=ages)
    answers = genomics.association_design(true, 4.0).randomize(true, random_state=1)
    for asked in ({"covariates": ages}, {"test": "genotypic"}, {"maf": 0.1}):
        with pytest.raises(InvalidInput, match="supports only the trend test"):
            answers.scan(**asked)
    with pytest.raises(InvalidInput, match="not frequencies"):
        answers.variants()


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """True genotypes, a design, randomized genotypes with names and without, and covariates."""
    pytest.importorskip("bed_reader")
    folder = tmp_path_factory.mktemp("covariates")
    true = cohort()
    genomics.write_plink(true, folder / "true.bed")
    rng = np.random.default_rng(4)
    table = {"IID": true.people, "age": rng.normal(size=200), "site": rng.choice(["a", "b", "c"], 200)}
    pd.DataFrame(table | {"height": rng.normal(size=200)}).sample(frac=1, random_state=1).to_csv(
        folder / "c.csv", index=False
    )
    lines = (
        "gwas design true.bed --total-epsilon 12 -o d.json",
        "gwas design true.bed --total-epsilon 4 --for association -o q.json",
        "gwas randomize true.bed --design d.json -o named.bed --keep-names",
        "gwas randomize true.bed --design d.json -o numbered.bed",
        "gwas randomize true.bed --design d.json -o t.csv --keep-names",
        "gwas randomize true.bed --design q.json -o answers.csv",
    )
    for line in lines:
        words = [str(folder / word) if "." in word else word for word in line.split()]
        assert run(words) == 0, line
    return folder


def gwas(folder: Path, name: str, *more: object, design: str = "d.json") -> int:
    asked = ["gwas", "scan", folder / name, "--design", folder / design, "--covariates", folder / "c.csv", *more]
    return run([str(word) for word in asked])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["named.bed", "t.csv"])
def test_the_command_s_table_is_python_s(files, tmp_path, capsys, name):
    asked = ["--covariate", "age", "--covariate", "site", "--json"]
    asked += ["-o", tmp_path / "out.tsv", "--html", tmp_path / "r.html"]
    assert gwas(files, name, *asked) == 0
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary["adjusted_for"] == "age, site"
    assert "columns 'age', 'site' are not covered by epsilon: they are used without randomization" in err
    assert "adjusted for age, site" in (tmp_path / "r.html").read_text()
    table = pd.read_csv(tmp_path / "out.tsv", sep="\t")
    assert set(table["TEST"]) == {"ADD-COV"}
    if name == "named.bed":
        design = genomics.GenomicDesign(optrr.load(files / "d.json"))
        randomized = genomics.read_cohort(files / "named.bed")
        ours = genomics.GenomicReports(design, randomized).scan(
            covariates=CovariateColumns(files / "c.csv", covariates=("age", "site"))
        )
        for column in ("STAT", "P", "OR", "SE", "L95", "U95", "Z_STAT"):
            np.testing.assert_allclose(table[column], ours.columns[column], rtol=1e-5)


@pytest.mark.slow
def test_the_command_takes_strata_and_a_trait(files, capsys):
    assert gwas(files, "named.bed", "--strata", "site", "--json") == 0
    assert json.loads(capsys.readouterr().out)["test"] == "cmh"
    assert gwas(files, "named.bed", "--covariate", "age", "--trait", "height") == 0
    out = capsys.readouterr().out
    assert "linear test of 4 variants adjusted for age" in out
    assert "BETA" in out


@pytest.mark.slow
def test_the_command_refuses_in_one_line(files, capsys):
    for (name, design, *more), said in (
        (("numbered.bed", "d.json"), "no names to match"),
        (("answers.csv", "q.json"), "supports only the trend test"),
        (("named.bed", "d.json", "--covariate", "weight"), "has no column 'weight'"),
    ):
        assert gwas(files, name, *more, design=design) != 0
        err = capsys.readouterr().err
        assert said in err.splitlines()[-1], err
    assert run(["gwas", "scan", str(files / "named.bed"), "--design", str(files / "d.json"), "--trait", "height"]) != 0
    assert "--trait requires --covariates" in capsys.readouterr().err


def test_plink_s_tables_are_read_and_repeated_names_are_told_apart_by_families(tmp_path):
    file = tmp_path / "c.cov"
    lines = [f"f{k} {name} {NUMBERS[k]:g}" for k, name in enumerate(PEOPLE)]
    file.write_text("\n".join(["#FID IID age", *lines]) + "\n")
    values = read_covariates(CovariateColumns(file), PEOPLE)
    assert values.labels == ("age",)
    np.testing.assert_allclose(values.columns[:, 0], standardized(NUMBERS))
    file.write_text("\n".join(["#FID IID age", *(f"f{k} same {NUMBERS[k]:g}" for k in range(8))]) + "\n")
    both = np.array([f"f{k}_same" for k in range(8)], dtype=object)
    np.testing.assert_allclose(read_covariates(CovariateColumns(file), both).columns[:, 0], standardized(NUMBERS))


def test_thresholds_leave_out_what_they_leave_out_without_covariates():
    true = cohort(400, 6)
    reports = genomics.design(true, total=20.0).randomize(true, random_state=1)
    frequency = reports.scan().columns["F_U"] / 2 + reports.scan().columns["F_A"] / 2
    limit = float(np.median(np.minimum(frequency, 1 - frequency)))
    plain = reports.scan(maf=limit)
    adjusted = reports.scan(covariates=np.arange(400.0), maf=limit)
    assert adjusted.columns["SNP"].tolist() == plain.columns["SNP"].tolist()
    assert 0 < len(adjusted.variants) < 6
    everything = reports.scan(covariates=np.arange(400.0)).columns
    kept = np.isin(everything["SNP"], adjusted.columns["SNP"])
    for column in ("STAT", "OR", "SE"):
        np.testing.assert_allclose(adjusted.columns[column], everything[column][kept])
    assert adjusted.skipped == plain.skipped
