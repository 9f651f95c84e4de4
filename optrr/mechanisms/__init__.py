"""Mechanisms: what randomizes a record, and what estimation needs to know of it.

``mechanism`` randomizes codes by a law's sampler, ``perturb`` data frames and files, ``release`` writes what they
then say of themselves. ``randomizer`` is the interface that every mechanism has, those by general matrices included.
``labelled`` gives the ε that a mechanism states; how an ε is rounded for people is in :mod:`optrr.show.text`.
"""
