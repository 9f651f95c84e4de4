"""optrr demo: design, randomize and estimate on the bundled Adult data."""

from optrr.cli.inputs import RANDOM_STATE
from optrr.cli.options import command
from optrr.cli.printing import give
from optrr.studies.demonstration import demonstrate


@command
def demo(random_state: int | None = RANDOM_STATE) -> None:
    """Design, randomize and estimate on the bundled Adult data; no network.

    Example: optrr demo --random-state 1
    """
    give(demonstrate(random_state))
