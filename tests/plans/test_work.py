"""Points in the background: in which order, each once, given up when another question is asked, and the allocation's own."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np
import pytest
from plan_questions import SCHOOL, AtOnce, alike, invented

from optrr.designs.specification import declared
from optrr.plans.preview import LADDER, Point, between, point
from optrr.plans.question import Question
from optrr.plans.work import Known, PlanWork

# Seconds for a process to start and compute on a busy machine.
_PATIENCE = 120


class Gated(AtOnce):
    """Waits before every point until it is let through, or stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.gate = threading.Semaphore(0), threading.Semaphore(0)

    def point(self, question: Question, ticket: int) -> Point | str:
        self.asked.append(question)
        self.began.release()
        self.gate.acquire()
        return "stopped" if ticket != self.stops else invented(question)

    def stop(self) -> None:
        self.stops += 1
        self.gate.release()


@pytest.fixture
def working() -> Iterator[Callable[..., PlanWork]]:
    """Makes what computes in the background, and ends it."""
    with ExitStack() as made:

        def work(*computing: object) -> PlanWork:
            return made.enter_context(closing(PlanWork(*computing)))  # type: ignore[arg-type]

        yield work


def until(work: PlanWork, question: Question, seen: Callable[[Known], object]) -> Known:
    """What is known of a question once this is so."""
    for _ in range(100 * _PATIENCE):
        if seen(known := work.ask(question)):
            return known
        time.sleep(0.01)
    raise TimeoutError


def finished(work: PlanWork, question: Question) -> Known:
    return until(work, question, lambda known: not known.busy)


def test_the_present_total_comes_first_and_then_the_ladder_outward_each_once(school, working):
    work = working(computing := AtOnce())
    known = finished(work, replace(school, total=3.0))
    totals = [asked.total for asked in computing.asked]
    assert totals[0] == 3.0
    distances = [abs(np.log(total / 3.0)) for total in totals[1:]]
    assert distances == sorted(distances)
    assert sorted(totals) == sorted([3.0, *LADDER])
    assert [p.total for p in known.points] == sorted(totals)
    assert (known.done, known.of, known.error) == (len(LADDER), len(LADDER), None)


def test_what_only_reads_points_computes_nothing_and_texts_neither(school, working):
    work = working(computing := AtOnce())
    finished(work, school)
    before = len(computing.asked)
    retitled = declared({**SCHOOL, "title": "Another title"})
    for read in ({"n": 7}, {"prior": 0.9}, {"releases": 5}, {"margin": 3.0}, {"specification": retitled}):
        assert not work.ask(replace(school, **read)).busy
    assert len(computing.asked) == before
    for other in (replace(school, keep="records"), replace(school, way="optimum")):
        assert work.ask(other).busy
        finished(work, other)
    assert len(computing.asked) == 3 * before


def test_a_total_that_was_superseded_before_it_began_is_dropped(school, working):
    work = working(computing := Gated())
    work.ask(school)
    computing.began.acquire()
    for total in (1.1, 1.2, 1.3):
        work.ask(school.at(total))
    for _ in range(len(LADDER) + 1):
        computing.gate.release()
    finished(work, school.at(1.3))
    totals = [asked.total for asked in computing.asked]
    assert totals[:2] == [1.0, 1.3]
    assert not {1.1, 1.2} & set(totals)


def test_a_slider_that_moves_asks_for_no_exact_point(school, working):
    work = working(computing := AtOnce())
    finished(work, school)
    for total in np.linspace(0.5, 4, 50):
        assert not work.ask(school.at(float(total)), rests=False).busy
    assert {asked.total for asked in computing.asked} == set(LADDER)


def test_another_question_stops_what_runs_and_its_half_done_answer_is_not_kept(school, working):
    work = working(computing := Gated())
    work.ask(school)
    computing.began.acquire()
    other = replace(school, keep="records")
    work.ask(other)
    assert computing.stops == 1
    computing.began.acquire()
    assert computing.asked[1].keep == "records"
    assert work.ask(other).points == ()
    # back to the first: nothing of it is there, and nothing is taken for an error
    known = work.ask(school)
    assert (known.points, known.error, computing.stops) == ((), None, 2)


def test_ways_that_differ_by_rounding_keep_their_order_between_points(school):
    """An allocation lists the optimum first of equal ways; the last bits of two interpolations must not reverse that."""
    points = []
    for total, last_bits in ((1.0, 0.0), (2.0, 1e-15)):
        made = invented(school.at(total))
        ways = [replace(made.way, name=name) for name in ("optimum", "whole-record")]
        ways[0] = replace(ways[0], error=ways[0].error * (1 + last_bits))
        points.append(replace(made, way=ways[0], ways=tuple(ways)))
    assert [way.name for way in between(*points, 1.5).ways] == ["optimum", "whole-record"]


class SlowToStop(Gated):
    """What is stopped says so only when the test lets it."""

    def stop(self) -> None:
        self.stops += 1


def test_a_question_left_and_asked_again_before_its_computation_has_stopped_is_computed_anew(school, working):
    work = working(computing := SlowToStop())
    work.ask(school)
    computing.began.acquire()
    work.ask(replace(school, keep="records"))
    work.ask(school)
    for _ in range(len(LADDER) + 1):
        computing.gate.release()
    known = finished(work, school)
    assert (known.done, known.error, computing.stops) == (len(LADDER), None, 1)
    assert [asked.total for asked in computing.asked][:2] == [1.0, 1.0]


def test_another_way_of_the_same_lets_the_allocation_finish(school, working):
    work = working(computing := Gated())
    work.ask(school)
    computing.began.acquire()
    work.ask(replace(school, way="optimum"))
    assert computing.stops == 0


def test_many_threads_ask_and_nothing_is_computed_twice(school, working):
    work = working(computing := AtOnce())
    mixed = [replace(school, keep=keep, n=n) for keep in (None, "records") for n in (10, 1000)]

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(200):
            work.ask(rng.choice(mixed).at(rng.choice(LADDER)), rests=rng.random() < 0.5)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for question in mixed:
        finished(work, question)
    # a question that was left for another may have been given up once for every time that it was stopped
    asked = [(q.keep, q.total) for q in computing.asked]
    assert len(asked) - len(set(asked)) <= computing.stops


@pytest.mark.slow
def test_the_process_computes_what_an_allocation_says_and_errors_are_one_line(working):
    small = Question.of(declared({**SCHOOL, "attributes": SCHOOL["attributes"][:2]}), "marginals")
    work = working()
    known = finished(work, small)
    assert len(known.points) == len(LADDER)
    for got in known.points[::4]:
        assert alike(got, point(replace(small.at(got.total), n=10**10)))
    nobody = finished(work, replace(small, way="nobody's"))
    assert nobody.points == () and nobody.error is not None
    assert 'no way of asking "nobody\'s"' in nobody.error and "\n" not in nobody.error


@pytest.mark.slow
def test_a_process_that_is_killed_is_an_error_and_the_next_question_is_computed(school, working):
    work = working()
    work.ask(school)
    process = work._computing
    while process._process is None:  # type: ignore[attr-defined]
        time.sleep(0.01)
    process._process.kill()  # type: ignore[attr-defined]
    error = until(work, school, lambda known: known.error).error
    assert error is not None and error.startswith("the computation ended by itself")
    points = until(work, replace(school, keep="records"), lambda known: known.points).points
    assert points[0].total == 1.0


def test_any_exception_is_that_totals_error_and_the_others_are_computed(school, working):
    class Failing(AtOnce):
        def point(self, question: Question, ticket: int) -> Point | str:
            if question.total == 3.0:
                raise RuntimeError("dictionary changed size during iteration")
            return super().point(question, ticket)

    work = working(Failing())
    known = finished(work, replace(school, total=3.0))
    assert known.error is not None and "RuntimeError: dictionary changed size" in known.error
    assert (known.done, len(known.points)) == (known.of, known.of)


def test_what_is_computed_shares_nothing_that_the_asker_changes(school, working):
    work = working(computing := AtOnce())
    finished(work, school)
    assert all(asked.domain is not school.domain for asked in computing.asked)
    assert all(asked.specification is not school.specification for asked in computing.asked)
