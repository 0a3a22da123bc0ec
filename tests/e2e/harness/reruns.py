# SPDX-License-Identifier: BSD-3-Clause
"""Re-runs: a test that raised TooSlow runs again, a few times. The end of the run reports how
often.

TooSlow means that the test has shown nothing yet. But a defect can look like a slow machine, so the
last re-run counts, whatever it raises. conftest.py registers a Reruns as a plugin of pytest.
"""

import collections

import pytest
from _pytest.runner import runtestprotocol

from .wait import TooSlow

MOST = 3
PROPERTY = "reruns"


class Reruns:
    """Counts re-runs. With pytest-xdist, workers run the tests and the controller prints the
    summary, so the count travels as a property of the tests' reports."""

    def __init__(self):
        self.counts = collections.Counter()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        too_slow = bool(call.excinfo and call.excinfo.errisinstance(TooSlow))
        if too_slow and reruns_of(item) == MOST:
            call.excinfo.value.args = (f"promptness: in each of {MOST + 1} runs, at last: {call.excinfo.value}",)
        outcome = yield
        outcome.get_result().too_slow = too_slow

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        """Runs the test, and again if it raised TooSlow. Each re-run calls this hook again, so it
        has new fixtures, and pytest-timeout sets its timer again."""
        reruns = reruns_of(item)
        if not reruns:
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        failed = [report for report in reports if report.failed]
        if failed and all(report.too_slow for report in failed) and reruns < MOST:
            item.user_properties[:] = [(PROPERTY, reruns + 1)]
            return item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_runtest_logreport(self, report):
        """The report of the teardown is the last of each run."""
        if report.when == "teardown":
            self.counts[report.nodeid.rpartition("::")[2]] += reruns_of(report)

    def pytest_terminal_summary(self, terminalreporter):
        counts = [(name, count) for name, count in self.counts.most_common() if count]
        if counts:
            each = ", ".join(f"{name} {count}" for name, count in counts)
            terminalreporter.write_line(f"re-runs: {sum(count for _, count in counts)} ({each})")


def reruns_of(test):
    """Returns the number of re-runs in `test`, which is pytest's item or a report of it."""
    return dict(test.user_properties).get(PROPERTY, 0)
