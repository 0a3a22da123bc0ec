# SPDX-License-Identifier: BSD-3-Clause
"""The files in contrib/ for Kubernetes, Helm and Compose: hasp accepts their configurations."""

import os
import pathlib
import re
import subprocess

import pytest
import yaml
from harness import until
from harness.apps import run_app
from harness.by_hand import run
from harness.processes import TOP
from harness.scrape import HTTP, ask

KUBERNETES = TOP / "contrib/kubernetes/hasp.yaml"
COMPOSE = TOP / "contrib/compose/compose.yaml"
CHART = TOP / "contrib/helm"


def by_kind(text):
    return {o["kind"]: o for o in yaml.safe_load_all(text) if o}


def chart(*settings, release="hasp"):
    """Returns {kind: object} of the chart, as `helm template` renders it."""
    environment = os.environ | {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": ""}
    done = subprocess.run(["go", "run", TOP / "tests/e2e/harness/helm_template.go", CHART, release, *settings],
                          env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return by_kind(done.stdout)


@pytest.fixture(params=["manifest", pytest.param("chart", marks=pytest.mark.nightly)])
def objects(request):
    return by_kind(KUBERNETES.read_text()) if request.param == "manifest" else chart()


def compose():
    return yaml.safe_load(COMPOSE.read_text())


def seconds(text, option):
    return int(re.search(rf"^{option} = (\d+)s$", text, re.M)[1])


def check(tmp_path, text):
    path = tmp_path / "hasp.ini"
    path.write_text(text)
    result = run("-tq", "-c", path)
    assert (result.returncode, result.stderr) == (0, "")


def test_hasp_takes_kubernetes_file_without_a_warning(tmp_path, objects):
    check(tmp_path, objects["ConfigMap"]["data"]["hasp.ini"])


def test_hasp_takes_composes_file_without_a_warning(tmp_path):
    check(tmp_path, compose()["configs"]["hasp"]["content"])


def test_composes_shop_oversells_past_hasp_and_not_through_it(start_hasp, redis_server):
    service = compose()["services"]["shop"]
    program, path = service["command"]
    build = service["build"]["dockerfile_inline"]
    files = re.search(r"^COPY (.*) /shop/$", build, re.M)[1].split()
    assert all((COMPOSE.parent / service["build"]["context"] / name).is_file() for name in files)
    assert pathlib.Path(path).name in files and program == "php"
    rule = re.search(r"^\[lock jobs\]\n.*", compose()["configs"]["hasp"]["content"], re.M | re.S)[0]
    hasp = start_hasp(rule)
    sold = [run_app(pathlib.Path(path).name, address) for address in (redis_server.address, hasp.address)]
    assert sold[0]["oversold"] > 0 == sold[1]["oversold"]


def test_pod_is_asked_where_hasp_answers_and_has_time_to_end(start_hasp, objects):
    text = objects["ConfigMap"]["data"]["hasp.ini"]
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    container, = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert [f"*:{ports['redis']}", f"*:{ports['http']}"] == re.findall(r"^listen = (\S+)", text, re.M)
    assert pod["terminationGracePeriodSeconds"] > seconds(text, "lame_duck") + seconds(text, "drain_timeout")
    hasp = start_hasp(HTTP).is_up()
    for probe in "readinessProbe", "livenessProbe":
        where = container[probe]["httpGet"]
        assert where["port"] == "http"
        until(lambda: ask(hasp, where["path"])[0].status == 200, "hasp to be ready")
    readiness = container["readinessProbe"]
    assert readiness["periodSeconds"] * readiness["failureThreshold"] < seconds(text, "lame_duck")
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert objects["Service"]["spec"]["selector"].items() <= labels.items()
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_container_is_not_root_and_writes_nothing(objects):
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    security = pod.get("securityContext", {}) | pod["containers"][0]["securityContext"]
    assert security == {
        "runAsNonRoot": True, "runAsUser": 990, "runAsGroup": 990, "seccompProfile": {"type": "RuntimeDefault"},
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    image = (TOP / "contrib/container/Containerfile").read_text()
    assert "USER 990:990\n" in image and "useradd --system --uid 990 " in image
    assert compose()["services"]["hasp"]["read_only"]


@pytest.mark.nightly
def test_charts_secret_and_monitor_fit_its_pod(tmp_path):
    objects = chart("password.secret=redis", "serviceMonitor.enabled=true", "podAnnotations={}", release="shop")
    container, = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = objects["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert {volume["name"] for volume in volumes} == mounted.keys()
    assert volumes[0]["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"] == "shop-hasp"
    assert f"password_file = {mounted['hasp-secret']}/password\n" in objects["ConfigMap"]["data"]["hasp.ini"]
    monitor = objects["ServiceMonitor"]["spec"]
    service = objects["Service"]  # the chart has two; the later one is for metrics
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "hasp"  # the alerts expect this job name


def test_chart_has_hasps_version():
    version = re.search(r"^AC_INIT\(\[hasp\], \[(.*)\]\)", (TOP / "configure.ac").read_text(), re.M)[1]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version


@pytest.mark.nightly
def test_chart_as_a_sidecar_has_only_its_file():
    assert chart("deployment=false").keys() == {"ConfigMap"}


def test_compose_names_only_files_that_there_are():
    services = compose()["services"]
    for service in services.values():
        for volume in service.get("volumes", []):
            assert (COMPOSE.parent / volume.split(":")[0]).is_file()
        assert {config["source"] for config in service.get("configs", [])} <= set(compose()["configs"])
    prometheus = yaml.safe_load(compose()["configs"]["prometheus"]["content"])
    assert prometheus["scrape_configs"][0]["job_name"] == "hasp"
