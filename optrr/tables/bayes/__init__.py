"""What randomized records say of the true table to somebody with a prior: Dirichlet priors, draws, credible intervals.

``estimating`` is the front door. ``sampling`` draws tables from the posterior; ``settling`` says whether enough were drawn, and
takes means and the limits of intervals from them; ``result`` is what is handed back.
"""

from optrr.tables.bayes.posterior import Posterior, Quantity, posterior

__all__ = ["Posterior", "Quantity", "posterior"]
