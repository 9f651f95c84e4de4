"""What other software deploys with: distortion matrices, probabilities of change sets, POR's linear program.

A matrix is written row by row, so that memory does not grow with it. Files are complete or not there.
"""

import csv
import io
import itertools
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.core.domain.domain import Domain
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.kernel import EffectKernel
from optrr.core.mechanisms.mechanism import Mechanism
from optrr.core.records.atomic import whole_file
from optrr_solvers.arrays import FloatArray
from optrr_solvers.laws.base import MAX_MARGINAL
from optrr_solvers.problem import Problem
from optrr_solvers.programs.lp import event_bits, event_program, event_sizes

# Cells of the product whose matrix is written: at most 2.7e8 entries, 2 GB as doubles.
MOST_CELLS = 1 << 14
# A date within the years that zip files know, always the same.
_DATE = (1980, 1, 1, 0, 0, 0)


def save_matrix(mechanism: Mechanism, names: str | Iterable[str], path: str | Path) -> dict[str, int]:
    """Write P[u, v] = Pr(output v | input u) over the named attributes' product, with labels, row by row.

    Cells are numbered with the last attribute fastest. ``.csv``: one line for each input, first its labels under the
    attributes' names, then one column for each output, headed by its labels as a JSON list. ``.npz``: ``matrix``, shape
    (N, N), ``names``, and ``categories_0``, ``categories_1``, … in their order. ``.json``: ``names``, ``cells``, ``matrix``.
    Missing is ``null`` in JSON and empty in CSV and npz. Returns how many rows and columns were written.

    Raises InvalidInput for unknown names, more than 16,384 cells, another suffix, or labels that would read alike in CSV or
    npz.
    """
    domain = mechanism.domain.subset(names)
    cells = int(np.prod([a.size for a in domain], dtype=object))
    if cells > MOST_CELLS:
        raise InvalidInput(f"the matrix of {', '.join(domain.names)} has {cells} rows; up to {MOST_CELLS}: name fewer")
    writer = _by_suffix(path, {".csv": _matrix_csv, ".npz": _matrix_npz, ".json": _matrix_json})
    _require_distinct(path, domain, [])
    rows = _rows(mechanism.kernel(domain.names))
    with whole_file(Path(path)) as partial:
        writer(partial, domain, rows)
    return {"rows": cells, "columns": cells}


def _by_suffix(path: str | Path, writers: dict[str, Callable[..., None]]) -> Callable[..., None]:
    suffix = Path(path).suffix.lower()
    if suffix not in writers:
        raise InvalidInput(f"{path} ends in {suffix or 'nothing'}; give a file that ends in {', '.join(writers)}")
    return writers[suffix]


def _require_distinct(path: str | Path, domain: Domain, columns: Iterable[str]) -> None:
    """Refuse what would read alike: in CSV two columns, in either "" and missing, in npz text that ends in NUL characters.

    Only JSON keeps these apart.
    """
    suffix, alike = Path(path).suffix.lower(), ""
    if suffix == ".csv" and (twice := set(domain.names) & set(columns)):
        alike = f"the column {min(twice)!r} would be there twice"
    for attribute in domain:
        texts = attribute.texts
        if suffix in (".csv", ".npz") and "" in texts and None in texts:
            alike = f"the empty category of {attribute.name!r} and missing would read alike"
        if suffix == ".npz" and any((x or "").endswith("\0") for x in (attribute.name, *texts)):
            alike = f"{attribute.name!r} has a name or category that ends in a NUL character, which numpy cuts off"
    if alike:
        raise InvalidInput(f"cannot write {path}: {alike}; write to a .json file")


def _rows(kernel: EffectKernel) -> Iterator[FloatArray]:
    """Row after row: which attributes differ between u and every v chooses the entry."""
    one = kernel.cell_probabilities
    for u in itertools.product(*(range(r) for r in kernel.sizes)):
        changed = np.ix_(*((np.arange(r) != k).astype(np.intp) for r, k in zip(kernel.sizes, u, strict=True)))
        yield one[changed].ravel()


def _cells(domain: Domain) -> Iterator[tuple[str | None, ...]]:
    return itertools.product(*(a.texts for a in domain))


def _matrix_csv(path: Path, domain: Domain, rows: Iterator[FloatArray]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*domain.names, *(json.dumps(c, ensure_ascii=False) for c in _cells(domain))])
        for cell, row in zip(_cells(domain), rows, strict=True):
            out.writerow([*("" if x is None else x for x in cell), *map(repr, row.tolist())])


def _matrix_json(path: Path, domain: Domain, rows: Iterator[FloatArray]) -> None:
    with path.open("w", encoding="utf-8") as file:
        head = {"names": domain.names, "cells": list(_cells(domain))}
        file.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "matrix": [')
        for k, row in enumerate(rows):
            file.write((",\n" if k else "\n") + json.dumps(row.tolist()))
        file.write("]}\n")


def _matrix_npz(path: Path, domain: Domain, rows: Iterator[FloatArray]) -> None:
    cells = int(np.prod(domain.sizes))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        labels = {"names": np.array(domain.names)}
        labels |= {f"categories_{i}": np.array(["" if x is None else x for x in a.texts]) for i, a in enumerate(domain)}
        for name, values in labels.items():
            _add(archive, name, values)
        with archive.open(zipfile.ZipInfo("matrix.npy", _DATE), "w", force_zip64=True) as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (cells, cells)}
            np.lib.format.write_array_header_1_0(file, header)
            for row in rows:
                file.write(row.astype("<f8").tobytes())


def _add(archive: zipfile.ZipFile, name: str, values: NDArray[Any]) -> None:
    data = io.BytesIO()
    np.lib.format.write_array(data, values, allow_pickle=False)
    archive.writestr(zipfile.ZipInfo(f"{name}.npy", _DATE), data.getvalue(), zipfile.ZIP_DEFLATED)


def _arrays(file: Path, arrays: dict[str, Any]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            _add(archive, name, np.asarray(values))


def save_events(mechanism: Mechanism, path: str | Path, names: str | Iterable[str] | None = None) -> dict[str, int]:
    """Write the probability of each change set of the named attributes (all by default), 2^k lines, first slowest.

    Columns: for each attribute 1 where it changes; ``probability`` ν_S; ``outputs``, how many outputs share the change
    set; ``each``, the probability of one particular of them. ``.csv``, ``.npz`` (``changed`` of shape (2^k, k), ``names``,
    and the columns) or ``.json`` (lists of the same names). Returns how many were written.

    Raises InvalidInput for unknown names, more than 20 attributes, another suffix, or names that would read alike in CSV or
    npz.
    """
    chosen = mechanism.domain.indices(mechanism.domain.names if names is None else names)
    if len(chosen) > MAX_MARGINAL:
        raise InvalidInput(f"{len(chosen)} attributes have 2^{len(chosen)} change sets; name up to {MAX_MARGINAL}")
    writer = _by_suffix(path, {".csv": _events_csv, ".npz": _arrays, ".json": _events_json})
    _require_distinct(
        path, mechanism.domain.subset([mechanism.domain.names[i] for i in chosen]), ("probability", "outputs", "each")
    )
    probability = mechanism.law.marginal(chosen).ravel()
    outputs = event_sizes(mechanism.domain.sizes[list(chosen)])
    columns: dict[str, Any] = {
        # only as an array of numpy's would they lose NUL characters at their ends
        "names": [mechanism.domain.names[i] for i in chosen],
        "changed": event_bits(len(chosen)).astype(np.uint8),
        "probability": probability,
        "outputs": outputs,
        "each": probability / outputs,
    }
    with whole_file(Path(path)) as partial:
        writer(partial, columns)
    return {"change sets": probability.size}


def _events_csv(path: Path, columns: dict[str, Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*columns["names"], "probability", "outputs", "each"])
        numbers = zip(*(columns[k].tolist() for k in ("probability", "outputs", "each")), strict=True)
        for bits, row in zip(columns["changed"].tolist(), numbers, strict=True):
            out.writerow([*bits, *map(repr, row)])


def _events_json(path: Path, columns: dict[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(columns, file, ensure_ascii=False, default=np.ndarray.tolist)
        file.write("\n")


def save_program(problem: Problem, names: Iterable[str], path: str | Path) -> dict[str, int]:
    """Write POR's linear program, minimise c q = q_∅ subject to A q ≤ b and A_eq q = b_eq, as an ``.npz`` file.

    ``A`` and ``A_eq`` are sparse: ``A_data``, ``A_indices``, ``A_indptr``, ``A_shape`` make a ``scipy.sparse.csr_array``, and
    likewise for ``A_eq``. ``changed``, shape (2^m, m), says which attributes change in the event of each column (the
    last event, all change, has none: q = 1), ``outputs`` n_S, and ``names`` which attribute is which. The numbers are
    those of :func:`optrr_solvers.event_program`. Returns the numbers of variables and rows.

    Raises InvalidInput for another suffix; InvalidProblem for pairs or caps, MethodTooLarge above 20 attributes.
    """
    writer = _by_suffix(path, {".npz": _arrays})
    program = event_program(problem)
    arrays: dict[str, NDArray[Any]] = {
        "names": np.array(list(names)),
        "changed": event_bits(problem.m).astype(np.uint8),
        "outputs": event_sizes(problem.sizes),
        "c": np.eye(1, program.A.shape[1])[0],
        "b": program.b,
        "b_eq": program.b_eq,
    }
    for name, matrix in (("A", program.A), ("A_eq", program.A_eq)):
        arrays |= {
            f"{name}_{part}": np.asarray(getattr(matrix, part)) for part in ("data", "indices", "indptr", "shape")
        }
    with whole_file(Path(path)) as partial:
        writer(partial, arrays)
    return {"variables": program.A.shape[1], "inequalities": program.A.shape[0], "equalities": program.A_eq.shape[0]}
