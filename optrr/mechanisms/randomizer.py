"""What randomizes records: the interface of every mechanism, whatever it is made of.

The only way from randomized records to numbers is mechanism → counts → kernel → estimate or test. So a mechanism says which
records it takes (``domain``), what it costs (``epsilon`` and its kin), how it randomizes (``randomize_in_place``) and how what
it did is undone (``kernel``); everything else follows from these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from optrr.domain.codes import checked_codes
from optrr.domain.domain import Domain
from optrr.errors import InvalidInput
from optrr.mechanisms.kernel import Kernel
from optrr_solvers.arrays import FloatArray
from optrr_solvers.randomness import BitSource, RandomState, as_source

Frame = TypeVar("Frame")


class Randomizer(ABC):
    """A mechanism over the records of ``domain``.

    There are two kinds: :class:`~optrr.mechanisms.mechanism.Mechanism`, a law of change sets, and
    :class:`~optrr.mechanisms.matrix.MatrixMechanism`, a distortion matrix for each attribute.
    """

    domain: Domain

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """Total ε in nats, rounded up: local differential privacy of the whole record."""

    @property
    @abstractmethod
    def attribute_epsilons(self) -> FloatArray:
        """ε_i in nats of the randomized response that is as accurate on attribute i alone, shape (m,)."""

    @property
    @abstractmethod
    def conditional_epsilons(self) -> FloatArray:
        """What an observer who knows all other attributes learns about attribute i, in nats, shape (m,), rounded up."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """What identifies it wherever its records go: the digest of its domain and of the probabilities that are drawn.

        Categories count by their texts, so that a design read back from its file has the digest it was saved with.
        """

    @abstractmethod
    def kernel(self, names: str | Iterable[str]) -> Kernel:
        """The kernel on the named attributes, axes in this order; sizes and cost do not depend on the other attributes.

        A set that cannot be estimated has a kernel all the same: its own solves refuse.

        Raises
        ------
        InvalidInput
            for unknown or repeated names.
        """

    @abstractmethod
    def randomize_in_place(self, codes: NDArray[np.integer], source: BitSource) -> None:
        """Randomize valid codes where they stand, shape (n, m)."""

    def matrix(self, names: str | Iterable[str] | None = None) -> FloatArray:
        """Distortion matrix P[u, v] = Pr(output v | input u) over the named attributes' product, row-stochastic.

        Cells are numbered in row-major order (last attribute fastest). For looking at: estimation never needs it.

        Raises
        ------
        InvalidInput
            above 4096 cells (128 MB).
        """
        return self.kernel(self.domain.names if names is None else names).matrix()

    def perturb(self, data: Frame, random_state: RandomState = None, again: bool = False) -> Frame:
        """Randomized records, as the same kind of frame: pandas, polars, pyarrow Table or RecordBatch.

        Columns, their order and their types are kept; a type that cannot hold every declared category becomes text. The rows'
        order and a pandas index are kept as well, so that ``released["w"] = frame["w"]`` puts everybody's weight beside their
        own record. No ε covers either: where the frame is sorted or grouped by a value, or labelled in such an order, a row's
        place or label tells the value. So do not hand out a frame whose order or index may follow what is private; files that
        optrr writes are shuffled (``optrr.perturb(frame, mechanism, "released.parquet")``). Everything else that could tell
        about the true records is left out: metadata, and the dictionaries of categorical columns, which are rebuilt from the
        domain. (A type may tell something by itself: some readers make a column of integers floating point as soon as one
        value is missing. Declare types, too.) Arrow tables and pandas frames then say in their metadata (``attrs``) by which
        design they were randomized; polars frames have no place for it.

        Parameters
        ----------
        data
            one column per attribute, in any order, and no other column; at least one record.
        random_state
            None draws random bits from the operating system. A seed or a Generator makes the draw repeatable, for
            studies: whoever knows the seed can undo it. A seed has a stream of its own, not the one numpy draws from it; a
            Generator must not be in the state that the records were drawn from.
        again
            randomize records that say they are randomized already; what they have spent is carried on.

        Raises
        ------
        InvalidInput
            naming the column, the kind of value and the first record it stands in, never the value; also for an index that is
            called like an attribute, for records that are randomized already, and for what is not in memory, such as a Spark
            frame.
        """
        # data frames bring Arrow, which takes longer to import than most designs take to solve
        from optrr.mechanisms.release import released_by  # noqa: PLC0415
        from optrr.records.frames import marked, recode_frame  # noqa: PLC0415
        from optrr.records.origins import randomized_before  # noqa: PLC0415
        from optrr.records.spark_frames import refuse_spark_frame  # noqa: PLC0415

        refuse_spark_frame(data)
        known, source = randomized_before(data, again), as_source(random_state)
        out = recode_frame(data, self.domain, lambda codes: self.randomize_in_place(codes, source))
        return marked(out, lambda: released_by(self, source, known))

    def perturb_codes(self, codes: NDArray[np.integer], random_state: RandomState = None) -> NDArray[np.integer]:
        """Randomized codes: shape (n, m) as given, same integer type, values 0..r_i−1; the input is left alone.

        O(n m) time; beyond the result, memory for about 4 million cells at a time.
        """
        out = checked_codes(codes, self.domain).copy()
        self.randomize_in_place(out, as_source(random_state))
        return out


def checked_mechanism(given: object) -> Randomizer:
    """What was given, if it is a mechanism.

    Raises
    ------
    InvalidInput
        for anything else, such as the design that the mechanism belongs to.
    """
    if not isinstance(given, Randomizer):
        raise InvalidInput(f"got a {type(given).__name__} for a mechanism; give a Mechanism, such as design.mechanism")
    return given


def kernel_from(given: Randomizer | Kernel, names: str | Iterable[str]) -> Kernel:
    """The kernel that was given, or the given mechanism's on these attributes. Raises InvalidInput for anything else."""
    return given if isinstance(given, Kernel) else checked_mechanism(given).kernel(names)
