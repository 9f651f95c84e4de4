"""Records from anywhere: data frames, files, databases and Spark; their counts; and whole files written or none.

Files are read in ``reading/``, a module for each kind, and written by ``writing``, ``shuffling`` and ``whole_files``.
``frames`` turns whole data sets into codes and back, ``counts`` counts them, and ``origins`` asks them where they come from.
``reports`` binds randomized records to their design and says what is in doubt about them. What values mean is in
:mod:`optrr.domain`.
"""
