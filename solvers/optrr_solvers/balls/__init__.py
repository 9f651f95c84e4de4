"""The certified optimum for many different attributes, by mixtures of weighted Hamming balls (theory §3.3–3.5).

``solve`` is the whole way: ``newton`` finds weights on the smoothed dual of ``moments``, ``rounding`` makes a law and a
certificate of them. The lower bound itself is computed from these in ``certificates/``. With pairs kept ``pairs`` does the same
by the balls of ``pair_balls`` and the bound of ``pair_bound``.
"""
