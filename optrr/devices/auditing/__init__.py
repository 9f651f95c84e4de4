"""A client tested from outside against its label: what it does to planted records, by exact tests at one stated level.

``audit`` asks a client (``clients``, ``messages``) the ``questions`` and makes its checks of the ``answers``:
``bounds`` for how large the true ε is at least, ``conformity`` with the ``label``, ``independence`` of answers;
``exact_tests`` are what they rest on.
"""
