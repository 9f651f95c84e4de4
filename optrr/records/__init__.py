"""Records from anywhere: data frames, files, databases and Spark; their counts; and whole files written or none.

Files are read in ``reading/``, a module for each kind, and written by ``writing``, ``shuffling`` and ``whole_files``.
``frames`` and ``encoded`` turn whole data sets into codes, ``counts`` counts them, and ``same_people`` asks whether
two releases are of the same people. What values mean is in :mod:`optrr.domain`.
"""
