"""What other software deploys with: distortion matrices, probabilities of change sets, POR's linear program.

A file is ``.csv``, ``.npz`` or ``.json``, and complete or not there. Cells and change sets are numbered with the last attribute
fastest. Missing is ``null`` in JSON and empty elsewhere.
"""

import csv
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optrr.core.design import Design
from optrr.core.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import Mechanism
from optrr.core.records import formula_doubts, whole_file
from optrr.devices.export import Exported, keep_design
from optrr_solvers.laws.base import MAX_MARGINAL
from optrr_solvers.problem import Problem
from optrr_solvers.programs.lp import event_bits, event_program, event_sizes

_SUFFIXES = (".csv", ".npz", ".json")


def tabulate(design: Design, path: str | Path, form: str, attributes: Iterable[str] | None) -> Exported:
    """Write a design's mechanism as a matrix, as events or as POR's program.

    See :func:`optrr.export`.
    """
    keep_design(Path(path))
    names = design.domain.names if attributes is None else attributes
    if form == "matrix":
        numbers = save_matrix(design.mechanism, names, path)
    elif form == "events":
        numbers = save_events(design.mechanism, path, names)
    elif form == "program":
        numbers = save_program(design.solution.problem, design.domain.names, path)
    else:
        raise InvalidInput(f"``form`` {form!r}: not a form; give deployment, matrix, events or program")
    return Exported(str(path), numbers, design, tuple(formula_doubts(Path(path), design.domain)))


def save_matrix(mechanism: Mechanism, names: str | Iterable[str], path: str | Path) -> dict[str, int]:
    """Write P[u, v] = Pr(output v | input u) with labels.

    Over the product of the named attributes.

    ``.csv``: one line for each input, first its labels under the attributes' names, then one column for each output, headed by
    its labels as a JSON list. ``.npz``: ``matrix``, shape (N, N), ``names``, and ``categories_0``, ``categories_1``, … in their
    order. ``.json``: ``names``, ``cells``, ``matrix``. Returns how many rows and columns were written.

    Raises InvalidInput for unknown names, more than 4,096 cells, another suffix, or labels that would read alike.
    """
    domain = mechanism.domain.subset(names)
    _check(path, domain)
    matrix, cells = mechanism.matrix(domain.names), list(itertools.product(*(a.texts for a in domain)))
    rows = (([*cell, *row]) for cell, row in zip(cells, matrix.tolist(), strict=True))
    head = [*domain.names, *(json.dumps(cell, ensure_ascii=False) for cell in cells)]
    arrays = {f"categories_{i}": _labels(a.texts) for i, a in enumerate(domain)}
    arrays |= {"names": _labels(domain.names), "matrix": matrix}
    _write(path, {"names": domain.names, "cells": cells, "matrix": matrix}, arrays, [head, *rows])
    return {"rows": len(cells), "columns": len(cells)}


def save_events(mechanism: Mechanism, path: str | Path, names: str | Iterable[str] | None = None) -> dict[str, int]:
    """Write the probability of each flip pattern, 2^k lines.

    Of the named attributes, all by default.

    Columns: for each attribute 1 where it changes; ``probability`` ν_S; ``outputs``, how many outputs share the change
    set; ``each``, the probability of one particular of them. ``.npz`` and ``.json`` have ``names``, ``changed``, shape
    (2^k, k), and the columns. Returns how many were written.

    Raises InvalidInput for unknown names, more than 20 attributes, another suffix, or an attribute named as a column.
    """
    chosen = mechanism.domain.indices(mechanism.domain.names if names is None else names)
    if len(chosen) > MAX_MARGINAL:
        raise InvalidInput(f"{len(chosen)} attributes have 2^{len(chosen)} change sets; name up to {MAX_MARGINAL}")
    domain = mechanism.domain.subset([mechanism.domain.names[i] for i in chosen])
    probability, outputs = mechanism.law.marginal(chosen).ravel(), event_sizes(domain.sizes)
    columns = {"probability": probability, "outputs": outputs, "each": probability / outputs}
    _check(path, domain, tuple(columns))
    changed = event_bits(len(chosen)).astype(np.uint8)
    numbers = zip(*(values.tolist() for values in columns.values()), strict=True)
    rows = ([*bits, *row] for bits, row in zip(changed.tolist(), numbers, strict=True))
    held = {"names": domain.names, "changed": changed, **columns}
    _write(path, held, held | {"names": _labels(domain.names)}, [[*domain.names, *columns], *rows])
    return {"change_sets": probability.size}


def save_program(problem: Problem, names: Iterable[str], path: str | Path) -> dict[str, int]:
    """Write POR's linear program as an ``.npz`` file.

    Minimize c q = q_∅ subject to A q ≤ b and A_eq q = b_eq.

    ``A`` and ``A_eq`` are sparse: ``A_data``, ``A_indices``, ``A_indptr``, ``A_shape`` make a ``scipy.sparse.csr_array``, and
    the same holds for ``A_eq``. ``changed``, shape (2^m, m), says which attributes change in the event of each column (the
    last event, all change, has none: q = 1), ``outputs`` n_S, and ``names`` which attribute is which. The numbers are those of
    :func:`optrr_solvers.event_program`. Returns the numbers of variables and rows.

    Raises InvalidInput for another suffix; InvalidProblem for pairs or caps, MethodTooLarge above 20 attributes.
    """
    if Path(path).suffix.lower() != ".npz":
        raise InvalidInput(f"{path}: a program is written as .npz; name such a file")
    program = event_program(problem)
    arrays: dict[str, Any] = {"names": _labels(names), "changed": event_bits(problem.m).astype(np.uint8)}
    arrays |= {"outputs": event_sizes(problem.sizes), "c": np.eye(1, program.A.shape[1])[0]}
    arrays |= {"b": program.b, "b_eq": program.b_eq}
    for name, matrix in (("A", program.A), ("A_eq", program.A_eq)):
        parts = ("data", "indices", "indptr", "shape")
        arrays |= {f"{name}_{part}": np.asarray(getattr(matrix, part)) for part in parts}
    _write(path, {}, arrays, [])
    return {"variables": program.A.shape[1], "inequalities": program.A.shape[0], "equalities": program.A_eq.shape[0]}


def _labels(texts: Iterable[str | None]) -> Any:
    return np.array(["" if text is None else text for text in texts])


def _check(path: str | Path, domain: Domain, columns: Sequence[str] = ()) -> None:
    """Refuse other suffixes, and an empty category beside a missing value.

    Only JSON distinguishes the latter.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidInput(f"{path}: ends in {suffix or 'nothing'}; give a file that ends in {', '.join(_SUFFIXES)}")
    if suffix == ".csv" and (twice := set(domain.names) & set(columns)):
        raise InvalidInput(f"cannot write {path}: it would have the column {min(twice)!r} twice; write to a .json file")
    for attribute in domain:
        if suffix != ".json" and {"", None} <= set(attribute.texts):
            why = f"the empty category of {attribute.name!r} could not be distinguished from a missing value"
            raise InvalidInput(f"cannot write {path}: {why}; write to a .json file")


def _write(path: str | Path, held: dict[str, Any], arrays: dict[str, Any], rows: Iterable[Sequence[Any]]) -> None:
    """Write one of a JSON object, arrays, and rows, by the file's suffix."""
    suffix = Path(path).suffix.lower()
    with whole_file(Path(path)) as partial:
        if suffix == ".npz":
            with partial.open("wb") as file:
                np.savez_compressed(file, **arrays)
            return
        with partial.open("w", newline="", encoding="utf-8") as text:
            if suffix == ".csv":
                csv.writer(text, lineterminator="\n").writerows(rows)
            else:
                json.dump(held, text, ensure_ascii=False, default=np.ndarray.tolist)
                text.write("\n")
