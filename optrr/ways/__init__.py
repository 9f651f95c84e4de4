"""Other ways of asking than one whole record once: ``protocols``, ``longitudinal`` rounds, and what the papers compare with.

``graphs`` are about ties between people, ``secure_sum`` about counts that nobody sees in parts.
"""
