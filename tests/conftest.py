"""A failure's reason is told at once: a run of hours may be ended before the summary. Collecting tests makes no garbage."""

import gc
import os
from collections.abc import Generator, Iterator
from typing import Any

import browsers
import pytest


class _AtOnce:
    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            reason = getattr(report.longrepr, "reprcrash", None) or report.longreprtext.splitlines()[-1]
            self._terminal.write_line(f"\n{report.nodeid} {report.when}: {reason}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; without it the test is skipped."""
    with browsers.launched() as launched:
        yield launched


@pytest.hookimpl(trylast=True)
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
