"""One small file of questions of every kind, from fixed seeds: what the test vectors of questions are made of."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from optrr.allocation.sampled_tables import SampledTables
from optrr.allocation.sampled_uses import questions_of
from optrr.core.domain.domain import Domain
from optrr.devices.deployment_file import DeployedQuestions
from optrr_solvers.allocation.questions import SubsetReport

Domains = Callable[[list[int]], Domain]


def small(domain_for: Domains, rng: np.random.Generator) -> DeployedQuestions:
    """Two questions, by subsets of each attribute and of one: the file that refused ones are made from."""
    reports = (SubsetReport((2, 1), (1, 3)), SubsetReport((1,)))
    return _questions(domain_for([4, 3]), [(0, 1), (1,)], rng, reports)


def cells(domain_for: Domains, rng: np.random.Generator) -> DeployedQuestions:
    """Subsets of the cells of a table, one with its attributes in another order; few cells, and most of them."""
    reports = (SubsetReport((3,)), SubsetReport((11,), (0,)), SubsetReport((1,)))
    return _questions(domain_for([4, 3, 5]), [(0, 1), (1, 0), (2, 0, 1)], rng, reports)


def alone(domain_for: Domains, rng: np.random.Generator) -> DeployedQuestions:
    """One question to everybody, about one attribute of two categories: randomized response."""
    return _questions(domain_for([2]), [(0,)], rng, (SubsetReport((1,)),))


def parities(domain_for: Domains, rng: np.random.Generator) -> DeployedQuestions:
    """Likely patterns are those with an even number of matches, of three attributes; and any of four."""
    reports = (SubsetReport((1, 2, 1), (0, 3, 5, 6)), SubsetReport((1, 1, 1, 3), (1, 2, 4, 7, 8, 15)))
    return _questions(domain_for([2, 5, 3, 7]), [(0, 1, 2), (3, 0, 2, 1)], rng, reports)


def wide(domain_for: Domains, rng: np.random.Generator) -> DeployedQuestions:
    """Numbers of cells beyond 32 bits, thresholds of 128 bits, and questions that are hardly ever asked."""
    reports = (SubsetReport((40, 70, 1, 9, 2), tuple(range(16, 32))), SubsetReport((2, 3), (3,)), SubsetReport((250,)))
    made = _questions(domain_for([300, 200, 500, 64, 90]), [(4, 2, 0, 1, 3), (0, 3), (2,)], rng, reports)
    finer = [replace(q, threshold=(q.threshold << 64) + int(rng.integers(1, 1 << 40))) for q in made.questions]
    made = replace(made, bits=128, questions=tuple(finer), ends=((1 << 128) - (1 << 90), (1 << 128) - (1 << 70) + 5))
    return replace(made, total=f"{made.exact_total:f}")


def most(domain_for: Domains, rng: np.random.Generator) -> DeployedQuestions:
    """Many subsets, and every pattern but one likely."""
    report = SubsetReport((1, 1, 2, 1, 3, 1, 1, 2), tuple(range(1, 256)))
    return _questions(domain_for([2, 3, 4, 2, 4, 3, 2, 5]), [tuple(range(8))], rng, (report,))


def everything(domain_for: Domains, rng: np.random.Generator) -> DeployedQuestions:
    """As many subsets as a report may have, and half of their patterns likely."""
    likely = np.sort(rng.choice(1 << 12, 1 << 11, replace=False))
    report = SubsetReport((1, 1, 2, 1, 3, 1, 1, 2, 1, 1, 1, 2), tuple(likely.tolist()))
    return _questions(domain_for([2, 3, 4, 2, 4, 3, 2, 5, 2, 2, 3, 3]), [tuple(range(12))], rng, (report,))


def _questions(
    domain: Domain, members: list[tuple[int, ...]], rng: np.random.Generator, reports: tuple[SubsetReport, ...]
) -> DeployedQuestions:
    names = tuple(tuple(domain.names[i] for i in asked) for asked in members)
    shares = rng.integers(1, 1 << 20, len(names)) / 1.0
    return questions_of(SampledTables(domain, names, shares / shares.sum(), float(rng.integers(1, 12)) / 4, reports))


ASKED: dict[str, Callable[[Domains, np.random.Generator], DeployedQuestions]] = {
    f"questions-{made.__name__}": made for made in (small, cells, alone, parities, wide, most, everything)
}


def asked_of(name: str, domain_for: Domains) -> DeployedQuestions:
    """The file of that name; always the same."""
    return ASKED[name](domain_for, np.random.default_rng(zlib.crc32(name.encode())))
