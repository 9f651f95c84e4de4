"""What only the papers' comparisons need: ``graphs`` of ties between people, and ``secure_sum`` of counts."""
