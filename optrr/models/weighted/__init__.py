"""Tests with survey weights, strata and clusters: ``testing`` is the front door, ``association`` Rao and Scott's correction."""
