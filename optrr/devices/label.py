"""What a label promises, in the numbers that a test needs: ε, flip probabilities, and which attributes change together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from optrr.designs.design import Design
from optrr.designs.design_file import load_design
from optrr.devices.deployment_file import DeployedQuestions, Deployment
from optrr.devices.verify import load_deployment
from optrr.domain.domain import Domain, category_text
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.releases.sealed import DEPLOYMENT, MALFORMED, SAMPLED_TABLES, content_of, kind_of
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.automaton.arithmetic import Doubles, complement, difference
from optrr_solvers.automaton.draw import Sampler
from optrr_solvers.automaton.layers import ChoiceLayer, Layer, Layers
from optrr_solvers.programs.events import event_sizes
from optrr_solvers.randomness import SystemSource

Codes: TypeAlias = NDArray[np.integer]
# Numbers that the sums over an automaton's states hold at once.
_MOST_SUMS = 1 << 22
# Attributes whose sets of changes are tabled at once.
_MOST_TABLED = 10


@dataclass(frozen=True, eq=False)
class Label:
    """The promises of a design or deployment file: ε as stated, nats, shapes (), (m,), (m,).

    ``flips`` are the probabilities that each attribute changes, shape (m,). ``changes`` takes k attributes, at most ``tabled``,
    to the probability of each set of them that changes, shape (2,)*k. ``randomize`` is our own randomizer of codes in place,
    with random bits of the operating system.
    """

    domain: Domain
    epsilon: float
    attribute_epsilons: FloatArray
    conditional_epsilons: FloatArray
    flips: FloatArray
    changes: Callable[[Sequence[int]], FloatArray]
    tabled: int
    randomize: Callable[[Codes], None]

    @property
    def sizes(self) -> IntArray:
        """r_i, shape (m,)."""
        return self.domain.sizes

    @property
    def width(self) -> int:
        """Codes of an answer."""
        return self.domain.m

    def foreign(self, codes: Codes) -> int:
        """How many answers hold what is none of the label's categories."""
        return int(np.count_nonzero(((codes < 0) | (codes >= self.sizes)).any(axis=1)))

    def read(self, lines: Sequence[bytes], count: int, name: str) -> Codes:
        """The codes of ``count`` lines; see :func:`answered_codes`."""
        return answered_codes(lines, self.domain, count, name)

    def agreement(self, chosen: Sequence[int]) -> float:
        """Probability that two independent answers differ from their records in the same way, on these attributes."""
        return float((self.changes(chosen).ravel() ** 2 / event_sizes(self.sizes[list(chosen)])).sum())


def _read_answers(lines: Sequence[bytes], count: int, name: str, kind: Any, form: str) -> Iterator[Any]:
    """The answers of ``count`` lines of JSON, each of this kind.

    Raises InvalidInput where there are more or fewer lines, or one is no such answer; the message shows nothing of it, and says
    in which ``form`` it should be.
    """
    answers = [line for line in lines if line.strip()]
    if len(answers) != count:
        raise InvalidInput(f"{name} answered {len(answers)} of {count} records; it must answer each with one line")
    decode = msgspec.json.Decoder(kind).decode
    for row, line in enumerate(answers, 1):
        try:
            yield decode(line)
        except MALFORMED:
            raise InvalidInput(f"{name}: line {row} is no answer; write {form}") from None


Value = str | int | float | bool | None


class _Answer(msgspec.Struct):
    values: list[Value]


def answered_codes(lines: Sequence[bytes], domain: Domain, count: int, name: str) -> Codes:
    """The answers' codes, shape (count, m); −1 where a value is none of the categories.

    Raises InvalidInput as :func:`_read_answers`.
    """
    out, known = np.empty((count, domain.m), dtype=np.int32), [a.codes for a in domain]
    form = '{"values": […]} with one value for each attribute'
    for row, answer in enumerate(_read_answers(lines, count, name, list[Value] | _Answer, form)):
        values = answer.values if isinstance(answer, _Answer) else answer
        if len(values) != domain.m:
            raise InvalidInput(f"{name}: line {row + 1} has {len(values)} values for {domain.m} attributes")
        out[row] = [codes.get(category_text(v), -1) for codes, v in zip(known, values, strict=True)]
    return out


class _QuestionReply(msgspec.Struct):
    table: int
    cells: str


@dataclass(frozen=True, eq=False)
class QuestionLabel:
    """The promises of a deployment file of questions.

    An answer has the codes of its question, from 0, and of the members of its subsets, one subset after another and ascending,
    then zeros; shape (n, ``width``). The first is −1 where it is no answer to a question.
    """

    deployed: DeployedQuestions

    @property
    def domain(self) -> Domain:
        """The attributes of a record."""
        return self.deployed.domain

    @property
    def epsilon(self) -> float:
        """Total ε as stated, nats."""
        return float(self.deployed.total)

    @property
    def sizes(self) -> IntArray:
        """r_i, shape (m,)."""
        return self.domain.sizes

    @property
    def width(self) -> int:
        """Codes of an answer."""
        return 1 + max(sum(q.report.subset_sizes) for q in self.deployed.questions)

    def foreign(self, codes: Codes) -> int:
        """How many answers answer no question."""
        return int(np.count_nonzero(codes[:, 0] < 0))

    def read(self, lines: Sequence[bytes], count: int, name: str) -> Codes:
        """The codes of ``count`` lines, each a JSON object with ``table`` and ``cells``; raises as :func:`_read_answers`."""
        out = np.zeros((count, self.width), dtype=np.int32)
        form = '{"table": 1, "cells": "…"} as the deployment format says'
        for row, reply in enumerate(_read_answers(lines, count, name, _QuestionReply, form)):
            members = self.deployed.members(reply.table, reply.cells)
            out[row, 0] = reply.table - 1 if members else -1
            out[row, 1 : 1 + len(members)] = members
        return out


Labelling: TypeAlias = (
    Label | QuestionLabel | Design | Mechanism | Deployment | DeployedQuestions | str | os.PathLike[str]
)


def label_of(given: Labelling) -> Label | QuestionLabel:
    """The label of a design, its mechanism, a deployment, or a file; a label is returned as it is.

    Raises InvalidInput for anything else, and for a file whose own numbers do not hold.
    """
    if isinstance(given, str | os.PathLike):
        path = content_of(Path(given), "design or deployment file")
        kind = kind_of(path)
        if kind == SAMPLED_TABLES:
            raise InvalidInput(f"{path} is for perturb and export; audit the file that optrr export makes of it")
        return label_of(load_deployment(path) if kind == DEPLOYMENT else load_design(path))
    if isinstance(given, Label | QuestionLabel):
        return given
    if isinstance(given, DeployedQuestions):
        return QuestionLabel(given)
    if isinstance(given, Design):
        given = given.mechanism
    if isinstance(given, Mechanism):
        return _of_mechanism(given)
    if isinstance(given, Deployment):
        return _of_deployment(given)
    raise InvalidInput(f"got a {type(given).__name__} for a label; give a design, a mechanism, a deployment, or a file")


def _of_mechanism(mechanism: Mechanism) -> Label:
    def randomize(codes: Codes) -> None:
        mechanism.randomize_in_place(codes, SystemSource())

    return Label(
        mechanism.domain,
        mechanism.epsilon,
        mechanism.attribute_epsilons,
        mechanism.conditional_epsilons,
        mechanism.law.one_way()[:, 1],
        mechanism.law.marginal,
        _MOST_TABLED,
        randomize,
    )


def _of_deployment(deployed: Deployment) -> Label:
    automaton, stated = deployed.automaton, deployed.stated
    sampler = Sampler(automaton)

    def changes(chosen: Sequence[int]) -> FloatArray:
        return change_probabilities(automaton, chosen)

    def randomize(codes: Codes) -> None:
        sampler.randomize(codes, SystemSource())

    widest = max(layer.states for layer in automaton.layers)
    return Label(
        deployed.domain,
        float(stated.total),
        np.array([float(x) for x in stated.attributes]),
        np.array([float(x) for x in stated.conditional]),
        np.array([changes([i])[1] for i in range(deployed.domain.m)]),
        changes,
        max(1, min(_MOST_TABLED, (_MOST_SUMS // widest).bit_length() - 1)),
        randomize,
    )


def change_probabilities(automaton: Layers, chosen: Sequence[int]) -> FloatArray:
    """Probability of each set of the chosen attributes that changes, shape (2,)*k: one forward pass, in doubles."""
    mass, visited = np.ones((1, 1)), []
    widths = [layer.states for layer in automaton.layers[1:]] + [1]
    for layer, width in zip(automaton.layers, widths, strict=True):
        if isinstance(layer, ChoiceLayer):
            ends = np.concatenate([[0.0], layer.ends.astype(np.float64) / 2.0**64, [1.0]])
            mass = _moved(np.diff(ends)[:, None] * mass, layer.next_states, width)
            continue
        kept, changed = _passed(layer, int(automaton.sizes[layer.attribute]), mass, width)
        if layer.attribute in chosen:
            visited.append(layer.attribute)
            mass = np.stack([kept, changed], axis=-1).reshape(width, -1)
        else:
            mass = kept + changed
    table = mass[0].reshape((2,) * len(visited))
    return np.transpose(table, [visited.index(i) for i in chosen])


def _passed(layer: Layer, size: int, mass: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    """The mass after a layer where its attribute was kept, and where it changed; shape (states after, sets) each."""
    if layer.uniform:
        return (_moved(mass / size, layer.kept, width), _moved(mass * ((size - 1) / size), layer.kept, width))
    shares = Doubles().shares
    kept = _moved(mass * shares(complement(layer.words))[:, None], layer.kept, width)
    if layer.high is None or layer.high_words is None:
        return kept, _moved(mass * shares(layer.words)[:, None], layer.changed, width)
    low = _moved(mass * shares(difference(layer.words, layer.high_words))[:, None], layer.changed, width)
    return kept, low + _moved(mass * shares(layer.high_words)[:, None], layer.high, width)


def _moved(mass: FloatArray, states: IntArray, width: int) -> FloatArray:
    out = np.zeros((width, mass.shape[1]))
    np.add.at(out, states, mass)
    return out
