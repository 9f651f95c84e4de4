"""Who broke a secure sum whose result opens no seals: an audit that reveals no share.

Every party i publishes Pedersen commitments R_ij = ξ_ij H + τ_ij G to the two parts of every share it sent (and kept). They
hide perfectly, and with X_j party j's seal and (ξ_j, τ_j) its partial sum, cell by cell,

    Σ_j R_ij = 0                               or party i's shares did not add up to zero;
    R_ij commits to the share that j has       or party i published other shares than it sent, as j alone knows;
    Σ_i R_ij + X_j = ξ_j H + τ_j G             or party j broadcast another partial sum than its own.

A party fails the third where a sender has lied to it in the second: others then suspect the wrong one of two, so its objection
counts. Equations and hiding: ``proofs/prove_sealed.py``. n points per cell from each party to each: O(n² · cells) per party.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optrr.studies.secure_sum.group import Group, NotInGroup
from optrr.studies.secure_sum.sealed import Seal, points_of

Points = list[bytes]


def committed(group: Group, numbers: NDArray[Any]) -> Points:
    """a H + b G for every cell's two numbers: all first ones, then all second ones."""
    first, second = np.split(numbers, 2)
    return [group.add(group.times(a, group.second), group.base(b)) for a, b in zip(first, second, strict=True)]


def read_points(group: Group, raw: bytes, count: int) -> Points:
    """An audit's points. Raises NotInGroup where they are not ``count`` points of the group."""
    if len(raw) != count * group.width:
        raise NotInGroup(f"{len(raw)} bytes where {count} points belong")
    return [group.checked(raw[k : k + group.width]) for k in range(0, len(raw), group.width)]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What one party holds when it judges: shares it received, all partial sums and seals, audits of those who sent one.

    An audit's points are those for recipient 0, one per cell, then for recipient 1, and so on.
    """

    me: int
    received: Mapping[int, NDArray[Any]]
    partials: Mapping[int, NDArray[Any]]
    seals: Mapping[int, Seal]
    audits: Mapping[int, Points]

    def verdict(self, group: Group) -> str:
        """Who broke the protocol, as far as this party can tell: one line."""
        absent = sorted(set(self.partials) - set(self.audits))
        findings = [f"party {j} took no part in the audit" for j in absent]
        for i, points in sorted(self.audits.items()):
            if self._part(points, self.me) != committed(group, self.received[i]):
                findings.append(f"party {i} published other shares than it sent to party {self.me}")
            elif not self._cancel(group, points):
                findings.append(f"the shares of party {i} do not add up to zero")
        if not findings:
            findings = [
                f"the partial sum of party {j} does not belong to its seal and the shares sent to it, unless it objects "
                "to a sender's audit"
                for j in sorted(self.partials)
                if not self._belongs(group, j)
            ]
        return (
            "; ".join(findings)
            or "the audit finds nothing wrong: somebody sent different messages to different parties"
        )

    def _cells(self) -> int:
        return self.partials[self.me].size // 2

    def _part(self, points: Points, j: int) -> Points:
        return points[j * self._cells() : (j + 1) * self._cells()]

    def _cancel(self, group: Group, points: Points) -> bool:
        cells = self._cells()
        return all(reduce(group.add, points[cell::cells]) == group.base(0) for cell in range(cells))

    def _belongs(self, group: Group, j: int) -> bool:
        parts = [self._part(points, j) for points in self.audits.values()]
        sums = [reduce(group.add, column) for column in zip(points_of(group, self.seals[j]), *parts, strict=True)]
        return sums == committed(group, self.partials[j])
