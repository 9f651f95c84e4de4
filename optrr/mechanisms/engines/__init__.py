"""Engines beyond one machine; each shares the record-batch kernel of :mod:`optrr.mechanisms.perturb`."""
