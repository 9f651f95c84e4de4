"""Settings and printed numbers of the figures and tables of the five papers.

The scripts draw with these, the papers' pages show them (``listed``), and a test compares both with the papers. A range
that a paper's text leaves open is from its authors' public code, with a remark.
"""

from collections.abc import Mapping, Sequence

# POR
POR_COUNTS = (3, 5, 7, 10)
POR_SETS = 200
# Figs. 1, 2: this many categories each, ε_i uniform in a range that depends on k
POR_CATEGORIES = 5
POR_EPSILONS = {3: (1, 8), 5: (1, 8), 7: (1, 8), 10: (2, 8)}
# Figs. 3, 4: this ε_i, a whole number of categories uniform from the first to the last, both included
POR_EPSILON = 3.0
POR_SIZES = {3: (2, 15), 5: (2, 9), 7: (2, 6), 10: (2, 4)}
# Fig. 5: people, cells of allele × status, ε_i; the printed errors are those of the authors' public code, means of ten
# runs
POR_PEOPLE, POR_CELLS, POR_SNP_EPSILONS = 2000, 4, (3, 5)
POR_FIG5 = {
    "heuristic": {
        **{10: 18.740, 20: 21.926, 30: 23.445, 40: 20.523, 50: 18.664},
        **{60: 20.920, 70: 22.120, 80: 18.509, 90: 21.678, 100: 20.093},
    },
    "Kronecker": {
        **{10: 59.449, 20: 63.236, 30: 63.328, 40: 64.114, 50: 63.533},
        **{60: 64.462, 70: 63.502, 80: 62.309, 90: 63.421, 100: 63.588},
    },
}
# Table I: numbers of categories, ε_i, and seconds by k, with the digits and the sizes beyond it that the public code
# printed
POR_TIMED_SIZES = (2, 5)
POR_TIMED_EPSILONS = (1, 10)
POR_SECONDS = {
    "lp": {3: 0.00604, 5: 0.0135, 10: 54.9, 12: 7007.0},
    "inductive": {
        **{3: 9.19e-5, 5: 1.68e-4, 10: 5.08e-4, 100: 0.0153},
        **{500: 0.273, 1000: 1.14, 10_000: 116.0, 100_000: 13478.0},
    },
}

# MDR
MDR_ALPHA = 0.05
MDR_SIGMAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MDR_RETENTIONS = (0.1, 0.3, 0.5, 0.7)
MDR_FIG2_RETENTION = 0.7
MDR_TABLE_SIGMA = 0.1
MDR_COMBINATIONS = (50, 100, 300)
MDR_DEPENDENCES = (0.1, 0.2, 0.3)
# Tables I (Adult) and II (six copies): p by T_d in rows, T_v in columns
MDR_TABLES = {
    1: """.335 .404 .495  .357 .351 .501  .285 .426 .505   .335 .334 .426  .262 .310 .435  .199 .306 .445
          .094 .148 .214  .107 .127 .236  .116 .119 .212   .069 .069 .074  .070 .075 .071  .070 .068 .079""",
    6: """.189 .312 .459  .173 .310 .449  .183 .339 .462   .149 .202 .369  .171 .225 .376  .178 .217 .369
          .080 .084 .123  .082 .075 .126  .083 .079 .127   .064 .066 .056  .064 .066 .057  .065 .065 .060""",
}

# SIC
# Table 1, by p: attributes and printed ε of each cluster
SIC_TABLE1 = {
    0.9: ((2, 7.309), (2, 7.735), (5, 11.975)),
    0.8: ((4, 11.844), (2, 5.171), (3, 6.234)),
    0.7: ((3, 7.337), (3, 8.569), (3, 5.695)),
}

# RIJ
# §3.3: counts of ten people, a in rows, b in columns; the observed ones; the chance to keep a value
RIJ_EXAMPLE = ((4, 0), (2, 4))
RIJ_OBSERVED = ((3, 2), (2, 3))
RIJ_KEPT = 0.75
# Figs. 1–8: values, ε, people and V where they are not varied, and where they are: the ends are the paper's
RIJ_BASE = {"d": 10, "epsilon": 1.0, "n": 1000, "v": 0.5}
RIJ_SWEPT = {
    "v": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0),
    "epsilon": (0.1, 0.25, 0.5, 1.0, 1.5, 2.0),
    "n": (10, 100, 1000, 10_000),
    "d": (2, 5, 10, 15, 20),
}
# Table 1, Figs. 9–12: a value is kept with this chance, otherwise drawn uniformly; ages in bins of so many years
RIJ_RETAINED = 0.5
RIJ_YEARS = 20
# Table 1: attributes, V, mean squared errors of RR-Ind and of RR-Ind-Joint
RIJ_TABLE1 = (
    (("sex", "income"), 0.2159802, 0.00188, 2.93e-33),
    (("sex", "race"), 0.1181155, 0.00011, 3.61e-33),
    (("education", "occupation"), 0.1873341, 2.14e-5, 5.48e-33),
)

# RVL
RVL_PEOPLE = 248
RVL_LEVELS = {"LDL": 6, "TC": 3}
RVL_NODES = 185
RVL_EDGES = 684
RVL_FIG1_EPSILON = 5


def _ranges(by_count: Mapping[int, tuple[int, int]]) -> str:
    return ", ".join(f"{low}..{high}" for low, high in by_count.values())


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{v:g}" for v in values)


def listed(paper: str) -> dict[str, str]:
    """For each figure or table its settings, in words with the numbers above."""
    counts = _numbers(POR_COUNTS)
    swept = {name: f"{values[0]:g}..{values[-1]:g}" for name, values in RIJ_SWEPT.items()}
    return {
        "por": {
            "Figs. 1, 2": f"k = {counts}; {POR_CATEGORIES} categories each; ε_i uniform in {_ranges(POR_EPSILONS)}; "
            f"{POR_SETS} sets",
            "Figs. 3, 4": f"k = {counts}; ε_i = {POR_EPSILON:g}; categories uniform in {_ranges(POR_SIZES)}; {POR_SETS} sets",
            "Fig. 5": f"{_numbers(list(POR_FIG5['heuristic']))} SNPs; {POR_PEOPLE} people; {POR_CELLS} cells; "
            f"ε_i uniform in {POR_SNP_EPSILONS[0]}..{POR_SNP_EPSILONS[1]}",
            "Table I": f"categories uniform in {POR_TIMED_SIZES[0]}..{POR_TIMED_SIZES[1]}; "
            f"ε_i uniform in {POR_TIMED_EPSILONS[0]}..{POR_TIMED_EPSILONS[1]}",
        },
        "mdr": {
            "Fig. 1": f"α = {MDR_ALPHA:g}",
            "Fig. 2": f"p = {MDR_FIG2_RETENTION:g}; σ = {_numbers(MDR_SIGMAS)}",
            "Fig. 3": f"p = {_numbers(MDR_RETENTIONS)}; σ = {_numbers(MDR_SIGMAS)}",
            "Tables I, II": f"p = {_numbers(MDR_RETENTIONS)}; σ = {MDR_TABLE_SIGMA:g}; T_v = {_numbers(MDR_COMBINATIONS)}; "
            f"T_d = {_numbers(MDR_DEPENDENCES)}",
        },
        "sic": {"Table 1, Figs. 1–3": f"p = {_numbers(list(SIC_TABLE1))}; three clusters of nine attributes"},
        "rij": {
            "§3.3": f"ten people, two binary attributes, each kept with probability {RIJ_KEPT:g}",
            "Figs. 1–4": f"d = {RIJ_BASE['d']}, ε = {RIJ_BASE['epsilon']:g}, n = {RIJ_BASE['n']}, V = {RIJ_BASE['v']:g}",
            "Figs. 5–8": f"as Figs. 1–4, but V in {swept['v']}, ε in {swept['epsilon']}, n in {swept['n']}, d in {swept['d']}",
            "Table 1, Figs. 9–12": f"p = {RIJ_RETAINED:g}; ages in bins of {RIJ_YEARS} years",
        },
        "rvl": {
            "Figs. 1–4": f"{RVL_PEOPLE} people; {RVL_LEVELS['LDL']} levels of LDL, {RVL_LEVELS['TC']} of TC; "
            f"Fig. 1 at ε = {RVL_FIG1_EPSILON}",
            "Figs. 5, 6": f"a graph of {RVL_NODES} nodes and {RVL_EDGES} edges",
        },
    }[paper]
