"""Run a study: a cell of a grid for each number of people, total and protocol, one after the other.

All protocols of one repeat use the same people, so differences are due to the protocols. Every cell has random bits of
its own, by the study's seed and the cell's name.
"""

import hashlib
import json

import numpy as np

from optrr.core.errors import InvalidInput
from optrr.genomics.cohort import Cohort
from optrr.genomics.genotypes import Codes, refuse_single_copies
from optrr.genomics.layout import genomic_domain, layout_of
from optrr.genomics.randomize import records_of
from optrr.genomics.score_tests import Progress
from optrr.genomics.study.measures import Truth, repeated, summarized, true_scores
from optrr.genomics.study.options import StudyOptions
from optrr.genomics.study.people import StudyPeople
from optrr.genomics.study.result import Outcome, Study
from optrr.genomics.study.ways import METHODS, StudiedPanel, record_tables
from optrr_solvers.arrays import FloatArray


def run_study(cohort: Cohort, options: StudyOptions, progress: Progress | None = None) -> Study:
    """Draw people, randomize, test and compare.

    One for each number of people, total and method.

    Takes time O(people · totals · methods · repeats · n V); memory a few times the records, n · V bytes.

    Parameters
    ----------
    cohort
        the panel; its statuses are not used if a trait is simulated.
    options
        totals, methods and measures.
    progress
        called with the number of finished repeats and of all repeats.

    Returns
    -------
    Study
        means and standard errors of every measure, a row for each cell.

    Raises
    ------
    InvalidInput
        for missing calls without a policy, a constant phenotype, and where no variant varies.
    """
    if options.trait is None:
        cohort.check_varies()
    refuse_single_copies(
        cohort.variants.chromosome, "a study needs two copies; leave these variants out (plink --autosome)"
    )
    names, seed = cohort.variants.name, options.seed
    layout = layout_of(genomic_domain(list(names), missing=options.missing_category))
    records = records_of(cohort, layout, "exclude" if options.missing == "exclude" else "refuse")
    risk = None if options.trait is None else options.trait.risk(records[:, 1:], stream(seed, "trait"))
    panel = StudyPeople(records, risk)
    whole = Truth.of(panel, layout, options, len(records))
    truths = {n: Truth.of(panel, layout, options, n) for n in options.people} or {len(records): whole}

    def asked(n: int, repeat: int) -> tuple[Codes, FloatArray]:
        """Draw the people of a repeat, the same for all protocols and totals."""
        if not options.draws_people:
            return records, whole.statistic
        drawn = panel.drawn(n, stream(seed, "people", n, repeat))
        return drawn, true_scores(record_tables(drawn, layout), options.test).statistic

    cases = int(records[:, 0].sum()) if options.trait is None else round(options.trait.cases * cohort.n)
    study = Study(options, cohort.n, cases, cohort.variants, whole, _left_out(cohort, whole))
    done, steps = 0, len(truths) * len(options.totals) * len(options.methods) * options.repeats
    for total in options.totals:
        # protocols use the proportion of cases and the frequencies of A1
        made_for = StudiedPanel(
            names, total, options.missing_category, options.test, *next(iter(truths.values())).shares
        )
        for method in options.methods:
            try:
                way = METHODS[method](made_for)
            except InvalidInput as error:
                study.unavailable.append((total, method, str(error)))
                done += len(truths) * options.repeats
                continue
            for n, true in truths.items():
                cell, repeats = json.dumps([n, total, method]), []
                for k in range(options.repeats):
                    repeats.append(repeated(way, asked(n, k), true, options, stream(seed, cell, k)))
                    done += 1
                    if progress is not None:
                        progress(done, steps)
                measures = summarized(repeats) | true.of_way(way, options.test)
                study.outcomes.append(Outcome(n, total, method, way, measures))
    study.outcomes.sort(key=lambda o: (o.people, o.total, -np.nan_to_num(o.predicted, nan=-1.0)))
    return study


def _left_out(cohort: Cohort, truth: Truth) -> dict[str, int]:
    out = {**cohort.genotypes.skipped, **{f"people {k}": v for k, v in cohort.left_out.items()}}
    still = len(cohort.variants) - truth.usable.size
    return out | ({"variants that do not vary": still} if still else {})


def stream(seed: int, *of: object) -> np.random.Generator:
    """Create the random generator that these texts and numbers name."""
    named = hashlib.sha256(repr(of).encode()).digest()
    return np.random.default_rng([seed, *np.frombuffer(named, dtype=np.uint32).tolist()])
