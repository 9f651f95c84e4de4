"""What randomized records say of the true table to somebody with a prior: Dirichlet priors, draws, credible intervals.

``sampling`` draws tables from the posterior, says whether enough were drawn, and takes means and the limits of intervals from
them; ``posterior`` is the front door and what it hands back.
"""

from optrr.tables.bayes.posterior import Posterior, Quantity, posterior

__all__ = ["Posterior", "Quantity", "posterior"]
