"""Records: domains, columns, data frames, files, counts of them, and what they say of themselves.

``domain`` declares attributes and their categories, ``bins`` those of numbers and dates. ``columns`` turns values
into codes and back, and refuses what is not declared; ``frames`` and ``encoded`` do so for whole data sets,
``counts`` counts them, ``scores`` are the numbers that categories count by. Files are read in ``reading/``, a module
for each kind, and written whole or not at all by ``writing`` and ``whole_files``; ``small_files`` bounds what is read
whole. ``provenance`` is what randomized records say of themselves, ``account`` what their people have spent over
releases (one protocol's steps are in :mod:`optrr.spent`), ``binding`` the refusal of another design's.
"""
