# SPDX-License-Identifier: BSD-3-Clause
"""What contrib/ has for Kubernetes and Compose: files that hasp takes, and what they promise of it."""

import re

import pytest
import yaml
from harness.by_hand import run
from harness.processes import TOP
from harness.scrape import HTTP, ask

KUBERNETES = TOP / "contrib/kubernetes/hasp.yaml"
COMPOSE = TOP / "contrib/compose/compose.yaml"


def objects():
    return {o["kind"]: o for o in yaml.safe_load_all(KUBERNETES.read_text())}


def compose():
    return yaml.safe_load(COMPOSE.read_text())


def seconds(text, option):
    return int(re.search(rf"^{option} = (\d+)s$", text, re.M)[1])


@pytest.mark.parametrize("text", [objects()["ConfigMap"]["data"]["hasp.ini"], compose()["configs"]["hasp"]["content"]],
                         ids=["kubernetes", "compose"])
def test_hasp_takes_the_file_without_a_warning(tmp_path, text):
    path = tmp_path / "hasp.ini"
    path.write_text(text)
    result = run("-tq", "-c", path)
    assert (result.returncode, result.stderr) == (0, "")


def test_pod_is_asked_where_hasp_answers_and_has_time_to_end(start_hasp):
    text = objects()["ConfigMap"]["data"]["hasp.ini"]
    pod = objects()["Deployment"]["spec"]["template"]["spec"]
    container, = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert [f"*:{ports['redis']}", f"*:{ports['http']}"] == re.findall(r"^listen = (\S+)", text, re.M)
    assert pod["terminationGracePeriodSeconds"] > seconds(text, "lame_duck") + seconds(text, "drain_timeout")
    hasp = start_hasp(HTTP).is_up()
    for probe in "readinessProbe", "livenessProbe":
        where = container[probe]["httpGet"]
        assert where["port"] == "http" and ask(hasp, where["path"])[0].status == 200
    readiness = container["readinessProbe"]
    assert readiness["periodSeconds"] * readiness["failureThreshold"] < seconds(text, "lame_duck")
    labels = objects()["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert objects()["Service"]["spec"]["selector"] == labels == objects()["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]


def test_container_is_not_root_and_writes_nothing(start_hasp):
    pod = objects()["Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    user = pod["securityContext"]["runAsUser"]
    image = (TOP / "contrib/container/Containerfile").read_text()
    assert f"USER {user}:{user}\n" in image and f"useradd --system --uid {user} " in image
    assert compose()["services"]["hasp"]["read_only"]


def test_compose_names_only_files_that_there_are():
    services = compose()["services"]
    for service in services.values():
        for volume in service.get("volumes", []):
            assert (COMPOSE.parent / volume.split(":")[0]).is_file()
        assert {config["source"] for config in service.get("configs", [])} <= set(compose()["configs"])
    prometheus = yaml.safe_load(compose()["configs"]["prometheus"]["content"])
    assert prometheus["scrape_configs"][0]["job_name"] == "hasp"
