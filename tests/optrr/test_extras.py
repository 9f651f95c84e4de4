"""Where a library of an extra is missing, one line names what needs it, the library and the extra that brings it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from optrr import InvalidInput, design
from optrr.designs.clustering import spectral_clusters
from optrr.genomics.genotypes import required
from optrr.models.regression.formulas import Formula
from optrr.show.charts import new_figure

USES: dict[str, tuple[str, Callable[[], Any], str]] = {
    "figures": (
        "matplotlib.figure",
        new_figure,
        "figures need matplotlib, which is not .*'optrr[reports]'",
    ),
    "formulas": ("formulaic", lambda: Formula.of("y ~ x"), "formulas need formulaic, .*'optrr[regression]'"),
    "clusters": (
        "sklearn.cluster",
        lambda: spectral_clusters(np.ones((4, 4))),
        "scikit-learn, .*'optrr[cluster]', or use",
    ),
    "genotypes": (
        "bed_reader",
        lambda: required("bed_reader"),
        "reading PLINK files needs bed-reader, .*'optrr[genomics]'",
    ),
}


@pytest.mark.parametrize("use", USES)
def test_what_is_missing_is_said_with_its_extra(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, call, said = USES[use]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInput, match=said.replace("[", r"\[").replace("]", r"\]")) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_design_needs_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, *_ in USES.values():
        monkeypatch.setitem(sys.modules, module, None)
    assert design({"a": 2, "b": 3}, 1.0).epsilon > 0
