"""Synthetic records: drawn from a model of what randomized records say of pairs, and of what else is to be kept.

``laws`` reads what is kept and makes the law that records are drawn from, ``drawing`` has the public function and compares, and
``combined`` makes intervals from several sets.
"""
