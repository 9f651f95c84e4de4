"""Specifications in, certified designs out; design files and their verification.

``specification`` is what is asked for, ``solving`` asks the solvers, ``design`` is the answer and ``design_file`` how
it is kept and checked. ``checks`` limits what the checks of a file may take.
"""
