"""The label of a design, deployment or file: ε, and which attributes change together."""

import os
from collections.abc import Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from optrr.core.design import Design, load_design
from optrr.core.errors import InvalidInput
from optrr.core.mechanisms import Mechanism
from optrr.core.provenance import DEPLOYMENT, SAMPLED_TABLES, content_of, kind_of
from optrr.devices.deployment_file import DeployedQuestions, DeployedTrials, Deployment
from optrr.devices.planting import Codes
from optrr.devices.query_audit import QueryLabel
from optrr.devices.record_audit import Label
from optrr.devices.verify import load_deployment
from optrr_solvers.arrays import FloatArray, IntArray
from optrr_solvers.randomness import SystemSource
from optrr_solvers.sampling.arithmetic import Doubles, complement, difference
from optrr_solvers.sampling.diagram import ChoiceLayer, Layer, Layers
from optrr_solvers.sampling.draw import Sampler

# Numbers that the sums over an automaton's states hold at once.
_MOST_SUMS = 1 << 22
# Attributes whose sets of changes are tabled at once.
_MOST_TABLED = 10

Labelling: TypeAlias = (
    Label | QueryLabel | Design | Mechanism | Deployment | DeployedTrials | DeployedQuestions | str | os.PathLike[str]
)


@singledispatch
def label_of(given: Any) -> Label | QueryLabel:
    """Return the label of a design, mechanism, deployment, or file.

    A label is returned unchanged.

    Raises InvalidInput for anything else, and for a file whose own numbers do not hold.
    """
    raise InvalidInput(
        f"``label``: a {type(given).__name__} is not a label; give a design, a mechanism, a deployment, or a file"
    )


@label_of.register(str)
@label_of.register(os.PathLike)
def _of_file(given: str | os.PathLike[str]) -> Label | QueryLabel:
    path = content_of(Path(given), "design or deployment file")
    kind = kind_of(path)
    if kind == SAMPLED_TABLES:
        raise InvalidInput(f"{path}: cannot be audited itself; audit the file that optrr export makes of it")
    return label_of(load_deployment(path) if kind == DEPLOYMENT else load_design(path))


@label_of.register(Label)
@label_of.register(QueryLabel)
def _of_label(given: Label | QueryLabel) -> Label | QueryLabel:
    return given


label_of.register(DeployedQuestions, QueryLabel)


@label_of.register
def _of_design(design: Design) -> Label:
    return _of_mechanism(design.mechanism)


@label_of.register
def _of_mechanism(mechanism: Mechanism) -> Label:
    def randomize(codes: Codes) -> None:
        mechanism.randomize_in_place(codes, SystemSource())

    return Label(
        mechanism.domain,
        mechanism.epsilon,
        mechanism.law.one_way()[:, 1],
        mechanism.law.marginal,
        _MOST_TABLED,
        randomize,
    )


@label_of.register
def _of_deployment(deployed: Deployment) -> Label:
    automaton = deployed.automaton
    sampler = Sampler(automaton)

    def changes(chosen: Sequence[int]) -> FloatArray:
        return change_probabilities(automaton, chosen)

    def randomize(codes: Codes) -> None:
        sampler.randomize(codes, SystemSource())

    widest = max(layer.states for layer in automaton.layers)
    return Label(
        deployed.domain,
        float(deployed.stated.total),
        np.array([changes([i])[1] for i in range(deployed.domain.m)]),
        changes,
        max(1, min(_MOST_TABLED, (_MOST_SUMS // widest).bit_length() - 1)),
        randomize,
    )


@label_of.register
def _of_trials(deployed: DeployedTrials) -> Label:
    trials = deployed.trials

    def randomize(codes: Codes) -> None:
        trials.randomize(codes, SystemSource())

    most = max(1, min(_MOST_TABLED, (_MOST_SUMS // max(ball.end for ball in trials.balls)).bit_length() - 1))
    return Label(deployed.domain, float(deployed.stated.total), trials.flips[1], trials.changes, most, randomize)


def change_probabilities(automaton: Layers, chosen: Sequence[int]) -> FloatArray:
    """Compute probabilities of the chosen attributes' flip patterns, (2,)*k.

    One forward pass, in doubles.
    """
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
    """Compute masses after a layer, for kept and for changed attribute.

    Shape (states after, sets) each.
    """
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
