"""The change automaton: every law as one table-driven sampler whose probabilities are integers (design §7).

A law offers a :class:`~optrr_solvers.automaton.diagram.Diagram`; ``build`` rounds it to the integers of ``layers``;
:class:`Automaton` is what is drawn from, with the truth about it, which ``bounds`` computes. ``draw`` walks the layers.
"""
