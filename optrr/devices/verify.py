"""Check a deployment file: recompute every ε from its integers alone.

Nothing else in the file is trusted. The time is estimated from the number of states and bits before any computation
(:func:`optrr.devices.exact.work`); a file that needs long is checked in a separate process, under the limits of
:mod:`optrr.core.design.verification`.
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from optrr.core.design import Check, CheckedFiles, Verification, refuse_large
from optrr.core.files import load
from optrr.core.provenance import Given, content_of, function_of
from optrr.devices.deployment_file import Deployed, decoded_deployment

# Maximum excess of a stated ε over the exact one, in nats; it is never below.
LABEL_TOLERANCE = Decimal("1e-9")
# Its digest is of the design's law, which the automaton no longer has; under another digest a person would be asked twice.
_UNKNOWN = "that it belongs to design {}…, which is stated but requires that design: give ``design``"


def verify_deployment(path: Given, design: Given | None = None, *, limited: bool = True) -> Verification:
    """Recompute every ε of a deployment file.

    With the file of a protocol, also check that it was exported from that protocol. For ``limited`` and exceptions see
    :func:`optrr.verify`.
    """
    if limited:
        refuse_large(path, DEPLOYMENTS.what)
    # read once, so that the checked and the compared bytes are the same
    path = content_of(path, DEPLOYMENTS.what)
    result = DEPLOYMENTS.verified(path, limited=limited)
    read = decoded_deployment(path.raw, path)
    if design is None:
        return replace(result, unchecked=(_UNKNOWN.format(read.design[:12]),))
    return replace(result, checks=(*result.checks, _belongs(read, load(design, limited=limited))))


def _verified(deployed: Deployed) -> Verification:
    return Verification(tuple(_check(*each) for each in deployed.recomputed()), deployed.intact)


DEPLOYMENTS = CheckedFiles(
    "deployment file",
    "optrr.devices.verify:DEPLOYMENTS.checked",
    decoded_deployment,
    _verified,
    lambda deployed: deployed.is_heavy,
    "export the design again",
)


def load_deployment(path: Given, *, limited: bool = True) -> Deployed:
    """Load a deployment file after recomputing every ε, for a collector.

    Raises InvalidInput where the file cannot be read, was changed, or states an ε that does not hold; where its checks take
    too long.
    """
    return DEPLOYMENTS.loaded(path, limited=limited)


def _check(name: str, stated: Sequence[str], exact: Sequence[Decimal], how: str) -> Check:
    holds = all(x <= Decimal(s) <= x + LABEL_TOLERANCE for s, x in zip(stated, exact, strict=True))
    return Check(name, _range([Decimal(s) for s in stated]), _range(exact), how, holds)


def _range(values: Sequence[Decimal]) -> str:
    low, high = min(values), max(values)
    return f"{low:f}" if low == high else f"{low:f}..{high:f}"


def _belongs(deployed: Deployed, made: Any) -> Check:
    """Check that a protocol's own export is this file.

    Apart from the name of the software that wrote it.
    """
    exports = function_of(made.file_format, "exports")
    own = [] if exports is None else exports(made)
    written = replace(deployed, intact=True).to_bytes()
    holds = any(replace(each, software=deployed.software).to_bytes() == written for each in own)
    return Check("design", deployed.design[:12], made.digest.partition(":")[2][:12], "exported again", holds)
