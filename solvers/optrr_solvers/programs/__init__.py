"""Linear programs over change sets: POR's own, and the reduced program (theory §3.1, §3.3).

``lp`` builds POR's program (A, b, A_eq, b_eq) and solves it as published. ``reduced`` is the smaller program with the same
optimum, on all change sets or on counts of alike attributes, ``capped`` the one with caps on conditional ε; ``lattice`` holds
the rows that they share, ``sifting`` solves the large ones, and ``backend`` alone talks to HiGHS.
"""
