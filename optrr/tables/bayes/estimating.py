"""From counts of randomized records to the posterior of the true table under a Dirichlet prior."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from optrr.errors import InvalidInput, MethodTooLarge, SolveFailed
from optrr.mechanisms.kernel import Kernel, SingularMarginal
from optrr.mechanisms.randomizer import Randomizer, checked_mechanism
from optrr.records.counts import Counts
from optrr.show.rounding import records_enough
from optrr.tables.bayes.result import Posterior
from optrr.tables.bayes.sampling import PosteriorLaw, prior_draws, sweeps
from optrr.tables.bayes.settling import FEWEST, moments
from optrr.tables.estimation.impossible import warn_of_records
from optrr.tables.estimation.result import check_confidence
from optrr_solvers.arrays import FloatArray

# A table of 64 cells takes 20 to 60 s of processor time, one of 16 cells 3 s.
MOST_CELLS = 64
# Below, splits of two cells come too near to 0 and 1 for double precision; above, the prior is the answer.
LEAST_PRIOR, MOST_PRIOR = 0.2, 1e6
JEFFREYS = 0.5
# Chains that move side by side cost little more than one. The first check comes after so many sweeps; where the draws have not
# settled, their number doubles, and at the most there is an error instead of an answer.
_CHAINS, _FIRST, _MOST = 64, 512, 4096


def posterior(
    counts: Counts,
    mechanism: Randomizer,
    *,
    prior: float | ArrayLike = JEFFREYS,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> Posterior:
    """Credible intervals of the population's proportions, for samples too small for anything else to say much.

    Parameters
    ----------
    counts
        of randomized records over any attributes of the mechanism, up to 64 cells.
    mechanism
        that randomized them: a Mechanism, or anything with a ``domain`` and a ``kernel(names)``.
    prior
        Dirichlet parameter, the same for every cell or a table of them, from 0.2 to 10^6. 1/2 is Jeffreys' for records that are
        not randomized, 1 holds all tables for equally likely.
    confidence
        posterior probability of each cell's interval, above 0 and below 1; as much lies below it as above.
    random_state
        a seed or a generator; the result names the seed that was drawn where none is given.

    Raises
    ------
    InvalidInput
        for counts of another domain, priors out of range, or no records. MethodTooLarge for too many cells. SolveFailed where
        the draws do not settle: no limit is then shown.

    Notes
    -----
    The draws are those of a Markov chain whose law is exactly the posterior (:mod:`optrr.tables.bayes.sampling`); what their
    number leaves uncertain is measured (:mod:`optrr.tables.bayes.settling`). Where the mechanism hides an effect, the posterior
    of it is the prior's, and a warning says so.
    """
    check_confidence(confidence)
    kernel = _kernel(counts, checked_mechanism(mechanism))
    warn_of_records([counts], mechanism)
    alpha = _checked_prior(prior, kernel.sizes)
    seed = None if isinstance(random_state, np.random.Generator) else _seed(random_state)
    rng = random_state if isinstance(random_state, np.random.Generator) else np.random.default_rng(seed)
    table = counts.table.ravel()
    seen = table > 0
    law = PosteriorLaw(kernel.matrix()[:, seen], table[seen].astype(np.float64), alpha.ravel())
    draws = _settled(law, confidence, rng)
    tables = draws.reshape(*draws.shape[:2], *kernel.sizes)
    warnings = _warnings(counts, kernel, float(alpha.sum()))
    return Posterior(counts.domain, counts.n, alpha, tables, confidence, seed, warnings)


def _settled(law: PosteriorLaw, confidence: float, rng: np.random.Generator) -> FloatArray:
    """Draws (L, C, R) that have settled, the first half of all sweeps left out."""
    draws, at, total = np.empty((0, _CHAINS, law.prior.size)), prior_draws(law, _CHAINS, rng), 0
    while total < _MOST:
        more = sweeps(law, at, max(total, _FIRST), rng)
        draws = np.concatenate([draws, more])
        total, at = len(draws), more[-1]
        kept = draws[total // 2 :]
        known = moments(kept, confidence)
        if known.settled:
            return kept
    raise SolveFailed(
        f"the draws of the posterior are as good as {known.effective_draws.min():.0f} independent ones after {total} sweeps of "
        f"{_CHAINS} chains, fewer than {FEWEST}, so no limit is shown; ask for fewer cells, or estimate without a prior"
    )


def _kernel(counts: Counts, mechanism: Randomizer) -> Kernel:
    if not isinstance(counts, Counts):
        raise InvalidInput(
            f"got a {type(counts).__name__} for counts; count records first: optrr.count(data, domain, names)"
        )
    if counts.n < 1:
        raise InvalidInput("there are no records, so the posterior is the prior; count at least one")
    for attribute in counts.domain:
        if mechanism.domain[attribute.name] != attribute:
            raise InvalidInput(
                f"attribute {attribute.name!r} has other categories in the counts than in the mechanism's domain; count "
                "with the domain of the design"
            )
    kernel = mechanism.kernel(counts.domain.names)
    if kernel.cells > MOST_CELLS:
        raise MethodTooLarge(
            f"the table has {kernel.cells} cells, and a posterior is drawn for at most {MOST_CELLS}; ask for fewer attributes, "
            "or estimate without a prior"
        )
    return kernel


def _checked_prior(prior: float | ArrayLike, sizes: tuple[int, ...]) -> FloatArray:
    given = np.asarray(prior, dtype=np.float64)
    if given.shape not in ((), sizes):
        raise InvalidInput(f"the prior has shape {given.shape}; give one number, or a table of shape {sizes}")
    if not (np.all(given >= LEAST_PRIOR) and np.all(given <= MOST_PRIOR)):
        raise InvalidInput(
            f"prior = {float(given.min()):g}; Dirichlet parameters from {LEAST_PRIOR:g} to {MOST_PRIOR:g} are taken, such as "
            "0.5"
        )
    return np.broadcast_to(given, sizes).copy()


def _seed(random_state: int | None) -> int:
    return int(np.random.default_rng().integers(2**32)) if random_state is None else random_state


def _warnings(counts: Counts, kernel: Kernel, prior: float) -> tuple[str, ...]:
    """What the prior decides: everything that the mechanism hides, or most where the reports tell less than it."""
    try:
        kernel.check_invertible()
    except SingularMarginal as reason:
        return (f"what the mechanism hides is the prior's in this posterior: {reason}",)
    even = np.full(kernel.sizes, 1 / kernel.cells)
    without_noise = (1 - 1 / kernel.cells) / kernel.cells
    worth = counts.n * without_noise / float(kernel.exact_variance(kernel.expected(even), 1.0).mean())
    if worth >= prior:
        return ()
    return (
        f"the {counts.n} reports tell as much of an even table as {worth:.2g} true records, and the prior counts for "
        f"{prior:g}, so the posterior is more the prior's than theirs: {records_enough(counts.n * prior / worth)}; else merge "
        "categories, or lower the prior",
    )
