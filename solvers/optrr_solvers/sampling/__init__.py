"""The change automaton: every law as one table-driven sampler whose probabilities are integers (theory §7).

A law offers a :class:`~optrr_solvers.sampling.diagram.Diagram`; ``build`` rounds it to integers in :class:`Layers`;
:class:`Automaton` is what is drawn from, and settles the label, the ε that is stated: ``bounds`` computes the truth
of what is drawn, and the label is never below it. ``draw`` walks the layers.
"""
