"""Estimates of the time and memory of checking a noise distribution or a certificate, before the check.

The estimates are rough and never too low: they ignore the terms that sums skip, and their constants were measured
on a computer of 2020.
"""

from dataclasses import dataclass

# Seconds for one step of arithmetic on an array of doubles, and on one of Python's integers; bytes of one of the
# latter.
STEP, INTEGER_STEP, INTEGER_BYTES = 1e-8, 1e-6, 100
# Seconds for the marginal of one pair where a law has no table of them.
MARGINAL = 1e-4
# Seconds for one state of an automaton: in words of 64 bits, and more where a threshold has many.
STATE, STATE_WORD = 1e-6, 5e-8
# Words of a threshold at most: one more is refused before it is used. Nats that one more word resolves.
MOST_WORDS, WORD_NATS = 96, 44.0


@dataclass(frozen=True)
class Work:
    """Seconds, and bytes held at once; sums of both."""

    seconds: float = 0.0
    memory: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.seconds + other.seconds, self.memory + other.memory)


def of_states(states: float, nats: float) -> Work:
    """Estimate the work of an automaton with so many states.

    Densities are ``nats`` apart.
    """
    words = 2 + min(nats / WORD_NATS, MOST_WORDS)
    return Work(states * (STATE + STATE_WORD * words**2), states * (60 + 24 * words))
