"""Other ways of asking than one whole record once: ``protocols``, ``longitudinal`` rounds, and what the papers compare with.

``baselines`` are the field's protocols, ``graphs`` ties between people, ``secure_sum`` counts that nobody sees in parts.
"""
