"""Who gives way when all places are taken, against a list that is searched from one end to the other."""

import random

import pytest

from optrr.survey.server import Crowd, origin


class Guest:
    def __init__(self, host: str, since: int) -> None:
        self.host, self.since, self.owed, self.dropped = host, since, False, False

    def busy(self) -> bool:
        return self.owed

    def drop(self) -> None:
        self.dropped = True


def expected(present: list[Guest]) -> Guest | None:
    """Slow and obvious: of the address with most connections, of those with one that may go, the one that waits longest."""
    idle = [guest for guest in present if not guest.owed]
    if not idle:
        return None
    many = {guest.host: sum(other.host == guest.host for other in present) for guest in idle}
    most = max(many.values())
    return min((guest for guest in idle if many[guest.host] == most), key=lambda guest: guest.since)


@pytest.mark.parametrize("seed", range(5))
def test_the_one_that_gives_way(seed: int) -> None:
    rng = random.Random(seed)
    crowd, present, refused, gone = Crowd(12), [], 0, 0
    for now in range(2000):
        if present and rng.random() < 0.3:
            guest = rng.choice(present)
            present.remove(guest)
            crowd.leave(guest)
        for guest in present:
            if rng.random() < 0.2:
                guest.owed = not guest.owed or rng.random() < 0.8
                if not guest.owed:
                    guest.since = now
                    crowd.waits(guest)
        guest = Guest(rng.choice(["10.0.0.1", "10.0.0.2", "2001:db8::1"]), now)
        leaving = expected(present) if len(present) == 12 else None
        entered = crowd.enter(guest, guest.host)
        assert entered == (len(present) < 12 or leaving is not None)
        if leaving is not None:
            # two addresses may have as many: either may give way
            (dropped,) = [other for other in present if other.dropped]
            count = [sum(other.host == each.host for other in present) for each in (dropped, leaving)]
            assert count[0] == count[1] and dropped.since == min(
                other.since for other in present if other.host == dropped.host and not other.owed
            )
            present.remove(dropped)
            gone += 1
        if entered:
            present.append(guest)
        refused += not entered
    assert gone > 200 and refused > 20


def test_who_holds_many_gives_way_to_who_holds_one() -> None:
    crowd = Crowd(10)
    early = Guest("192.0.2.1", 0)
    assert crowd.enter(early, early.host)
    many = [Guest("192.0.2.2", k) for k in range(30)]
    assert all(crowd.enter(guest, guest.host) for guest in many)
    assert not early.dropped and sum(guest.dropped for guest in many) == 21


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
    ],
)
def test_what_is_one_address(one: str, other: str, same: bool) -> None:
    assert (origin(one) == origin(other)) == same
