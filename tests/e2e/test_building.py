# SPDX-License-Identifier: BSD-3-Clause
"""Building hasp on a machine that lacks libraries or programs of the scripts or the tests."""

import gzip
import hashlib
import json
import os
import subprocess

import pytest

from harness import TOP
from harness.sanitizers import UNLESS_SANITIZED

pytestmark = UNLESS_SANITIZED


@pytest.fixture
def without_cmocka(tmp_path):
    """A directory in which hasp was configured without cmocka."""
    pkg_config = tmp_path / "pkg-config"
    pkg_config.write_text('#!/bin/sh\ncase $* in *cmocka*) exit 1 ;; esac\nexec pkg-config "$@"\n')
    pkg_config.chmod(0o755)
    run(tmp_path, TOP / "configure", f"PKG_CONFIG={pkg_config}")
    return tmp_path


def run(directory, *command):
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
def test_hasp_is_built_without_the_library_that_its_tests_need(without_cmocka):
    """Like contrib/quickstart, the test has only the packages that hasp itself needs."""
    commands = run(without_cmocka, "make", "-n", "V=1")
    assert "-o hasp " in commands and "proxy/main.c" in commands
    assert "tests/unit" not in commands and "cmocka" not in commands


@pytest.fixture
def bare_machine(tmp_path):
    """start(command, sudo=..., uid=...) runs a command where no Debian package is installed. `sudo` is a shell
    command that replaces sudo. Returns the status, the lines of standard error, and the calls of apt-get."""
    def start(*command, sudo="exit 1", uid=1000):
        for name, does in {"dpkg-query": "exit 1", "id": f"echo {uid}", "sudo": sudo,
                           "apt-get": f"echo apt-get $* >> {tmp_path}/log"}.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
            (tmp_path / name).chmod(0o755)
        env = {name: value for name, value in os.environ.items() if name != "HASP"}
        done = subprocess.run(command, env={**env, "PATH": f"{tmp_path}:{env['PATH']}"}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False)
        log = tmp_path / "log"
        return done.returncode, done.stderr.splitlines(), log.read_text().splitlines() if log.exists() else []

    return start


INSTALL = ("bash", "-c", '. "$0" && install_missing one:sh two three:no-such-command', TOP / "contrib/lib.sh")
INSTALLED = ["apt-get update", "apt-get install -y --no-install-recommends two three"]


@pytest.mark.parametrize("sudo", ["exit 127", '[ "$1" = -n ] || echo asks >> "$(dirname "$0")/log"; exit 1'],
                         ids=["none", "password"])
def test_packages_that_only_root_can_install_are_named_in_one_line(bare_machine, sudo):
    status, said, ran = bare_machine(*INSTALL, sudo=sudo)
    assert status == 1 and ran == []
    assert said == ["packages are missing, and only root can install them: "
                    "apt-get install --no-install-recommends two three"]


@pytest.mark.parametrize("machine", [{"uid": 0}, {"sudo": '[ "$1" = -n ] && shift; "$@"'}], ids=["root", "sudo"])
def test_missing_packages_are_installed_by_root_or_by_a_sudo_without_password(bare_machine, machine):
    status, said, ran = bare_machine(*INSTALL, **machine)
    assert (status, said, ran) == (0, ["installing two three"], INSTALLED)


@pytest.mark.parametrize("script, packages", [
    ("contrib/quickstart", ["php-redis", "libev-dev"]), ("contrib/tour", ["python3-redis", "libev-dev"]),
    ("contrib/lint", ["cppcheck", "libev-dev"]), ("contrib/build-deb", ["debhelper", "libev-dev"]),
    ("tests/deb", ["lintian", "debhelper", "libev-dev"])])
def test_script_names_all_packages_that_it_needs_at_once(bare_machine, tmp_path, script, packages):
    arguments = [tmp_path / "out"] if script == "contrib/build-deb" else []
    status, said, _ = bare_machine(TOP / script, *arguments)
    assert status not in (0, None)
    named, = [line.split() for line in said if "only root can install" in line]
    assert set(packages) <= set(named)


def blob(directory, about):
    """Returns the blob that the descriptor names, after a check of its size and digest."""
    data = (directory / "blobs" / about["digest"].replace(":", "/")).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (about["size"], about["digest"].partition(":")[2])
    return data


def test_image_is_one_that_container_engines_read(tmp_path):
    """Checks only the image's format: contrib/container/build takes minutes."""
    (tmp_path / "file").write_text("content")
    run(tmp_path, "tar", "-cf", "root.tar", "file")
    run(tmp_path, TOP / "contrib/container/oci-image", "hasp:1.2", "root.tar", "image.tar")
    image = tmp_path / "image"
    image.mkdir()
    run(image, "tar", "-xf", "../image.tar")
    assert json.loads((image / "oci-layout").read_text())["imageLayoutVersion"] == "1.0.0"
    index, = json.loads((image / "index.json").read_text())["manifests"]
    assert index["annotations"] == {"org.opencontainers.image.ref.name": "hasp:1.2"}
    manifest = json.loads(blob(image, index))
    config = json.loads(blob(image, manifest["config"]))
    layer = gzip.decompress(blob(image, manifest["layers"][0]))
    assert layer == (tmp_path / "root.tar").read_bytes()
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert config["config"]["User"] == "990:990"


def test_image_is_run_the_same_way_whichever_tool_makes_it():
    assert "Containerfile" in run(TOP, "contrib/container/build", "--help")
    recipe = (TOP / "contrib/container/Containerfile").read_text()
    image = (TOP / "contrib/container/oci-image").read_text()
    for said, also in (('ENTRYPOINT ["/usr/bin/hasp"]', '"Entrypoint": ["/usr/bin/hasp"]'),
                       ('CMD ["/etc/hasp/hasp.ini"]', '"Cmd": ["/etc/hasp/hasp.ini"]'),
                       ("EXPOSE 6380 9380", '"ExposedPorts": {"6380/tcp": {}, "9380/tcp": {}}'),
                       ("USER 990:990", '"User": "990:990"')):
        assert said in recipe and also in image
