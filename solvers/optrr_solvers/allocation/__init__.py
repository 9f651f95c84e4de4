"""Allocation: minimize the error of a workload at a fixed total ε, the reverse of design (theory §3.7).

``problem`` has the problem and its result, ``workload`` the error. ``best`` chooses among the methods for noise
distributions on change sets: ``lattice`` and ``program`` where the lattice of counts is small, ``search`` with
``profiles`` for any number of attributes, ``split`` for the baselines, which randomize each block independently.
``bound`` is the lower bound for all noise distributions. ``mixture`` and ``required`` are randomized mixtures of local
queries about a few attributes, ``any_mechanism`` the lower bound for any ε-LDP mechanism.
"""
