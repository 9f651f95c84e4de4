"""Problems, and every method on every case it takes, against a slow program; none prints on standard output."""

import subprocess
import sys
from fractions import Fraction

import mpmath as mp
import naive
import numpy as np
import pytest
from cases import SOLVER_CASES
from hypothesis import given, settings
from hypothesis import strategies as st

import optrr_solvers
from optrr_solvers.enclosure import FLIP_BITS, exp_bounds, flip_ceiling, log_ceiling, log_floor
from optrr_solvers.errors import Infeasible, SolveFailed
from optrr_solvers.methods import register
from optrr_solvers.problem import flip_gaps, flip_probabilities, keep_probabilities
from optrr_solvers.solution import require, shortfalls

ROUNDING = 1e-9


@pytest.fixture(scope="module")
def optima() -> dict[str, float]:
    """The smallest total of every case, by linear programs over all change sets."""
    return {name: naive.optimum(problem) for name, problem in SOLVER_CASES.items()}


@pytest.mark.slow
@pytest.mark.parametrize("case", SOLVER_CASES)
@pytest.mark.parametrize("name", optrr_solvers.METHODS)
def test_every_method_on_every_case(name: str, case: str, optima: dict[str, float]) -> None:
    method, problem, optimum = optrr_solvers.METHODS[name], SOLVER_CASES[case], optima[case]
    if not method.takes(problem):
        assert name not in optrr_solvers.applicable(problem)
        return
    solution = optrr_solvers.solve(problem, name)
    assert solution.method == name
    assert solution.upper == solution.law.epsilon
    # the dual answer: the bound follows from the certificate alone and is never above the optimum
    assert optrr_solvers.lower_bound(problem, solution.certificate) <= optimum + 1e-6
    kept = not shortfalls(problem, solution.law).any()
    if kept:
        assert solution.upper >= optimum - 1e-6
    match method.guarantee:
        case optrr_solvers.Guarantee.EXACT:
            assert solution.status is optrr_solvers.Status.OPTIMAL
            assert solution.upper == pytest.approx(optimum, abs=1e-6)
            assert solution.gap <= ROUNDING
            require(problem, name, solution.law)
        case optrr_solvers.Guarantee.CERTIFIED:
            assert solution.lower <= optimum + 1e-6
            require(problem, name, solution.law)
        case optrr_solvers.Guarantee.BASELINE:
            assert kept or any("replaced" in note for note in solution.notes)


@pytest.mark.slow
@pytest.mark.parametrize("case", SOLVER_CASES)
def test_auto_has_the_smallest_total_of_all_methods(case: str) -> None:
    problem = SOLVER_CASES[case]
    chosen = optrr_solvers.solve(problem)
    require(problem, "auto", chosen.law)
    for name in optrr_solvers.applicable(problem):
        other = optrr_solvers.solve(problem, name)
        if not shortfalls(problem, other.law).any():
            assert chosen.upper <= other.upper + ROUNDING, name


@pytest.mark.parametrize("name", optrr_solvers.METHODS)
def test_what_a_method_does_not_take_is_refused_in_one_line(name: str) -> None:
    method = optrr_solvers.METHODS[name]
    small = optrr_solvers.Problem([2, 3, 4], [1.0, 0.5, 1.5])
    wrong = {
        "pairs": optrr_solvers.Problem(
            [2, 3, 4], [1.0, 0.5, 1.5], pairs=((0, 1),), kappa=1.5 if name == "kronecker" else 1.0
        ),
        "caps": optrr_solvers.Problem([2, 3, 4], [1.0, 0.5, 1.5], caps=[1.2, 1.2, 1.8]),
    }
    for what, problem in wrong.items():
        if not method.takes(problem):
            with pytest.raises(optrr_solvers.InvalidInput, match=r"^[^\n]+$"):
                optrr_solvers.solve(problem, name)
        else:
            assert getattr(method, what)
    for option in {"tolerance", "time_limit"} - set(method.options):
        with pytest.raises(optrr_solvers.InvalidProblem, match="drop it"):
            optrr_solvers.solve(small, name, optrr_solvers.SolveOptions(**{option: 10.0}))


def test_a_name_is_taken_once() -> None:
    with pytest.raises(optrr_solvers.InvalidProblem, match="already"):
        register(optrr_solvers.METHODS["ball"])
    with pytest.raises(optrr_solvers.InvalidProblem, match="``method``: 'toy' is unknown"):
        optrr_solvers.solve(optrr_solvers.Problem([2, 3], [1.0, 1.0]), "toy")


def test_the_heuristic_may_be_the_answer_where_it_keeps_every_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no certified method left, the best of heuristic, products of blocks and Kronecker is returned."""
    problem = optrr_solvers.Problem(np.full(40, 2), np.linspace(6.0, 5.0, 40))
    heuristic = optrr_solvers.solve(problem, "inductive")
    assert not shortfalls(problem, heuristic.law).any()  # or this test shows nothing
    monkeypatch.delitem(optrr_solvers.METHODS, "ball")
    chosen = optrr_solvers.solve(problem)
    require(problem, "auto", chosen.law)
    assert chosen.upper <= heuristic.upper < problem.kronecker_epsilon


SIZES = [2, 3, 17, 1000, 10**6]
EPSILONS = [1e-6, 3.3e-5, 0.1, 1.0, 13.8, 50.0]


@pytest.mark.parametrize("r", SIZES)
@pytest.mark.parametrize("e", EPSILONS)
def test_flips_keeps_and_gaps_against_60_digits(r, e):
    with mp.workdps(60):
        f = mp.mpf(r - 1) / (r - 1 + mp.exp(mp.mpf(e)))
        gap = mp.mpf(r - 1) / r - f
        # ln(r−1) − ε is rounded at up to 64, hence 64 roundings relative
        for computed, exact in (
            (flip_probabilities(r, e), f),
            (keep_probabilities(r, e), 1 - f),
            (flip_gaps(r, e), gap),
        ):
            assert abs(mp.mpf(float(computed)) / exact - 1) < 64 * 2.0**-53
        assert optrr_solvers.Problem([r], [e]).eigenvalues[0] == pytest.approx(float(gap * r / (r - 1)), rel=1e-14)


@pytest.mark.parametrize("r", SIZES)
@pytest.mark.parametrize("e", EPSILONS)
def test_enclosures_contain_the_exact_values(r, e):
    with mp.workdps(120):
        true = mp.exp(mp.mpf(e))
        low, high = (mp.mpf(x.numerator) / x.denominator for x in exp_bounds(e))
        assert low < true < high and (high - low) / true < mp.mpf(10) ** -57
        f = (r - 1) / (r - 1 + true)
        ceiling = mp.mpf(flip_ceiling(r, e)) / 2**FLIP_BITS
        assert 0 <= ceiling - f < mp.mpf(2) ** (1 - FLIP_BITS) + f * mp.mpf(10) ** -57


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.fractions(min_value="1/1000000", max_value=10**9).filter(lambda x: x > 0))
def test_logarithms_round_outward(x):
    with mp.workdps(120):
        true = mp.log(mp.mpf(x.numerator) / x.denominator)
        low, high = log_floor(x), log_ceiling(x)
        assert mp.mpf(low) <= true <= mp.mpf(high)
        assert high - low <= 8 * np.spacing(max(abs(low), abs(high)))


def test_logarithm_next_to_one():
    tiny = 1 + Fraction(1, 10**59)
    assert log_floor(tiny) <= 1e-59 <= log_ceiling(tiny)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sizes": [1], "epsilons": [1.0]}, "attribute 0 has size 1; give an integer from 2"),
        ({"sizes": [2, 2.5], "epsilons": [1, 1]}, r"attribute 1 has size 2\.5"),
        ({"sizes": [2, 10**6 + 1], "epsilons": [1, 1]}, "attribute 1 has size 1000001"),
        ({"sizes": [2], "epsilons": [0.0]}, r"attribute 0 has epsilon 0\.0; give a finite number of nats"),
        ({"sizes": [2], "epsilons": [-1]}, r"epsilon -1\.0"),
        ({"sizes": [2], "epsilons": [np.nan]}, "epsilon nan"),
        ({"sizes": [2], "epsilons": [np.inf]}, "epsilon inf"),
        ({"sizes": [2], "epsilons": [50.1]}, r"epsilon 50\.1"),
        ({"sizes": [2, 3], "epsilons": [1]}, "two lists of one length"),
        ({"sizes": [[2]], "epsilons": [[1]]}, "two lists of one length"),
        ({"sizes": [], "epsilons": []}, "0 attributes; give between 1 and"),
        ({"sizes": [2, 2], "epsilons": [1, 1], "pairs": ((0, 2),)}, r"pair \(0, 2\) must name two different"),
        ({"sizes": [2, 2], "epsilons": [1, 1], "pairs": ((1, 1),)}, r"pair \(1, 1\)"),
        ({"sizes": [2, 2], "epsilons": [1, 1], "kappa": 0.0}, "``kappa``: 0.0; give a positive"),
        ({"sizes": [1], "epsilons": [1.0], "names": ("age",)}, "attribute 'age' has size 1"),
    ],
)
def test_bad_problems_are_refused_in_one_line(arguments, words):
    with pytest.raises(optrr_solvers.InvalidProblem, match=words) as error:
        optrr_solvers.Problem(**arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("cap", [0.9, np.nan, -1])
def test_a_cap_below_its_epsilon_is_infeasible(cap):
    with pytest.raises(Infeasible, match="attribute 1 has conditional cap"):
        optrr_solvers.Problem([2, 2], [1.0, 1.0], caps=np.array([2.0, cap]))


def test_normalised_in_one_place():
    p = optrr_solvers.Problem([2, 3, 4], [1, 2, 3], pairs=((2, 0), (0, 2), (0, 1)), caps=4.0)
    assert p.pairs == ((0, 1), (0, 2))
    assert p.caps.tolist() == [4.0] * 3
    assert p.sizes.dtype == np.int64 and p.epsilons.dtype == np.float64
    assert p.constrained and p.kronecker_epsilon == 6
    assert not optrr_solvers.Problem([2], [1], caps=np.inf).constrained


def test_classes_group_alike_attributes_by_first_appearance():
    p = optrr_solvers.Problem([3, 2, 3, 2, 3], [1, 1, 1, 1, 2])
    assert [c.tolist() for c in p.classes] == [[0, 2], [1, 3], [4]]
    assert p.classes.first.tolist() == [0, 1, 4] and p.classes.numbers.tolist() == [0, 1, 0, 1, 2]
    capped = optrr_solvers.Problem([2, 2, 2, 2], [1, 1, 1, 1], caps=np.array([2, np.inf, 2, np.inf]))
    assert [c.tolist() for c in capped.classes] == [[0, 2], [1, 3]]


# A HiGHS that prints while it is made, as 1.16 does, by C's own buffer and by the descriptor.
LOUD = """
import ctypes, os, threading
import highspy
C = ctypes.CDLL(None)
quiet = highspy.Highs
def loud():
    C.printf(b"a banner of C\\n")
    os.write(1, b"a banner of the descriptor\\n")
    return quiet()
highspy.Highs = loud
C.printf(b"before\\n")
"""
SOLVE = """
import numpy as np
from optrr_solvers import Problem
from optrr_solvers import solve
from optrr_solvers.programs.backend import silently
def once():
    return solve(Problem(np.array([2, 3, 4]), np.array([1.0, 0.5, 0.7])), method="lp")
"""


def _printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="C's printf is called by name")
@pytest.mark.slow
def test_what_a_solver_prints_reaches_nobody() -> None:
    assert _printed(LOUD + SOLVE + 'once(); print("after", flush=True)') == "before\nafter\n"


@pytest.mark.skipif(sys.platform != "linux", reason="C's printf is called by name")
@pytest.mark.slow
def test_threads_that_solve_at_once_leave_standard_output_where_it_was() -> None:
    code = """
here = os.fstat(1).st_ino, len(os.listdir("/proc/self/fd"))
threads = [threading.Thread(target=lambda: [once() for _ in range(10)]) for _ in range(4)]
for thread in threads: thread.start()
child = os.fork()
if child == 0:
    silently(lambda: os.write(1, b"and nobody hears the child\\n"))
    os.write(1, b"the child\\n")
    os._exit(0)
os.waitpid(child, 0)
for thread in threads: thread.join()
assert here == (os.fstat(1).st_ino, len(os.listdir("/proc/self/fd")))
print("after", flush=True)
"""
    assert _printed(LOUD + SOLVE + "once()\n" + code) == "before\nthe child\nafter\n"


@pytest.mark.skipif(sys.platform != "linux", reason="closes a descriptor before it solves")
@pytest.mark.slow
def test_a_closed_standard_output_stays_closed() -> None:
    code = """
os.close(1)
once()
try:
    os.fstat(1)
except OSError:
    os._exit(0)
os._exit(3)
"""
    assert _printed(SOLVE + "import os" + code) == ""


def test_a_program_that_is_too_large_for_its_solver_names_another_method():
    with pytest.raises(SolveFailed, match="too large for HiGHS at these epsilons; use method auto"):
        optrr_solvers.solve(optrr_solvers.Problem([2, 3, 4], [18.0, 15.0, 20.0]), method="lp")
