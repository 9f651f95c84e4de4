"""Linear programs over change sets: POR's own, and the reduced program (design §3.1, §3.3).

``events`` builds POR's program (A, b, A_eq, b_eq), ``lp`` solves it as published. ``reduced`` is the smaller program
with the same optimum, ``classes`` the one on counts of alike attributes, ``capped`` the one with caps on conditional
ε; ``lattice`` holds the rows that they share, ``sifting`` solves the large ones, and ``backend`` alone talks to
HiGHS.
"""
