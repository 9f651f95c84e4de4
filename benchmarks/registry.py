"""Every benchmark whose results are kept: one line each.

A line says how long the benchmark takes, how closely a second run must agree with the first, which benchmarks it reads from,
and which packages outside the project it cannot do without. What it writes and what it depends on is seen when it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

EXACT = 1e-6
"""Relative: seeds are fixed, so only the last digits may differ, between versions of the numerical libraries."""
SOLVED = 2e-3
"""Relative: a solver's answer within its tolerance; another build of it may stop elsewhere."""
SIMULATED = 0.1
"""Relative: three standard errors at a thousand runs, for draws that another version of numpy may make otherwise."""
TIMED = None
"""Holds times: a second run is not compared."""


@dataclass(frozen=True)
class Benchmark:
    """A script, how long it takes and how closely two runs of it agree.

    Attributes
    ----------
    script : str
        Its file in ``benchmarks``, without suffix.
    cheap : bool
        Seconds: run again by the tests.
    agrees : float or None
        Largest relative difference between a number now and the same number before; None where nothing is compared.
    after : tuple of str
        Benchmarks whose results it reads.
    needs : tuple of str
        Packages that are not among the project's dependencies.
    arguments : tuple of str
        Given to the script.
    """

    script: str
    cheap: bool
    agrees: float | None
    after: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


def cheap(script: str, agrees: float | None, **more: tuple[str, ...]) -> Benchmark:
    """A benchmark of seconds."""
    return Benchmark(script, True, agrees, **more)


def long(script: str, agrees: float | None, **more: tuple[str, ...]) -> Benchmark:
    """A benchmark of minutes."""
    return Benchmark(script, False, agrees, **more)


BENCHMARKS = (
    long("admissions", SIMULATED),
    long("answers", SIMULATED),
    long("any_mechanism", SIMULATED),
    long("association", SIMULATED),
    long("auditing", TIMED),
    long("auto_extremes", TIMED),
    long("ball_sampling", TIMED),
    long("ball_scaling", TIMED),
    long("ball_totals", SOLVED),
    long("baselines", SIMULATED),
    long("baselines_library", TIMED, needs=("multi_freq_ldpy",)),
    long("derived_coverage", SIMULATED),
    long("exact_solvers", TIMED),
    long("genomics_fig5", SIMULATED),
    long("genomics_scale", TIMED),
    long("odds_coverage", SIMULATED),
    long("scan_speed", TIMED, arguments=("3d615c3",)),
    long("genomics_study", SIMULATED),
    long("genomics_type_one", SIMULATED),
    long("gwas_covariates", SIMULATED),
    long("gwas_effects", SIMULATED),
    long("gwas_sight", SIMULATED),
    long("inference_level", SIMULATED),
    long("inference_tail", SIMULATED),
    long("interval_coverage", SIMULATED),
    long("likelihood", TIMED),
    long("longitudinal", SIMULATED),
    long("longitudinal_coverage", SIMULATED, arguments=("80", "1000", "2")),
    cheap("mdr_fig1", EXACT),
    cheap("mdr_fig2", EXACT),
    long("mdr_fig3", SIMULATED),
    long("mdr_tables", SIMULATED),
    long("measures_coverage", SIMULATED, arguments=("2000", "2")),
    long("model_coverage", SIMULATED, arguments=("4",)),
    long("model_levels", SIMULATED, arguments=("3",)),
    cheap("one_record", SIMULATED),
    long("pairs_kept", TIMED),
    long("strata_levels", SIMULATED, arguments=("2",)),
    long("paper_claims", SIMULATED, after=("mdr_fig2", "mdr_tables")),
    long("por_ratios", SOLVED),
    long("public_optimiser", SIMULATED, needs=("factorization", "autograd")),
    long("passing_through", TIMED),
    long("plan_latency", TIMED),
    long("plan_page", TIMED, needs=("playwright",)),
    long("protocols_comparison", SIMULATED),
    long("protocols_costs", TIMED),
    long("readme", SOLVED, after=("ball_totals", "inference_level")),
    long("records", TIMED),
    long("regression_coverage", SIMULATED, arguments=("1500", "2")),
    long("regression_weighted", SIMULATED, arguments=("200", "2")),
    long("questions", SOLVED),
    cheap("rij", SIMULATED),
    cheap("rij_age_sex", SIMULATED),
    long("rivals", TIMED, needs=("multi_freq_ldpy", "factorization", "HDG")),
    cheap("rvl_derived", SIMULATED),
    long("rvl_graphs", SIMULATED),
    cheap("rvl_proportions", SIMULATED),
    long("sampler_speed", TIMED, needs=("multi_freq_ldpy",)),
    long("sic_figures", SIMULATED),
    cheap("sic_table1", EXACT),
    cheap(
        "pages",
        EXACT,
        after=(
            *("exact_solvers", "genomics_fig5", "paper_claims", "por_ratios"),
            *("mdr_fig1", "mdr_fig2", "mdr_fig3", "mdr_tables", "protocols_comparison", "protocols_costs"),
            *("sic_figures", "sic_table1", "rij", "rij_age_sex", "rvl_derived", "rvl_graphs", "rvl_proportions"),
        ),
    ),
    long("spark_speed", TIMED, needs=("pyspark",)),
    long("synthesis", SIMULATED, arguments=("200", "2")),
    long("survey_rate", TIMED, needs=("uvicorn",)),
    long("test_levels", SIMULATED),
    long("tests_power", SIMULATED),
    long("usable_answers", SIMULATED, arguments=("1", "2")),
    long("weight", TIMED),
    long("weighted_coverage", SIMULATED),
    long("weighted_levels", SIMULATED, arguments=("10000", "2")),
)
BY_NAME = {b.script: b for b in BENCHMARKS}
