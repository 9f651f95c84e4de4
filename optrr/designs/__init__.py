"""Specifications in, certified designs out; design files and their verification.

``specification`` is what is asked for, ``solving`` asks the solvers, ``design`` is the answer and ``design_file`` how
it is kept. ``verify`` recomputes what a file claims: the checks are in ``checks``, the limits on their work in
``work`` and ``apart``.
"""
