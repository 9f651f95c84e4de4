"""The change automaton: a table-driven sampler with integer probabilities for each noise distribution (theory §7).

A noise distribution has a :class:`~optrr_solvers.sampling.diagram.Diagram`; ``build`` rounds it to integers in
:class:`Layers`. :class:`Automaton` samples from these and determines the stated ε, which is never below the true ε of
the integers that ``bounds`` computes. ``draw`` walks the layers.
"""
