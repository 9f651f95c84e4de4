"""Randomized data frames with public columns beside the attributes: these go through as they are, and the frame says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from optrr.domain.public import PublicColumns
from optrr.mechanisms.randomizer import Randomizer
from optrr.mechanisms.release import released_by
from optrr.records.frames import marked, recode_frame
from optrr.records.origins import randomized_before
from optrr.records.passing import attributes_alone, beside
from optrr.records.spark_frames import refuse_spark_frame
from optrr_solvers.randomness import RandomState, as_source

Frame = TypeVar("Frame")


def perturb_with_public(
    data: Frame, mechanism: Randomizer, public: PublicColumns, random_state: RandomState = None
) -> Frame:
    """As :meth:`optrr.mechanisms.randomizer.Randomizer.perturb`, for a frame that has these public columns as well.

    Raises
    ------
    InvalidInput
        as there, and for public columns that are attributes or are not there.
    """
    refuse_spark_frame(data)
    known, source = randomized_before(data, False), as_source(random_state)
    alone = attributes_alone(data, public, mechanism.domain)
    recoded = recode_frame(alone, mechanism.domain, lambda codes: mechanism.randomize_in_place(codes, source))
    whole: Frame = beside(recoded, data, public)
    return marked(whole, lambda: replace(released_by(mechanism, source, known), public=public))
