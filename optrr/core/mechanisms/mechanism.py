"""Mechanisms that randomize records: their interface, and the mechanism of a law of change sets.

The only way from randomized records to numbers is mechanism → counts → kernel → estimate or test. So a mechanism
defines the records that it takes (``domain``), its privacy loss (``epsilon`` and its kin), how it randomizes
(``randomize_in_place``) and how estimates undo that (``kernel``); everything else follows from these.

Of a law of change sets: for each record it draws the change set S, and every attribute in S moves to one of its other
categories, each as likely: add a uniform 1..r_i−1 modulo r_i to its code (theory §2). Only the flipped cells are edited.

A release has a note on how it was drawn, and is not randomized again by accident (:mod:`optrr.core.provenance.provenance`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optrr.core.display.result import Result
from optrr.core.display.text import amount, epsilon_text
from optrr.core.domain.domain import Domain, checked_codes, listed
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms.kernel import EffectKernel, Kernel
from optrr.core.provenance.accounting import Release, Releasing, check_limit
from optrr.core.provenance.provenance import Provenance, digest_of
from optrr.core.records.reading.registry import open_source, origins_of, refuse_randomized
from optrr.core.records.reading.source import Source
from optrr.core.records.writing import IN_ORDER, formula_doubts, shuffled
from optrr_solvers.arrays import FloatArray, IntArray, in_a_row
from optrr_solvers.laws import Law
from optrr_solvers.laws.base import effect_transform, record_of
from optrr_solvers.randomness import BitSource, RandomState, SystemSource, as_source, words_below
from optrr_solvers.sampling.build import LABEL_TOLERANCE


def drawn_epsilon(law: Law, stated: float) -> float:
    """Return a total ε that covers the drawn distribution.

    ``stated`` if it does within 1e-9, otherwise that of the drawn distribution, rounded up.

    A ball whose radius is soft, or whose weights do not reach it, draws a smaller range of densities than its mixture
    names. Without an automaton the result is ``stated``.
    """
    if law.automaton is None:
        return stated
    drawn = law.automaton.truth.epsilon
    return stated if drawn <= stated <= drawn + LABEL_TOLERANCE else drawn


class Labelled:
    """An object with a noise distribution and therefore stated ε.

    See :class:`optrr_solvers.laws.base.Labels`; ε is rounded up, accuracies down.
    """

    if TYPE_CHECKING:
        # one subclass has a field of this name and another a property, so it is declared for type checkers only
        @property
        def law(self) -> Law:
            """Probability of each change set."""
            ...

    @cached_property
    def epsilon(self) -> float:
        """Total ε in nats, rounded up: local differential privacy of the whole record."""
        return drawn_epsilon(self.law, self.law.labels.epsilon)

    @cached_property
    def attribute_epsilons(self) -> FloatArray:
        """Attribute ε in nats, shape (m,), rounded down.

        ε_i of the randomized response that is as accurate on attribute i alone.
        """
        return self.law.labels.attribute

    @cached_property
    def conditional_epsilons(self) -> FloatArray:
        """Conditional ε in nats, shape (m,), rounded up.

        The privacy loss of attribute i to an attacker who knows all other attributes.
        """
        return np.minimum(self.law.labels.conditional, self.epsilon)


@dataclass(frozen=True, repr=False)
class FileRelease(Result):
    """A written file of randomized records.

    The number of records, their provenance, and the columns left out.
    """

    output: str
    records: int
    provenance: Provenance
    warnings: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @staticmethod
    def written(  # noqa: PLR0913 (what is said of a release)
        target: Path,
        records: int,
        provenance: Provenance,
        domain: Domain,
        *,
        notes: Iterable[str] = (),
        dropped: Sequence[str] = (),
    ) -> "FileRelease":
        """Build a release with the warnings of every file of records and ``notes``."""
        public = [provenance.public.warning()] if provenance.public else []
        lines = (*provenance.not_private(str(target)), *notes, *formula_doubts(target, domain), *public)
        return FileRelease(str(target), records, provenance, lines, tuple(dropped))

    def headline(self) -> str:
        """Summarize the records, their ε and their location."""
        dropped = (
            f"; left out, because the design does not declare them: {listed(self.dropped)}" if self.dropped else ""
        )
        randomized = f"{amount(self.records, 'record')} randomized at {self.provenance.phrase()}"
        return f"{randomized}, written to {self.output}{dropped}"

    def summary(self) -> dict[str, Any]:
        """Return the JSON object."""
        dropped = {"dropped": list(self.dropped)} if self.dropped else {}
        return {"records": self.records, **self.provenance.summary(), "output": self.output, **dropped}


def notes_of(files: Iterable[str | Path]) -> list[Provenance]:
    """Read the provenance of files of randomized records, in order.

    Raises InvalidInput for a file without provenance.
    """
    out: list[Provenance] = []
    for path in files:
        for origin in origins_of(path):
            if origin.provenance is None:
                open_source(path)  # whose error says that there is no file
                raise InvalidInput(
                    f"{origin.what} has no provenance metadata, so its epsilon is not known; give the file as optrr wrote it"
                )
            out.append(origin.provenance)
    return out


def replaced_release(target: Path, same: str = "") -> list[str]:
    """Warn if a target already holds another release than the id ``same``.

    Others may have a copy of it.
    """
    known = [o.provenance for o in origins_of(target) if o.provenance is not None] if target.is_file() else []
    return [
        f"{target} held a release of epsilon {epsilon_text(each.epsilon)}, which this one replaces; a recipient who "
        "kept a copy has both, and the epsilons add up: account for both"
        for each in known
        if not same or {r.id for r in each.releases} != {same}
    ]


@dataclass(frozen=True)
class ReleaseOptions:
    """How a file of records is released.

    Parameters
    ----------
    earlier
        other releases of the same respondents, which this one follows; the note lists them.
    limit
        maximum of the total ε of all of them, in nats; None for no limit.
    public
        columns that are passed on unchanged.
    drop_undeclared
        leave out every column that is neither an attribute nor public.
    keep_order
        leave the records in the order of the true ones, which reveals information on these, instead of shuffling them.
    """

    earlier: Sequence[Release] = ()
    limit: float | None = None
    public: PublicColumns = NONE
    drop_undeclared: bool = False
    keep_order: bool = False

    @staticmethod
    def following(earlier: Iterable[Release], after: Iterable[str | Path], **options: Any) -> "ReleaseOptions":
        """Return options of a release that follows earlier ones and ``after``."""
        return ReleaseOptions(
            (*earlier, *(release for note in notes_of(after) for release in note.releases)), **options
        )

    def in_order(
        self, batches: Iterable[pa.RecordBatch], bits: BitSource, folder: Path | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over batches of randomized records in release order.

        See :mod:`optrr.core.records.writing`.
        """
        return iter(batches) if self.keep_order else shuffled(batches, bits, folder)

    def warnings(self, what: str) -> tuple[str, ...]:
        """Warn if the records of this release keep the order of the true ones.

        ``what`` names the release.
        """
        return (f"{what} {IN_ORDER}",) if self.keep_order else ()

    def note(self, release: Release) -> Provenance:
        """Build the provenance of a release; raise InvalidInput above the limit."""
        known = Provenance(release, tuple(self.earlier), self.public)
        check_limit(known.releases, self.limit)
        return known

    def provenance(
        self, mechanism: Releasing, source: BitSource, records: Any, opened: Source | None = None
    ) -> Provenance:
        """Build the provenance of these records, randomized now.

        ``opened`` are the same records, if already open.

        Raises InvalidInput for records that are randomized already, and above the limit.
        """
        refuse_randomized(records, opened)
        return self.note(Release.drawn(mechanism, is_seeded(source)))


def is_seeded(source: BitSource) -> bool:
    """Check whether draws are reproducible.

    Only the operating system's random bits are not.
    """
    # another class of this kind may return anything
    return type(source) is not SystemSource


Frame = TypeVar("Frame")


class Randomizer(ABC):
    """A mechanism over the records of ``domain``.

    There are two kinds: :class:`~optrr.core.mechanisms.mechanism.Mechanism`, a law of change sets, and
    :class:`~optrr.core.mechanisms.matrix.MatrixMechanism`, a distortion matrix for each attribute.
    """

    domain: Domain
    # Kind of mechanism, as the notes of releases state it.
    mechanism_name: ClassVar[str] = "randomized record"

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """Total ε in nats, rounded up: local differential privacy of the whole record."""

    @property
    @abstractmethod
    def attribute_epsilons(self) -> FloatArray:
        """Attribute ε in nats, shape (m,).

        ε_i of the randomized response that is as accurate on attribute i alone.
        """

    @property
    @abstractmethod
    def conditional_epsilons(self) -> FloatArray:
        """Conditional ε in nats, shape (m,), rounded up.

        The privacy loss of attribute i to an attacker who knows all other attributes.
        """

    @property
    @abstractmethod
    def digest(self) -> str:
        """Identity in files of its records.

        The digest of its domain and of the probabilities that are drawn.

        Categories count by their texts, so that a design read back from its file has the digest it was saved with.
        """

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Positions of attributes that are randomized together.

        Empty if a whole record is.
        """
        return ()

    @abstractmethod
    def kernel(self, names: str | Iterable[str]) -> Kernel:
        """Build the kernel on the named attributes, axes in this order.

        Its size and the cost of its operations depend on these attributes only. Making it sums the noise distribution over the
        others (:meth:`optrr_solvers.laws.Law.marginal`), anew at each call.

        A set that cannot be estimated has a kernel all the same: its own solves refuse.

        Raises InvalidInput for unknown or repeated names.
        """

    @abstractmethod
    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes in place, shape (n, m)."""

    def matrix(self, names: str | Iterable[str] | None = None) -> FloatArray:
        """Build the distortion matrix P[u, v] = Pr(output v | input u).

        Over the product of the named attributes, row-stochastic.

        Cells are numbered in row-major order (last attribute fastest). For looking at: estimation never needs it.

        Raises InvalidInput above 4096 cells (128 MB).
        """
        return self.kernel(self.domain.names if names is None else names).matrix()

    def randomize(self, data: Frame, random_state: RandomState = None) -> Frame:
        """Randomize records; return the same kind of frame.

        pandas, polars, pyarrow Table or RecordBatch.

        Columns and their order are kept. Their types follow from the domain: whole numbers, numbers and booleans where all
        categories are such, else text; ordered text is a dictionary of the categories (pandas Categorical, polars Enum). In
        pandas, whole numbers and booleans are nullable where the missing value is declared.

        The rows' order and a pandas index are kept as well, so that ``released["w"] = frame["w"]`` puts each person's
        weight beside their record. No ε covers either: where the frame is sorted or grouped by a value, or labelled in
        such an order, a row's place or label reveals the value. So do not hand out a frame whose order or index may
        follow a private value; files that optrr writes are shuffled (``design.randomize(frame, "released.parquet")``).
        Everything else that could reveal information on the true records is left out: metadata, dictionaries and types
        (many readers make floating point of integers as soon as one is missing). Arrow tables and pandas frames then
        state in their metadata (``attrs``) the design that randomized them; polars frames have no place for it.

        Raises InvalidInput naming the column, the kind of value and the first record that has it, never the value; also
        for an index that is called like an attribute, for records that are randomized already, and for data that are
        not in memory, such as a Spark frame.

        Parameters
        ----------
        data
            one column per attribute, in any order, and no other column; at least one record.
        random_state
            None draws random bits from the operating system. A seed or a Generator makes the draw repeatable, for
            studies: anyone who knows the seed can undo it. A seed has a separate stream, not the one numpy draws from
            it; a Generator must not be in the state that the records were drawn from.
        """
        return randomized_frame(data, self, NONE, random_state)

    def randomize_codes(self, codes: NDArray[np.integer], random_state: RandomState = None) -> NDArray[np.integer]:
        """Randomize codes of shape (n, m); return the same integer type.

        Values are 0..r_i−1; the input is unchanged.

        O(n m) time; beyond the result, memory for about 4 million cells at a time.
        """
        out = checked_codes(codes, self.domain).copy()
        self.randomize_in_place(out, as_source(random_state))
        return out


def randomized_frame(
    data: Frame, mechanism: Randomizer, public: PublicColumns, random_state: RandomState = None
) -> Frame:
    """Randomize a frame with public columns, which are unchanged.

    See :meth:`Randomizer.randomize`.

    Raises InvalidInput as there, and for public columns that are attributes or are not there.
    """
    # data frames take longer to import than most designs take to solve
    from optrr.core.records.frames import marked, recode_frame  # noqa: PLC0415
    from optrr.core.records.spark import refuse_spark_frame  # noqa: PLC0415

    refuse_spark_frame(data)
    refuse_randomized(data)
    source = as_source(random_state)
    out = recode_frame(data, mechanism.domain, lambda codes: mechanism.randomize_in_place(codes, source), public)
    return marked(out, lambda: Provenance(Release.drawn(mechanism, is_seeded(source)), public=public))


def checked_mechanism(given: object) -> Randomizer:
    """Return the argument if it is a mechanism.

    Raises InvalidInput for anything else, such as the design that the mechanism belongs to.
    """
    if not isinstance(given, Randomizer):
        raise InvalidInput(f"got a {type(given).__name__} for a mechanism; give a Mechanism, such as design.mechanism")
    return given


def kernel_from(given: Randomizer | Kernel, names: str | Iterable[str]) -> Kernel:
    """Return a kernel, or a mechanism's kernel on these attributes.

    Raises InvalidInput for anything else.
    """
    return given if isinstance(given, Kernel) else checked_mechanism(given).kernel(names)


# Cells whose change sets are drawn at once. A law may hold 8 bytes for each while it samples: 32 MB.
_CELLS = 1 << 22
# Memory that change sets may take while they are drawn.
_SAMPLED = 1 << 27
# At least this many records are drawn at once, however many attributes there are: each attribute's fixed cost is then shared
# by many records.
_RECORDS = 64


@dataclass(frozen=True, eq=False, repr=False)
class Mechanism(Labelled, Randomizer):
    """Mechanism that randomizes records of ``domain`` by ``law``.

    Raises InvalidInput if the noise distribution's sizes are not the domain's.

    Examples
    --------
    >>> import optrr
    >>> mechanism = optrr.design({"sex": 2, "age": 3}, 1.0).mechanism
    >>> round(mechanism.epsilon, 4)
    1.6913
    >>> mechanism.matrix(["sex"]).round(3).tolist()
    [[0.731, 0.269], [0.269, 0.731]]
    """

    domain: Domain
    law: Law
    mechanism_name = "flip pattern"

    def __repr__(self) -> str:
        return f"<Mechanism: total epsilon {epsilon_text(self.epsilon)}, {amount(self.domain.m, 'attribute')}>"

    def __post_init__(self) -> None:
        if not np.array_equal(self.law.sizes, self.domain.sizes):
            raise InvalidInput(
                f"the noise distribution is for {self.law.m} attributes of sizes {_some(self.law.sizes)}, and the "
                f"domain has {self.domain.m} of sizes {_some(self.domain.sizes)}; design for this domain"
            )

    @cached_property
    def digest(self) -> str:
        """Digest of the domain and the stored noise distribution."""
        return digest_of(self.domain, {"law": record_of(self.law)})

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Blocks of the law."""
        return tuple(members for members, _ in self.law.blocks)

    def eigenvalues(self, names: str | Iterable[str]) -> FloatArray:
        """Compute λ_W of every W inside the named attributes, shape (2,)*k.

        Index 1 if the attribute is in W.
        """
        return self.law.eigenvalues(self.domain.indices(names))

    def kernel(self, names: str | Iterable[str]) -> EffectKernel:
        """Build the kernel on the named attributes.

        Only the 2^k flip patterns inside the set are needed.
        """
        chosen = self.domain.indices(names)
        sizes = self.domain.sizes[list(chosen)]
        changes = self.law.marginal(chosen)
        called = tuple(self.domain.names[i] for i in chosen)
        return EffectKernel(sizes, effect_transform(changes, sizes), called, changes)

    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes in place, shape (n, m)."""
        flip(codes, self.law, source)


def flip(codes: NDArray[np.integer], law: Law, source: BitSource) -> None:
    """Randomize valid codes (n, m) in place.

    By the noise distribution's automaton, or by flip patterns if it has none.
    """
    if law.automaton is not None:
        law.automaton.sampler.randomize(codes, source)
        return
    groups = [(int(r), in_a_row(np.flatnonzero(law.sizes == r))) for r in np.unique(law.sizes)]
    step = max(_RECORDS, _CELLS // law.m)
    # some laws pay a fixed price for each call and draw many change sets in it; these are applied to the records in smaller
    # pieces
    drawn = max(step, _SAMPLED // (law.sampling_bytes * law.m))
    for first in range(0, codes.shape[0], drawn):
        changes = law.sample(min(drawn, codes.shape[0] - first), source)
        for start in range(0, changes.shape[0], step):
            piece = codes[first + start : first + min(start + step, changes.shape[0])]
            for r, members in groups:
                piece[:, members] = _turned(piece[:, members], changes[start : start + step, members], r, source)


def _turned(codes: NDArray[np.integer], changes: NDArray[np.bool_], r: int, source: BitSource) -> NDArray[np.integer]:
    """Replace changed codes (n, k) by one of the other r − 1 uniformly.

    A turn is drawn for each code, since to find those that change takes longer than their random bits.
    """
    turns = words_below(source, codes.size, r - 1) if r > 2 else np.zeros(codes.size, dtype=np.uint8)
    out = turns.reshape(codes.shape).astype(np.promote_types(codes.dtype, np.min_scalar_type(-2 * r)))
    out += 1
    out *= changes
    out += codes
    out -= out.dtype.type(r) * (out >= r)
    return out


def _some(sizes: IntArray) -> str:
    return ", ".join(str(int(r)) for r in sizes[:10]) + (", …" if sizes.size > 10 else "")
