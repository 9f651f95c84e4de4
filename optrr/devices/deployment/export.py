"""From a design to what a device runs: the law's automaton, with every ε recomputed from its integers."""

from __future__ import annotations

import gzip
from dataclasses import replace

from optrr.devices.deployment.deployment_file import Deployment, StatedEpsilons, read_deployment_text
from optrr.devices.deployment.exact import Epsilons, epsilons
from optrr.devices.deployment.short import shortened
from optrr.errors import InvalidInput
from optrr.mechanisms.mechanism import Mechanism
from optrr.version import SOFTWARE
from optrr_solvers.automaton.layers import ChoiceLayer, Layers, merged

__all__ = ["compressed_size", "deployment_of"]


def deployment_of(mechanism: Mechanism, *, short: bool = False) -> Deployment:
    """The deployment of a mechanism, whatever its size; ``short``: with no more digits than the total ε needs.

    Its ε are those of the integers that a device draws with, exactly (with hidden chances: bounded from above), rounded up in
    the 15th place. The total does not exceed the mechanism's label by more than that, or, where ``short``, by 1e-9.

    Raises
    ------
    InvalidInput
        where the law has no automaton, or one too large for exact sums.
    """
    layers = plain_automaton(mechanism)
    layers = shortened(layers) if short else layers
    made = written(mechanism, layers, stated_epsilons(epsilons(layers)))
    # what a reader would refuse is refused here, before anybody is asked
    return read_deployment_text(made.to_bytes())


def compressed_size(deployment: Deployment) -> int:
    """Bytes of the file after gzip."""
    return len(gzip.compress(deployment.to_bytes(), 9, mtime=0))


def plain_automaton(mechanism: Mechanism) -> Layers:
    """What the mechanism draws with. Raises InvalidInput where it has no automaton."""
    automaton = mechanism.law.automaton
    if automaton is None:
        raise InvalidInput(
            f"the law of {mechanism.domain.m} attributes has no automaton of a size that can be written; "
            "design by method 'ball' with fewer attributes, or perturb where the records are"
        )
    return plain(automaton.layers)


def written(mechanism: Mechanism, layers: Layers, stated: StatedEpsilons) -> Deployment:
    """The deployment that states these ε."""
    return Deployment(mechanism.domain, layers, stated, mechanism.digest.partition(":")[2], SOFTWARE)


def plain(automaton: Layers) -> Layers:
    """Without what only bounds of a law use, and with the fewest states."""
    layers = tuple(x if isinstance(x, ChoiceLayer) else replace(x, fraction=0.0) for x in automaton.layers)
    return merged(Layers(automaton.sizes, layers, automaton.bits))


def stated_epsilons(exact: Epsilons) -> StatedEpsilons:
    """As the file states them."""
    return StatedEpsilons(
        f"{exact.total:f}", tuple(f"{x:f}" for x in exact.attributes), tuple(f"{x:f}" for x in exact.conditional)
    )
