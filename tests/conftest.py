"""A failure's reason is told at once: a run of hours may be ended before the summary. Collecting tests makes no garbage.

Simulations whose functions are those that they passed with are skipped (`simulations.py`).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from typing import Any

import browsers
import pytest
import simulations


class _AtOnce:
    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            reason = getattr(report.longrepr, "reprcrash", None) or report.longreprtext.splitlines()[-1]
            self._terminal.write_line(f"\n{report.nodeid} {report.when}: {reason}")


@pytest.hookimpl(trylast=True)
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; without it the test is skipped."""
    with browsers.launched() as launched:
        yield launched


def pytest_configure(config: pytest.Config) -> None:
    """After pytest's own reporter is there."""
    # tables that tests read are as wide here as anywhere
    os.environ.pop("COLUMNS", None)
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        config.pluginmanager.register(_AtOnce(terminal), "failures-at-once")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay to the end, so they are not looked through for garbage, neither now nor in between."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After those that are not wanted are left out; only usual runs skip, all others run what they select."""
    drawn = [item for item in items if item.get_closest_marker("simulation")]
    if drawn and config.option.markexpr.startswith("not full"):
        unchanged = _unchanged(config)
        for item in drawn:
            file, _, name = item.nodeid.partition("::")
            if name in unchanged.get(file, ()):
                item.add_marker(pytest.mark.skip(reason=simulations.REASON))


def _unchanged(config: pytest.Config) -> dict[str, list[str]]:
    """Reading the whole tree takes seconds, so the outcome is kept until a file changes."""
    digest = simulations.digest_of_tree()
    cache = getattr(config, "cache", None)
    known = cache.get("optrr/simulations", {}) if cache else {}
    if known.get("digest") != digest:
        known = {"digest": digest, "unchanged": simulations.unchanged(simulations.kept(), simulations.tree())}
        if cache:
            cache.set("optrr/simulations", known)
    return dict(known["unchanged"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many simulations did not run."""
    skipped = [r for r in terminalreporter.stats.get("skipped", ()) if simulations.REASON in r.longreprtext]
    if skipped:
        terminalreporter.write_line(
            f"{len(skipped)} simulations are {simulations.REASON}; make test-full runs them all"
        )
