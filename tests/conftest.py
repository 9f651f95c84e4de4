"""A failure's reason is told at once: a run of hours may be ended before pytest's summary."""

from __future__ import annotations

import os

import pytest


class _AtOnce:
    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            reason = getattr(report.longrepr, "reprcrash", None) or report.longreprtext.splitlines()[-1]
            self._terminal.write_line(f"\n{report.nodeid} {report.when}: {reason}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """After pytest's own reporter is there."""
    # tables that tests read are as wide here as anywhere
    os.environ.pop("COLUMNS", None)
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        config.pluginmanager.register(_AtOnce(terminal), "failures-at-once")
