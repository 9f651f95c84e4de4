"""How well records show what a test of log-linear models is about.

With E what a report adds to the score of each tested column, λ what the fit expects and n records (see
:mod:`optrr.models.loglinear.comparing`), the information on the columns is n E diag(λ) Eᵀ. An even table of one true record a
cell has A Aᵀ, A the columns without what the smaller model explains. The largest eigenvalue of the first beside the second is
the number of true records a cell that would show the columns as well, in the direction in which they are shown best.
"""

from __future__ import annotations

import numpy as np

from optrr_solvers.arrays import FloatArray

# Columns that are looked at; of more, some direction is shown wherever the margins are, and eigenvalues take long.
_MOST_COLUMNS = 256


def even_scale(old: FloatArray, added: FloatArray) -> FloatArray:
    """Makes 1 of an even table's information A Aᵀ, (d, d), for columns of the smaller model and the added ones, (d, *sizes).

    Empty where these are more than are looked at.
    """
    if len(added) > _MOST_COLUMNS:
        return np.zeros((0, 0))
    explained = np.vstack([np.ones(added[0].size), old.reshape(len(old), -1)]).T
    new = added.reshape(len(added), -1).T
    apart = new - explained @ np.linalg.lstsq(explained, new, rcond=None)[0]
    return np.asarray(np.linalg.inv(np.linalg.cholesky(apart.T @ apart)))


def best_shown(influence: FloatArray, expected: FloatArray, scale: FloatArray) -> FloatArray:
    """True records a cell for each record, (B,), for E (B, d, R) and λ (B, R)."""
    information = (influence * expected[:, None]) @ np.swapaxes(influence, 1, 2)
    return np.asarray(np.linalg.eigvalsh(scale @ information @ scale.T)[:, -1])
