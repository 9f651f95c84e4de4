"""Mechanisms: what randomizes a record, and what estimation needs to know of it.

``mechanism`` has the interface and laws of change sets, ``matrix`` general matrices, ``kernel`` what undoes both; ``perturb``
and ``spark`` randomize files, streams and Spark frames.
"""
