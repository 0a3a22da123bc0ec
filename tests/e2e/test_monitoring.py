# SPDX-License-Identifier: BSD-3-Clause
"""contrib/ for Prometheus and Grafana: the alerts fire, and use only metrics that hasp has."""

import json
import re
import subprocess

import pytest
from harness.processes import TOP
from harness.quorum import Quorum, connected
from harness.scrape import HTTP, metrics
from harness.sections import VERBS, rule, section

RULES = TOP / "contrib/prometheus"
DASHBOARD = TOP / "contrib/grafana/hasp.json"
GUARD = section("guard stock", {"pattern": "stock:*", "acquire_on": "GET"})
OBSERVED = rule("tried", pattern="tried:*", mode="observe")
METRIC = re.compile(r"\bhasp_[a-z_]+\b")


@pytest.fixture
def told(start_hasp):
    """Returns {metric: names of its labels} for all metrics that hasp exports."""
    samples = metrics(start_hasp(rule() + OBSERVED + GUARD + VERBS + HTTP).is_up())
    with Quorum(3) as quorum:
        samples |= metrics(connected(start_hasp(quorum.sections() + HTTP), 3))
    return {name: {label for label, _ in labels} for name, labels in samples}


def promtool(*args):
    return subprocess.run(["promtool", *args], cwd=RULES, capture_output=True, text=True, check=False)


def families(told):
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in told}


def expressions(panel):
    return [target["expr"] for target in panel.get("targets", [])]


def test_rules_are_rules_and_fire_when_they_should():
    checked = promtool("check", "rules", "hasp.rules.yml")
    assert checked.returncode == 0 and "15 rules found" in checked.stdout
    tested = promtool("test", "rules", "hasp.rules.test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_rules_name_only_what_hasp_tells(told):
    names = set(METRIC.findall((RULES / "hasp.rules.yml").read_text()))
    assert names and names <= set(told) | families(told)


def test_dashboard_shows_only_what_hasp_tells(told):
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [expr for panel in dashboard["panels"] for expr in expressions(panel)]
    queries += [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    assert len(queries) > 30
    names = {name for query in queries for name in METRIC.findall(query)}
    assert names <= set(told)
    # The dashboard shows all of hasp's metrics but those listed here.
    shown = {re.sub(r"_bucket$", "", name) for name in names}
    assert families(told) - shown == {"hasp_workers", "hasp_workers_answered", "hasp_guard_released_total",
                                "hasp_guard_waited_total", "hasp_guard_handed_over_total",
                                "hasp_guard_wait_timed_out_total", "hasp_guard_released_at_disconnect_total"}


def test_dashboard_groups_by_labels_that_there_are(told):
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for query in expressions(panel):
            labels = {label for name in METRIC.findall(query) for label in told[name]} | {"instance"}
            for by in re.findall(r"by \(([^)]*)\)", query):
                assert set(by.split(", ")) <= labels, query


def test_dashboard_counts_waiters_where_there_are_no_guards(tmp_path):
    panels = json.loads(DASHBOARD.read_text())["panels"]
    expr, = [expr for panel in panels for expr in expressions(panel) if "hasp_lock_waiters" in expr and "by" not in expr]
    waiters = {"series": 'hasp_lock_waiters{instance="a",rule="orders",kind="lock"}', "values": "3"}
    expected = {"expr": expr.replace("$instance", ".*"), "eval_time": "0s", "exp_samples": [{"value": 3}]}
    (tmp_path / "test.yml").write_text(json.dumps({"tests": [{"input_series": [waiters], "promql_expr_test": [expected]}]}))
    tested = promtool("test", "rules", tmp_path / "test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_dashboard_has_no_two_panels_in_one_place():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [(x, y) for p in panels for g in [p["gridPos"]]
             for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    assert len(set(taken)) == len(taken) and all(x < 24 for x, _ in taken)
