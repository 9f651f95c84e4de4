"""Readers against files written by hand, matching of phenotypes, and every kind of bad input."""

from pathlib import Path

import numpy as np
import pytest
from genotypes import cohort_of

from optrr.core.errors import InvalidInput, OptrrWarning
from optrr.core.mechanisms.kernel import unrandomized
from optrr.genomics.cohort import Cohort, read_cohort, read_genotypes
from optrr.genomics.covariates import CovariateColumns, read_covariates
from optrr.genomics.genotypes import MISSING, MatrixGenotypes, Variants
from optrr.genomics.phenotypes import PhenotypeColumns
from optrr.genomics.plink import _variants as pvar_rows
from optrr.genomics.scan import associations
from optrr.genomics.score_tests import copy_tables, genotype_tables
from optrr.genomics.writing import write_plink

HEADER = '##fileformat=VCFv4.2\n##contig=<ID=1,length=1000>\n##FORMAT=<ID=GT,Number=1,Type=String,Description="g">\n'
COLUMNS = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t"

# PLINK's two bits per genotype: hom. A1, missing, het., hom. A2
BITS = {2: 0b00, MISSING: 0b01, 1: 0b10, 0: 0b11}


def vcf(path: Path, people: list[str], rows: list[str]) -> Path:
    lines = [f"1\t{10 * k + 10}\t{row}" for k, row in enumerate(rows)]
    text = HEADER + COLUMNS + "\t".join(people) + "\n" + "".join(line.replace(" ", "\t") + "\n" for line in lines)
    path.write_text(text)
    return path


def plink(path: Path, codes: np.ndarray, status: list[str]) -> Path:
    """A bed file written byte by byte."""
    n, v = codes.shape
    body = bytearray(b"\x6c\x1b\x01")
    for column in codes.T:
        bits = [BITS[int(g)] for g in column] + [0] * (-n % 4)
        body += bytes(sum(b << 2 * k for k, b in enumerate(bits[i : i + 4])) for i in range(0, len(bits), 4))
    path.write_bytes(bytes(body))
    path.with_suffix(".bim").write_text("".join(f"1\trs{k}\t0\t{100 + k}\tA\tG\n" for k in range(v)))
    path.with_suffix(".fam").write_text("".join(f"f p{i} 0 0 1 {s}\n" for i, s in enumerate(status)))
    return path


def whole(source) -> np.ndarray:
    return np.concatenate([codes for _, codes in source.blocks(2)], axis=1)


def test_plink_bytes(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    codes = np.random.default_rng(1).choice([0, 1, 2, MISSING], size=(7, 5)).astype(np.int8)
    path = plink(tmp_path / "x.bed", codes, ["1", "2", "2", "-9", "1", "0", "2"])
    cohort = read_cohort(path)
    np.testing.assert_array_equal(whole(cohort.genotypes), codes)
    np.testing.assert_array_equal(cohort.rows, [0, 1, 2, 4, 6])
    np.testing.assert_array_equal(cohort.status, [0, 1, 1, 0, 1])
    np.testing.assert_array_equal(whole(cohort), codes[[0, 1, 2, 4, 6]])
    assert cohort.left_out == {"without a phenotype": 2}
    assert cohort.variants.a1[0] == "A"
    assert cohort.variants.position.tolist() == [100, 101, 102, 103, 104]
    # other programs write blanks for tabs, and PLINK −9 for a position that is not known
    for ending in (".bim", ".fam"):
        text = path.with_suffix(ending).read_text().replace("\t", " ").replace(" ", "  ").replace("104", "-9")
        path.with_suffix(ending).write_text(f"{text}\n")
    again = read_cohort(path)
    np.testing.assert_array_equal(whole(again), whole(cohort))
    assert again.people.tolist() == cohort.people.tolist()
    assert again.variants.position.tolist() == [100, 101, 102, 103, 0]


def test_one_iid_in_two_families(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    path = plink(tmp_path / "x.bed", np.ones((3, 2), dtype=np.int8), ["1", "2", "2"])
    path.with_suffix(".fam").write_text("f 1 0 0 1 1\ng 1 0 0 1 2\ng 2 0 0 1 2\n")
    assert read_genotypes(path).people.tolist() == ["f_1", "g_1", "g_2"]
    path.with_suffix(".fam").write_text("f 1 0 0 1 1\nf 1 0 0 1 2\ng 2 0 0 1 2\n")
    with pytest.raises(InvalidInput, match=r"lists people twice: .* at 1 and 2;"):
        read_genotypes(path)


def test_people_are_named_by_both_names_where_a_table_has_some_of_them(tmp_path):
    """A part of the people may have each IID once, and more people may have one of theirs."""
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    path = plink(tmp_path / "x.bed", np.ones((6, 2), dtype=np.int8), ["1"] * 6)
    path.with_suffix(".fam").write_text("".join(f"f{k // 2} {k % 2} 0 0 1 {1 + k % 2}\n" for k in range(6)))
    table = tmp_path / "d.pheno"
    table.write_text("FID IID D age\nf0 1 2 30\nf2 0 1 40\n")
    cohort = read_cohort(path, PhenotypeColumns(table, None, "D"))
    assert cohort.people.tolist() == ["f0_1", "f2_0"] and cohort.status.tolist() == [1, 0]
    table.write_text("FID IID age\nf0 1 30\nf1 0 33\nf2 1 41\nf1 1 35\nf2 7 4\n")
    assert read_covariates(CovariateColumns(table), cohort.genotypes.people).rows.tolist() == [1, 2, 3, 5]
    table.write_text("FID IID age\nf0 0 30\nf1 1 33\nf2 2 41\nf1 3 35\n")
    numbered = np.array(["f0_0", "f1_1", "f2_2", "f1_3", "f2_9"], dtype=object)
    assert read_covariates(CovariateColumns(table), numbered).rows.tolist() == [0, 1, 2, 3]
    path.with_suffix(".fam").write_text("".join(f"f{k} {k} 0 0 1 {1 + k % 2}\n" for k in range(6)))
    # whoever writes Python may give texts for paths
    assert read_cohort(str(path)).people.tolist() == [str(k) for k in range(6)]
    table.write_text("FID IID D\nf0 7 2\nf1 7 1\n")
    with pytest.raises(InvalidInput, match="names none of the 6 people"):
        read_cohort(path, PhenotypeColumns(table, None, "D"))


@pytest.mark.parametrize("position", ["²", "3000000000", "9" * 30, "9" * 5000, "1.5"])
def test_positions_of_a_pvar_file_are_whole_numbers_that_files_can_hold(tmp_path, position):
    path = tmp_path / "x.pvar"
    path.write_text(f"#CHROM\tPOS\tID\tREF\tALT\n1\t2147483647\trs1\tA\tG\n1\t{position}\trs2\tA\tG\n")
    with pytest.raises(
        InvalidInput, match=r"x.pvar, line 3 has .* a position that is not an integer up to 2147483647;"
    ):
        pvar_rows(path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    assert pvar_rows(path) == [("1", 2147483647, "rs1", "G", "A")]


def test_plink_written_and_read(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    codes = np.random.default_rng(2).choice([0, 1, 2, MISSING], size=(9, 4)).astype(np.int8)
    variants = Variants.of([("2", 7 + k, f"v{k}", "T", "C") for k in range(4)])
    people = np.array([f"who{i}" for i in range(9)], dtype=object)
    status = np.array([0, 1] * 4 + [1], dtype=np.int8)
    write_plink(Cohort(MatrixGenotypes(variants, people, codes), np.arange(9), status), tmp_path / "y.bed")
    raw = (tmp_path / "y.bed").read_bytes()
    first = [BITS[int(g)] for g in codes[:4, 0]]
    assert raw[:4] == b"\x6c\x1b\x01" + bytes([sum(b << 2 * k for k, b in enumerate(first))])
    back = read_cohort(tmp_path / "y.bed")
    np.testing.assert_array_equal(whole(back), codes)
    np.testing.assert_array_equal(back.status, status)
    # what nothing randomized is not passed on: family, parents, sex
    assert {tuple(line.split()[k] for k in (0, 2, 3, 4)) for line in (tmp_path / "y.fam").open()} == {
        ("0", "0", "0", "0")
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["y.bed", "y.bim", "y.fam"]


def test_plink_files_that_fail_while_written_leave_nothing(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    bad = np.zeros((6, 3), dtype=np.int8)
    bad[2, 1] = 7
    with pytest.raises(ValueError, match="0,1,2"):
        write_plink(cohort_of(bad), tmp_path / "y.bed")
    assert not list(tmp_path.iterdir())
    (tmp_path / "y.fam").mkdir()
    with pytest.raises(InvalidInput, match=r"y\.fam: it is a directory"):
        write_plink(cohort_of(np.zeros((6, 3))), tmp_path / "y.bed")
    assert [path.name for path in tmp_path.iterdir()] == ["y.fam"]
    blank = cohort_of(np.zeros((2, 1)), names=["a b"])
    with pytest.raises(InvalidInput, match="variant 'a b' has a blank in its name"):
        write_plink(blank, tmp_path / "z.bed")
    with pytest.raises(InvalidInput, match=r"written as \.bed"):
        write_plink(blank, tmp_path / "z.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["y.fam"]


def test_vcf_records(tmp_path):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    path = vcf(
        tmp_path / "x.vcf",
        ["a", "b", "c"],
        [
            "rs1 A G . . . GT 0/0 0|1 1/1",
            "rs2 A G,T . . . GT 0/1 1/2 0/0",
            ". C T . . . GT ./. 1|0 0/1",
            "rs4 A <DEL> . . . GT 0/1 0/0 0/0",
            "rs5 A G . . . GT 0 1 0",
            "rs6 G A . . . GT 1/1 1/1 ./.",
            "rs7 A . . . . GT 0/0 0/0 0/0",
            "rs8 A T . . . DP 1 2 3",
            "rs9 A T . . . GT ./1 1 0",
            "rs9 A T . . . GT 0/1 0 0/.",
        ],
    )
    genotypes = read_genotypes(path)
    assert genotypes.variants.name.tolist() == ["rs1", "1:30:C:T", "rs6", "1:90:A:T", "1:100:A:T"]
    assert genotypes.variants.a1.tolist() == ["G", "T", "A", "T", "T"]
    # half a call is none; one allele of a man's only chromosome X counts twice, as in PLINK
    rows = [[0, MISSING, 2, MISSING, 1], [1, 1, 2, 2, 0], [2, 1, MISSING, 0, MISSING]]
    np.testing.assert_array_equal(whole(genotypes), rows)
    assert genotypes.skipped == {"not biallelic": 2, "symbolic allele": 1, "not diploid": 1, "without genotypes": 1}


@pytest.mark.slow
def test_vcf_without_use(tmp_path, capfd):
    pytest.importorskip("cyvcf2", reason="cyvcf2 is not installed")
    only = vcf(tmp_path / "x.vcf", ["a", "b"], ["rs2 A G,T . . . GT 0/1 1/2"])
    with pytest.raises(InvalidInput, match=r"no biallelic diploid variant \(1 not biallelic\)"):
        read_genotypes(only)
    with pytest.raises(InvalidInput, match="it has no records"):
        read_genotypes(vcf(tmp_path / "none.vcf", ["a", "b"], []))
    for name, text in (
        ("junk", "this is not a VCF\n"),
        ("zero", ""),
        ("twice", HEADER + COLUMNS + "a\ta\n"),
        ("nobody", HEADER + COLUMNS.removesuffix("\t") + "\n"),
    ):
        (tmp_path / f"{name}.vcf").write_text(text)
        with pytest.raises(InvalidInput, match="cannot read"):
            read_genotypes(tmp_path / f"{name}.vcf")
    # what htslib has to say is in the error, and nowhere else
    assert capfd.readouterr().err == ""


def csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_csv_genotypes(tmp_path):
    path = csv(tmp_path / "x.csv", "sample,rs1,status,rs2\np,0,case,2\nq,,control,1\nr,2,case,0\n")
    cohort = read_cohort(path, PhenotypeColumns(column="status", cases=("case",)))
    assert cohort.variants.name.tolist() == ["rs1", "rs2"]
    np.testing.assert_array_equal(whole(cohort), [[0, 2], [MISSING, 1], [2, 0]])
    np.testing.assert_array_equal(cohort.status, [1, 0, 1])
    assert cohort.people.tolist() == ["p", "q", "r"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample,rs1\np,3\nq,0\n", "column 'rs1', record 1: unknown category"),
        ("sample\np\nq\n", "no variant columns"),
        ("sample,rs1\np,1\np,0\n", "lists people twice: .* at 1 and 2;"),
        ("sample,rs1\n", "no people"),
        ("sample,rs1,rs2,rs1\np,1,1,1\n", "2 columns 'rs1'"),
    ],
)
def test_bad_csv(tmp_path, text, message):
    with pytest.raises(InvalidInput, match=message):
        read_genotypes(csv(tmp_path / "x.csv", text))


def test_phenotype_table(tmp_path):
    path = csv(tmp_path / "g.csv", "sample,rs1\na,0\nb,1\nc,2\nd,1\ne,0\n")
    table = csv(tmp_path / "p.csv", "sample,group\ne,X\na,X\nb,Y\nc,\nz,Y\n")
    cohort = read_cohort(path, PhenotypeColumns(table, "sample", "group", ("X",)))
    assert cohort.people.tolist() == ["a", "b", "e"]
    np.testing.assert_array_equal(cohort.status, [1, 0, 1])
    assert cohort.left_out == {
        "in the phenotype table only": 1,
        "not in the phenotype table": 1,
        "without a phenotype": 1,
    }


ILL, BOTH, TWO, SLIP = (("ill",),), (("1",), ("0",)), (("2",), ("1", "-9")), (("Z",), ("x",))


@pytest.mark.parametrize(
    ("values", "named", "expected"),
    [
        (["1", "2", "-9", "NA", "0"], (), [0, 1]),
        (["1.0", "2", "2", "nan", "1"], (), [0, 1, 1, 0]),
        (["0", "1", "-9", "NA", "1"], BOTH, [0, 1, 1]),
        (["ill", "well", "-9", "ill", "well"], ILL, [1, 0, 1, 0]),
        (["2", "1", "-9", "2", "1"], TWO, [1, 0, 0, 1, 0]),
        # nobody is a case: only where both kinds are named can it be told from a slip
        (["0", "0"], BOTH, [0, 0]),
        (["0", "0"], SLIP, "has no value 'Z' among its 1 value; write it"),
        (["0", "77"], ILL, "has no value 'ill' among its 2 values; .*``controls``"),
        (["1", "2"], (("1",), ("1",)), "'1' is a value of both cases and controls"),
        (["1", "2", "77", "77"], (), "record 3 is not one of PLINK's values .cases 2.*``cases``"),
        (["1", "2", "2", "secret"], (), "record 4 is not one of PLINK's values"),
        (["0", "1", "1", "0"], (), "has only the values 0 and 1.* ``cases`` 1 ``controls`` 0"),
        (["0", "-9", "0", "-9"], (), r"no person has a usable phenotype \(4 people without a phenotype\)"),
    ],
)
def test_values_of_a_phenotype(tmp_path, values, named, expected):
    """Of a fam file, and of a table: statuses, or a refusal that shows nobody's value."""
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    path = plink(tmp_path / "x.bed", np.ones((len(values), 2), dtype=np.int8), values)
    table = tmp_path / "p.pheno"
    table.write_text("#IID D\n" + "".join(f"p{k} {value}\n" for k, value in enumerate(values)))
    for where in ((None, None, None), (table, None, "D")):
        phenotype = PhenotypeColumns(*where, *named)
        if isinstance(expected, str):
            with pytest.raises(InvalidInput, match=expected) as refused:
                read_cohort(path, phenotype)
            assert "77" not in str(refused.value).replace(str(tmp_path), "") and "secret" not in str(refused.value)
        else:
            cohort = read_cohort(path, phenotype)
            assert cohort.status.tolist() == expected
            assert sum(cohort.left_out.values()) == len(values) - len(expected)


def test_people_of_one_status_are_read_and_not_tested():
    cohort = cohort_of(np.ones((2, 1)), np.array([1, 1]))
    assert cohort.doubts() == ["all 2 people are cases"]
    with pytest.raises(InvalidInput, match="constant: only cases"):
        cohort.check_varies()


@pytest.mark.parametrize(
    ("genotypes", "columns", "message"),
    [
        ("g.csv", (), "does not state case status"),
        ("g.csv", ("u,X\nv,Y\n", "sample"), "names none of the 2 people"),
        ("g.csv", ("a,X\na,Y\nb,Y\n", "sample"), "names a person twice"),
        ("g.csv", ("a,X\nb,Y\n", "who"), "has no column 'who'"),
        ("x.bgen", (), "unknown file type"),
        ("x.bed", (), r"x\.bed does not exist"),
    ],
)
def test_files_and_tables_that_do_not_match(tmp_path, genotypes, columns, message):
    csv(tmp_path / "g.csv", "sample,rs1\na,0\nb,1\n")
    phenotype = PhenotypeColumns()
    if columns:
        phenotype = PhenotypeColumns(csv(tmp_path / "p.csv", f"sample,D\n{columns[0]}"), columns[1], "D", ("X",))
    with pytest.raises(InvalidInput, match=message):
        read_cohort(tmp_path / genotypes, phenotype)
    with pytest.raises(InvalidInput, match="``controls`` needs ``cases``"):
        PhenotypeColumns(column="D", controls=("1",))


def test_names_listed_twice_are_replaced_with_a_warning():
    rows = [("1", 5, "rs1", "A", "G"), ("1", 6, "rs1", "A", "G"), ("2", 7, "rs2", "t", "T"), ("2", 8, ".", "0", "0")]
    with pytest.warns(OptrrWarning, match="listed twice: 2 variants"):
        variants = Variants.of(rows)
    assert variants.name.tolist() == ["1:5:G:A", "1:6:G:A", "rs2", "2:8:0:0"]
    with pytest.raises(InvalidInput, match="listed twice"):
        Variants.of(rows[:1] * 2)


def test_cut_bed_file(tmp_path):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    path = plink(tmp_path / "x.bed", np.ones((8, 6), dtype=np.int8), ["1", "2"] * 4)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InvalidInput, match=r"complete|cannot read"):
        whole(read_cohort(path).genotypes)


def test_all_missing_variants_are_counted_and_skipped():
    codes = np.random.default_rng(3).integers(0, 3, size=(40, 4)).astype(np.int8)
    codes[:, 2] = MISSING
    codes[:5, 0] = MISSING
    people = np.array([str(i) for i in range(40)], dtype=object)
    variants = Variants.named(["a", "b", "c", "d"])
    cohort = Cohort(MatrixGenotypes(variants, people, codes), np.arange(40), (np.arange(40) % 2).astype(np.int8))
    scanned = associations(cohort, copy_tables(cohort, False), unrandomized((3, 2)))
    assert scanned.variants.name.tolist() == ["a", "b", "d"]
    assert scanned.n.tolist() == [35, 40, 40]
    assert scanned.skipped == {"all calls missing": 1}
    assert any("'c'" in w for w in scanned.warnings)
    assert any("missing calls" in w for w in scanned.warnings)


def test_tables_are_counted_right():
    generator = np.random.default_rng(4)
    codes = generator.choice([0, 1, 2, MISSING], size=(50, 7)).astype(np.int8)
    status = generator.integers(0, 2, 50).astype(np.int8)
    for missing in (False, True):
        counted = genotype_tables(codes, status, missing)
        for v in range(7):
            for g, value in enumerate([0, 1, 2, MISSING][: 3 + missing]):
                for s in (0, 1):
                    expected = sum(c == value and t == s for c, t in zip(codes[:, v], status, strict=True))
                    assert counted[v, g, s] == expected
    people = np.array([str(i) for i in range(50)], dtype=object)
    cohort = Cohort(MatrixGenotypes(Variants.named(list("abcdefg")), people, codes), np.arange(50), status)
    blocks = copy_tables(cohort, True, size=3).two
    np.testing.assert_array_equal(blocks, copy_tables(cohort, True).two)
    bad = codes.copy()
    bad[3, 3] = 5
    cohort = Cohort(MatrixGenotypes(Variants.named(list("abcdefg")), people, bad), np.arange(50), status)
    with pytest.raises(InvalidInput, match="is invalid; give 0, 1, 2"):
        copy_tables(cohort, False)
