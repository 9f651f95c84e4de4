"""Arguments of analyses: how the records were sampled, and how missing values are treated."""

from dataclasses import dataclass
from typing import Literal, get_args

from optrr.core.domain.domain import listed
from optrr.core.domain.public import PublicColumns
from optrr.core.errors import InvalidInput

LonelyPsu = Literal["refuse", "centred"]


@dataclass(frozen=True)
class Sample:
    """Public columns that describe how records were sampled.

    In addition to those that the design and the release name.

    Parameters
    ----------
    weights
        Column of the number of people of the population that a record represents, up to a factor; at least 0.
    strata
        Column of the part of the population that a record was sampled from.
    psu
        Column of the primary sampling unit within the stratum, such as a school; every record is one unless named.
    lonely_psu
        Treatment of a stratum with a single sampling unit, which shows no variance: "refuse" it, or take its difference from
        the mean of all units ("centred").

    Raises
    ------
    InvalidInput
        For a column that is named for two purposes or has no name, or another treatment.

    Examples
    --------
    >>> import optrr
    >>> optrr.Sample(weights="w", psu="school").columns.said()
    "weight 'w', cluster 'school'"
    """

    weights: str | None = None
    strata: str | None = None
    psu: str | None = None
    lonely_psu: LonelyPsu = "refuse"

    def __post_init__(self) -> None:
        if self.lonely_psu not in get_args(LonelyPsu):
            raise InvalidInput(
                f"``lonely_psu``: {self.lonely_psu!r} is unknown; give one of {listed(get_args(LonelyPsu))}"
            )
        _ = self.columns

    @property
    def columns(self) -> PublicColumns:
        """Columns by role."""
        return PublicColumns(self.weights, self.strata, self.psu)


# Argument ``sample`` of analyses: None for the columns that the design and the release name, "ignore" to ignore these.
GivenSample = Sample | Literal["ignore"] | None


@dataclass(frozen=True)
class MissingAtRandom:
    """Declaration that an attribute's missing values are missing at random.

    Estimates are then those of all people.

    Given the other attributes of the table, whether a respondent answered does not depend on the answer.

    Parameters
    ----------
    attribute
        Attribute of the table that declares a missing value.

    Examples
    --------
    >>> import optrr
    >>> optrr.MissingAtRandom("income").attribute
    'income'
    """

    attribute: str


# Argument ``missing`` of analyses: a category like any other, left out, or missing at random.
Missing = Literal["category", "complete-cases"] | MissingAtRandom


def check_missing(missing: Missing) -> Missing:
    """Return the treatment of missing values; raise InvalidInput if invalid."""
    if missing not in ("category", "complete-cases") and not isinstance(missing, MissingAtRandom):
        raise InvalidInput(
            f"``missing``: {missing!r} is unknown; give 'category', 'complete-cases' or MissingAtRandom('A')"
        )
    return missing


def at_random(missing: Missing) -> str | None:
    """Return the attribute that is missing at random, if any.

    Raises as :func:`check_missing` does.
    """
    given = check_missing(missing)
    return given.attribute if isinstance(given, MissingAtRandom) else None
