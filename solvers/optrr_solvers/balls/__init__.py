"""The certified optimum for many different attributes, by mixtures of weighted Hamming balls (design §3.3–3.5).

``solve`` is the whole way: ``newton`` finds weights on the smoothed dual of ``moments`` (``heavy`` attributes apart),
``rounding`` makes a law of them, and ``certificate`` chooses the whole numbers near them. The lower bound itself is
computed from these in ``certificates/``. With pairs kept the same is done by the modules whose names begin with
``pair``; ``coarse`` makes balls whose automaton is small.
"""
