# SPDX-License-Identifier: BSD-3-Clause
"""Building hasp, where not everything that its tests need is there."""

import gzip
import hashlib
import json
import subprocess

import pytest

from harness import TOP
from harness.sanitizers import UNLESS_SANITIZED

pytestmark = UNLESS_SANITIZED


@pytest.fixture
def without_cmocka(tmp_path):
    """A directory in which hasp was configured on a machine that has no cmocka."""
    pkg_config = tmp_path / "pkg-config"
    pkg_config.write_text('#!/bin/sh\ncase $* in *cmocka*) exit 1 ;; esac\nexec pkg-config "$@"\n')
    pkg_config.chmod(0o755)
    run(tmp_path, TOP / "configure", f"PKG_CONFIG={pkg_config}")
    return tmp_path


def run(directory, *command):
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_hasp_is_built_without_the_library_that_its_tests_need(without_cmocka):
    """As contrib/quickstart does: nothing but the packages that hasp itself needs."""
    commands = run(without_cmocka, "make", "-n", "V=1")
    assert "-o hasp " in commands and "proxy/main.c" in commands
    assert "tests/unit" not in commands and "cmocka" not in commands


def blob(directory, about):
    """What is named there, and is what it is said to be."""
    data = (directory / "blobs" / about["digest"].replace(":", "/")).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (about["size"], about["digest"].partition(":")[2])
    return data


def test_image_is_one_that_container_engines_read(tmp_path):
    """The form alone: contrib/container/build takes minutes."""
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
    assert config["config"]["User"] == "hasp"


def test_image_is_run_the_same_way_whichever_tool_makes_it():
    assert "Containerfile" in run(TOP, "contrib/container/build", "--help")
    recipe = (TOP / "contrib/container/Containerfile").read_text()
    image = (TOP / "contrib/container/oci-image").read_text()
    for said, also in (('ENTRYPOINT ["/usr/bin/hasp"]', '"Entrypoint": ["/usr/bin/hasp"]'),
                       ('CMD ["/etc/hasp/hasp.ini"]', '"Cmd": ["/etc/hasp/hasp.ini"]'),
                       ("EXPOSE 6380", '"ExposedPorts": {"6380/tcp": {}}'), ("USER hasp", '"User": "hasp"')):
        assert said in recipe and also in image
