"""The field's multi-attribute protocols, to compare designs with: SPL, SMP, RS+FD, RS+RFD with GRR or OUE."""

from optrr.studies.baselines.making import best_oracle, fake_data, sample, split
from optrr.studies.baselines.protocols import FieldProtocol, FieldReports, collect, pair_variance
from optrr.ways.protocols.oracles import support_probabilities

__all__ = [
    "FieldProtocol",
    "FieldReports",
    "best_oracle",
    "collect",
    "fake_data",
    "pair_variance",
    "sample",
    "split",
    "support_probabilities",
]
