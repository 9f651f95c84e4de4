"""Records from anywhere: data frames, files, databases and Spark; their counts; and whole files written or none.

Files are read in ``reading/``, a module for each kind, and written by ``writing``, ``shuffling`` and ``whole_files``.
``frames`` and ``encoded`` turn whole data sets into codes and ``counts`` counts them. ``reports`` binds randomized records to
their design and says what is in doubt about them. What values mean is in :mod:`optrr.domain`.
"""
