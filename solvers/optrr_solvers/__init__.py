"""Solvers: arrays in, laws and bounds out. Knows nothing of records; imports nothing of the optrr package."""
