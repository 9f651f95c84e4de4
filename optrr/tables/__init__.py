"""Numbers of the true table with honest intervals, from randomized records.

``estimation`` has tables and statistics of them, ``measures`` what is said of one attribute beside another,
``weighting`` survey weights, ``bayes`` posteriors of small samples, and ``synthesis`` records drawn from estimates.
"""
