"""Records: domains, columns, data frames, files, counts of them, and what they say of themselves.

``domain`` declares attributes and their categories, ``bins`` those of numbers and dates. ``columns`` turns values
into codes and back, and refuses what is not declared; ``frames`` and ``encoded`` do so for whole data sets,
``counts`` counts them. Files are read in ``reading/``, a module for each kind, and written whole or not at all by
``writing`` and ``whole_files``; ``small_files`` bounds what is read whole. ``provenance`` is what randomized records
say of themselves, ``account`` what their people have spent, ``binding`` the refusal of another design's.
"""
