"""Variants of which some have one copy, as PLINK treats them; and alleles, which are part of a design."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from genotypes import cohort_of, command, whole

from optrr import load
from optrr.cli.main import run
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.kernel import EffectKernel, unrandomized
from optrr.genomics.alleles import aligned
from optrr.genomics.asking import AssociationDesign, GenomicDesign
from optrr.genomics.cohort import Cohort, read_cohort
from optrr.genomics.genotypes import MISSING, MatrixGenotypes, Variants, allele_pairs, with_single_copies
from optrr.genomics.layout import genomic_domain, layout_of
from optrr.genomics.phenotypes import PhenotypeColumns, sexes
from optrr.genomics.randomize import records_of
from optrr.genomics.scan import associations
from optrr.genomics.score_tests import CopyTables, copy_tables, score_test
from optrr.genomics.study import StudyOptions, run_study
from optrr.genomics.writing import write_plink
from optrr_solvers.randomness import as_source

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
        scanned = associations(cohort, copy_tables(cohort, False), PLAIN, test)
        np.testing.assert_allclose(scanned.scores.statistic, score_test(women, PLAIN, test).statistic, rtol=1e-9)
        assert scanned.n.tolist() == [int((~male).sum())] * 3
        assert any("people with one copy" in w and "3 variants" in w for w in scanned.warnings)
    mixed = Variants.of([("1", 5, "auto", "A", "G"), ("Y", 6, "y", "A", "G"), ("X", 7, "x", "A", "G")])
    cohort = Cohort(MatrixGenotypes(mixed, cohort.people, codes), np.arange(600), status, {}, male)
    scanned = associations(cohort, copy_tables(cohort, False), PLAIN)
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
    with pytest.raises(InvalidInput, match="no sexes; give the sex of each person"):
        with_single_copies(codes, np.array(["chrX"] * 3, dtype=object), None)
    assert sexes(["M", "female", "2", "1", "", "NA"], "t").tolist() == [1, 0, 0, 1, -1, -1]
    with pytest.raises(InvalidInput, match="t: record 2 is not a sex"):
        sexes(["M", "secret"], "t")


def test_sexes_from_file_to_file(tmp_path, capsys, monkeypatch):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    codes, male, status = drawn(400, 3, 7)
    write_plink(cohort_of(codes, status, "23", male), Path("true.bed"))
    write_plink(cohort_of(codes, status, "23"), Path("nobody.bed"))
    assert command(capsys, "gwas design true.bed --variant-epsilon 6 --status-epsilon 6 -o d.json")[0] == 0
    code, out, err = command(capsys, "gwas randomize nobody.bed --design d.json -o r.bed")
    assert (code, out) == (2, "") and "3 variants of chromosome X or Y" in err and "--sex-column" in err
    code, _, err = command(capsys, "gwas randomize true.bed --design d.json -o r.csv")
    assert code == 2 and "write .bed" in err and not Path("r.csv").exists()
    code, _, err = command(capsys, "gwas randomize true.bed --design d.json -o r.bed --random-state 1 --keep-names")
    assert code == 0 and "sexes are published without randomization" in err
    kept = {line.split()[1]: line.split()[4] for line in Path("r.fam").read_text().splitlines()}
    assert kept == {f"p{k}": "1" if m else "2" for k, m in enumerate(male)}
    code, out, err = command(capsys, "gwas scan r.bed --design d.json --json")
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
    with pytest.raises(InvalidInput, match="a study needs two copies"):
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


ALLELES = [("A", "G"), ("C", "T"), ("A", "T")]


def cohort_with(pairs: list[tuple[str, str]], seed: int = 1, n: int = 300) -> Cohort:
    """More copies of the first allele in cases."""
    rng = np.random.default_rng(seed)
    status = (np.arange(n) % 2).astype(np.int8)
    codes = rng.binomial(2, np.where(status, 0.6, 0.3)[:, None], (n, len(pairs))).astype(np.int8)
    codes[0, 0] = MISSING
    return cohort_of(codes, status, alleles=pairs)


def test_a_design_names_its_alleles():
    names = ["rs0", "rs1", "rs2"]
    layout = layout_of(genomic_domain(names, alleles=ALLELES))
    assert layout.alleles == tuple(ALLELES)
    assert layout_of(genomic_domain(names)).alleles == (("", ""),) * 3
    assert layout_of(genomic_domain(names, alleles=[*ALLELES[:2], ("", "")])).alleles[2] == ("", "")


def test_the_other_way_round_is_turned():
    layout = layout_of(genomic_domain(["rs0", "rs1", "rs2"], alleles=ALLELES))
    true = cohort_with(ALLELES)
    assert aligned(true, layout) == (true, [])
    codes = whole(true)
    other = np.where(codes == MISSING, MISSING, 2 - codes).astype(np.int8)
    other[:, 2] = codes[:, 2]
    swapped = cohort_with([("G", "A"), ("t", "c"), ("A", "T")])
    swapped = replace(swapped, genotypes=replace(swapped.genotypes, codes=other))
    with pytest.raises(InvalidInput, match=r"'rs0' counts the design's A2.*optrr\.genomics\.aligned"):
        records_of(swapped, layout, "exclude")
    back, said = aligned(swapped, layout)
    np.testing.assert_array_equal(whole(back), codes)
    assert allele_pairs(back.variants) == ALLELES and said == [
        "2 variants with A1 and A2 swapped relative to the design: counts were converted"
    ]
    np.testing.assert_array_equal(records_of(back, layout, "exclude"), records_of(true, layout, "exclude"))


@pytest.mark.parametrize(
    ("pair", "at", "message"),
    [
        (("T", "A"), 2, "rs2' has A1/A2 T/A, and A/T in the design: which may be the other strand"),
        (("T", "G"), 0, "rs0' has A1/A2 T/G, and A/G in the design: the design's are others"),
        (("A", "C"), 0, "rs0' has A1/A2 A/C"),
        (("0", "C"), 0, "rs0' has A1/A2 unknown/C"),
    ],
)
def test_other_alleles_are_refused(pair, at, message):
    layout = layout_of(genomic_domain(["rs0", "rs1", "rs2"], alleles=ALLELES))
    pairs = [*ALLELES]
    pairs[at] = pair
    with pytest.raises(InvalidInput, match=message):
        aligned(cohort_with(pairs), layout)


@pytest.mark.parametrize(("pair", "flipped"), [(("T", "C"), False), (("c", "t"), True)])
def test_alleles_of_the_other_strand_are_read_as_the_designs(pair, flipped):
    """A/G is T/C on the other strand, where nothing else can be meant: the complements are other letters."""
    layout = layout_of(genomic_domain(["rs0", "rs1", "rs2"], alleles=ALLELES))
    true, other = cohort_with(ALLELES), cohort_with([pair, *ALLELES[1:]])
    back, said = aligned(other, layout)
    codes = whole(true)[:, 0]
    np.testing.assert_array_equal(
        whole(back)[:, 0], np.where(codes == MISSING, MISSING, 2 - codes) if flipped else codes
    )
    assert allele_pairs(back.variants) == ALLELES
    assert (
        said[0] == "1 variant with alleles of the other strand: read as the design's alleles"
        and len(said) == 1 + flipped
    )
    if not flipped:  # whoever writes it writes the design's letters
        np.testing.assert_array_equal(records_of(other, layout, "exclude"), records_of(true, layout, "exclude"))


def test_what_is_not_known_is_taken_as_it_is_and_said():
    layout = layout_of(genomic_domain(["rs0", "rs1", "rs2"], alleles=ALLELES))
    same, said = aligned(cohort_with([(".", "."), ("0", "T"), ("A", "T")]), layout)
    assert "results are wrong for 1 variant if the file does not count" in said[0] and len(said) == 1
    # nobody has A1, which PLINK then does not name, and A2 is the design's A1: everybody has two copies of it
    one, said = aligned(cohort_with([("A", "G"), ("0", "C"), ("A", "T")]), layout)
    np.testing.assert_array_equal(whole(one)[:, 1], 2 - whole(same)[:, 1])
    long = "ACGT" * 20
    layout = layout_of(genomic_domain(["rs0"], alleles=allele_pairs(cohort_with([(long, "A")]).variants)))
    assert aligned(cohort_with([("A", long)]), layout)[1] and not aligned(cohort_with([(long, "A")]), layout)[1]


def answer(capsys: pytest.CaptureFixture, *arguments: object) -> dict:
    assert run([str(a) for a in arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_two_files_of_the_same_people_give_the_same_odds_ratios(tmp_path, capsys, monkeypatch):
    """As two cohorts do of which PLINK made the rarer allele A1: the odds ratios were reciprocal, without a word."""
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    codes = whole(cohort_with(ALLELES[:2]))
    codes[0, 0] = 1
    for name, own, pairs in (("one", codes, ALLELES[:2]), ("two", 2 - codes, [pair[::-1] for pair in ALLELES[:2]])):
        write_plink(cohort_of(own, alleles=pairs), Path(f"{name}.bed"))
    budget = ("--variant-epsilon", "5", "--status-epsilon", "5", "--json")
    answer(capsys, "gwas", "design", "one.bed", *budget, "-o", "d.json")
    odds = []
    for name, out in (("one", "one.out.bed"), ("one", "one.out.csv"), ("two", "two.out.bed"), ("two", "two.out.csv")):
        answer(
            capsys, "gwas", "randomize", f"{name}.bed", "--design", "d.json", "-o", out, "--random-state", 3, "--json"
        )
        top = answer(capsys, "gwas", "scan", out, "--design", "d.json", "--json")["top"]
        odds.append(sorted((row["SNP"], row["A1"], row["A2"], round(row["OR"], 9)) for row in top))
    assert odds[0] == odds[1] == odds[2] == odds[3] and odds[0][0][:3] == ("rs0", "A", "G") and odds[0][0][3] > 1
    # what others do to the randomized file between is turned as well
    lines = [line.split() for line in Path("one.out.bim").read_text().splitlines()]
    assert [line[4:6] for line in lines] == [["A", "G"], ["C", "T"]]


@pytest.mark.parametrize("purpose", ["genotypes", "association"])
def test_every_route_keeps_the_places_of_variants(tmp_path, capsys, monkeypatch, purpose):
    pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    monkeypatch.chdir(tmp_path)
    true = cohort_of(np.random.default_rng(3).integers(0, 3, (40, 3)), chromosomes=["1", "chr7", "22"])
    write_plink(true, Path("true.bed"))
    answer(capsys, "gwas", "design", "true.bed", "--total-epsilon", 9, "--for", purpose, "-o", "d.json", "--json")
    made = load("d.json")
    asked = AssociationDesign(made) if purpose == "association" else GenomicDesign(made)
    reports = (asked.drawn_report(record[None], as_source(None)) for record in asked.records(true))
    Path("r.jsonl").write_text("".join(json.dumps(report) + "\n" for report in reports))
    for out in ("r.csv", "r.parquet"):
        answer(capsys, "gwas", "randomize", "true.bed", "--design", "d.json", "-o", out, "--json")
    for out in ("r.csv", "r.parquet", "r.jsonl"):
        answer(capsys, "gwas", "scan", out, "--design", "d.json", "-o", f"{out}.tsv", "--json")
        table = pd.read_csv(f"{out}.tsv", sep="\t", dtype=str)
        assert table[["CHR", "SNP", "BP"]].to_numpy().tolist() == [
            ["1", "rs0", "7"],
            ["chr7", "rs1", "107"],
            ["22", "rs2", "207"],
        ]
