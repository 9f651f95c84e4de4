"""What randomized records say of the true table to somebody with a prior: Dirichlet priors, draws, credible intervals."""

from optrr.bayes.estimating import posterior
from optrr.bayes.result import Posterior, Quantity

__all__ = ["Posterior", "Quantity", "posterior"]
