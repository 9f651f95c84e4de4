"""The reverse of design: the total ε is fixed, the error of a workload is to be small (theory §3.7).

``problem`` says what is asked and what is answered, ``workload`` what an error is. ``best`` chooses among the methods for laws
of change sets: ``lattice`` and ``program`` where the lattice of counts is small, ``search`` with ``profiles`` for any number of
attributes, ``split`` for the baselines, which answer every block on its own. ``bound`` is what no law can go below. ``mixture``
and ``required`` are random questions about a few attributes, ``any_mechanism`` what no mechanism at all can go below.
"""
