"""Variants of which some people have one copy: chromosomes X, Y and MT, as PLINK treats them."""

import json
from pathlib import Path

import numpy as np
import pytest
from genotypes import cohort_of, command

from optrr.errors import InvalidInput
from optrr.genomics.cohort import Cohort, read_cohort
from optrr.genomics.genotypes import MISSING, MatrixGenotypes, Variants, with_single_copies
from optrr.genomics.phenotypes import PhenotypeColumns, sexes
from optrr.genomics.scan import ScanOptions, associations
from optrr.genomics.study import StudyOptions, run_study
from optrr.genomics.tests import CopyTables, copy_tables, score_test
from optrr.genomics.writing import write_plink
from optrr.mechanisms.kernel import EffectKernel, unrandomized

PLAIN = unrandomized((3, 2))
RANDOMIZED = EffectKernel((3, 2), [[1.0, 0.5], [0.45, 0.3]])


def drawn(n: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes (n, count) of a variant of frequency 0.3 on X, who is a man, and status; more men are cases."""
    rng = np.random.default_rng(seed)
    male = rng.random(n) < 0.5
    status = (rng.random(n) < np.where(male, 0.6, 0.3)).astype(np.int8)
    codes = np.where(male[:, None], 2 * rng.binomial(1, 0.3, (n, count)), rng.binomial(2, 0.3, (n, count)))
    return codes.astype(np.int8), male, status


def test_genotypes_are_compared_among_people_who_have_two_copies():
    codes, male, status = drawn(600, 3, 2)
    cohort = cohort_of(codes, status, "23", male)
    women = np.array(
        [[[np.sum((codes[~male, k] == g) & (status[~male] == s)) for s in (0, 1)] for g in range(3)] for k in range(3)]
    )
    for test in ("trend", "genotypic"):
        scanned = associations(cohort, copy_tables(cohort, False), PLAIN, ScanOptions(test))
        np.testing.assert_allclose(scanned.scores.statistic, score_test(women, PLAIN, test).statistic, rtol=1e-9)
        assert scanned.n.tolist() == [int((~male).sum())] * 3
        assert any("people with one copy" in w and "3 variants" in w for w in scanned.warnings)
    mixed = Variants.of([("1", 5, "auto", "A", "G"), ("Y", 6, "y", "A", "G"), ("X", 7, "x", "A", "G")])
    cohort = Cohort(MatrixGenotypes(mixed, cohort.people, codes), np.arange(600), status, {}, male)
    scanned = associations(cohort, copy_tables(cohort, False), PLAIN, ScanOptions("trend"))
    assert scanned.variants.name.tolist() == ["auto", "x"] and list(scanned.skipped.values()) == [1]


def randomized_tables(codes: np.ndarray, male: np.ndarray, status: np.ndarray, rng: np.random.Generator) -> CopyTables:
    """Tables of reports that this mechanism makes of each person, drawn person by person."""
    matrix = np.array([RANDOMIZED.forward(cell.reshape(1, 3, 2)).ravel() for cell in np.eye(6)])
    tables = []
    for who in (~male, male):
        cells = 2 * codes[who] + status[who][:, None]
        counts = np.stack([np.bincount(column, minlength=6) for column in cells.T])
        tables.append(
            np.array([sum(rng.multinomial(c, p) for c, p in zip(row, matrix, strict=True)) for row in counts])
        )
    return CopyTables(*(t.reshape(-1, 3, 2) for t in tables))


@pytest.mark.slow
def test_the_level_where_more_men_than_women_are_cases():
    """The same records without sexes: hemizygous men make genotypes depend on the status, and null variants are found."""
    rng = np.random.default_rng(4)
    rates: dict[str, list[np.ndarray]] = {"trend": [], "genotypic": [], "sexes ignored": []}
    for seed in range(40):
        codes, male, status = drawn(2000, 50, seed)
        tables = randomized_tables(codes, male, status, rng)
        for test in ("trend", "genotypic"):
            rates[test].append(score_test(tables.two, RANDOMIZED, test).p_value)
        rates["sexes ignored"].append(score_test(tables.two + tables.one, RANDOMIZED, "genotypic").p_value)
    shares = {name: np.mean(np.array(p) <= 0.05, axis=1) for name, p in rates.items()}
    for name in ("trend", "genotypic"):
        # 5 standard errors between 40 cohorts: false alarm 1e-5
        assert abs(shares[name].mean() - 0.05) < 5 * shares[name].std() / np.sqrt(40) + 0.003, name
    assert shares["sexes ignored"].mean() > 0.3


def test_calls_that_cannot_be_are_missing_and_no_copy_says_nothing():
    codes = np.array([[0, 1, 2], [1, 1, 1], [2, MISSING, 1]], dtype=np.int8)
    male = np.array([True, False, True])
    kinds = {
        "X": [[0, MISSING, 2], [1, 1, 1], [2, MISSING, MISSING]],
        "Y": [[0, MISSING, 2], [0, 0, 0], [2, MISSING, MISSING]],
    }
    kinds["MT"] = [[0, MISSING, 2], [MISSING] * 3, [2, MISSING, MISSING]]
    for kind, expected in kinds.items():
        chromosome = np.array([kind] * 3, dtype=object)
        np.testing.assert_array_equal(with_single_copies(codes, chromosome, male), expected)
    for name in ("1", "22", "XY", "25", "chr7", "PAR1"):
        assert with_single_copies(codes, np.array([name] * 3, dtype=object), None) is codes
    with pytest.raises(InvalidInput, match="nothing says who is a man"):
        with_single_copies(codes, np.array(["chrX"] * 3, dtype=object), None)
    assert sexes(["M", "female", "2", "1", "", "NA"], "t").tolist() == [1, 0, 0, 1, -1, -1]
    with pytest.raises(InvalidInput, match="t: record 2 is no sex"):
        sexes(["M", "secret"], "t")


def test_sexes_from_file_to_file(tmp_path, capsys, monkeypatch):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    codes, male, status = drawn(400, 3, 7)
    write_plink(cohort_of(codes, status, "23", male), Path("true.bed"))
    write_plink(cohort_of(codes, status, "23"), Path("nobody.bed"))
    assert command(capsys, "gwas-design true.bed --variant-epsilon 6 --status-epsilon 6 -o d.json")[0] == 0
    code, out, err = command(capsys, "gwas-perturb nobody.bed --design d.json -o r.bed")
    assert (code, out) == (2, "") and "3 variants of chromosome X or Y" in err and "--sex-column" in err
    code, _, err = command(capsys, "gwas-perturb true.bed --design d.json -o r.csv")
    assert code == 2 and "write .bed" in err and not Path("r.csv").exists()
    code, _, err = command(capsys, "gwas-perturb true.bed --design d.json -o r.bed --random-state 1 --keep-names")
    assert code == 0 and "everybody's sex is written as it is" in err
    kept = {line.split()[1]: line.split()[4] for line in Path("r.fam").read_text().splitlines()}
    assert kept == {f"p{k}": "1" if m else "2" for k, m in enumerate(male)}
    code, out, err = command(capsys, "gwas r.bed --design d.json --json")
    assert (code, json.loads(out)["n"]) == (0, int((~male).sum())) and "people with one copy" in err
    # sexes of a table, and people of whom it does not say
    lines = [
        f"p{k},{'ill' if s else 'well'},{'M' if m else 'F'}" for k, (s, m) in enumerate(zip(status, male, strict=True))
    ]
    lines[5] = "p5,ill,"
    Path("people.csv").write_text("sample,status,sex\n" + "\n".join(lines) + "\n")
    who = PhenotypeColumns(Path("people.csv"), None, "status", ("ill",), sex="sex")
    cohort = read_cohort(Path("nobody.bed"), who)
    assert cohort.left_out == {"of unknown sex": 1}
    np.testing.assert_array_equal(cohort.male, np.delete(male, 5))
    with pytest.raises(InvalidInput, match="a study is of two copies"):
        run_study(cohort, StudyOptions((4.0,), 2))


def test_haploid_records_of_a_vcf(tmp_path):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    text = "##fileformat=VCFv4.2\n##contig=<ID=chrY>\n##contig=<ID=M>\n##contig=<ID=1>\n"
    text += '##FORMAT=<ID=GT,Number=1,Type=String,Description="g">\n'
    text += "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ta\tb\tc\n"
    for chromosome in ("chrY", "M", "1"):
        text += f"{chromosome}\t10\trs{chromosome}\tA\tG\t.\t.\t.\tGT\t0\t1\t.\n"
    (tmp_path / "x.vcf").write_text(text)
    (tmp_path / "p.csv").write_text("sample,status,sex\na,ill,1\nb,well,1\nc,well,2\n")
    cohort = read_cohort(tmp_path / "x.vcf", PhenotypeColumns(tmp_path / "p.csv", None, "status", ("ill",), sex="sex"))
    assert cohort.variants.name.tolist() == ["rschrY", "rsM"] and cohort.genotypes.skipped == {"not diploid": 1}
    codes = np.concatenate([c for _, c in cohort.blocks()], axis=1)
    assert codes.tolist() == [[0, 0], [2, 2], [MISSING, MISSING]] and cohort.male.tolist() == [True, True, False]
