# SPDX-License-Identifier: BSD-3-Clause
"""Client libraries and redis-cli use TLS, and so does hasp to a Redis that accepts only TLS."""

import re

import pytest
from harness.sections import VERBS, rule
from harness.tls import TlsRedis, tls_address
from test_client_libraries import CLIENTS, NODE_MODULES, run

# Makes each program of test_client_libraries.py use TLS: (text in the program, its replacement).
ENCRYPTED = {
    "redis-py": ("decode_responses=True", 'decode_responses=True, ssl=True, ssl_ca_certs=os.environ["CA"]'),
    "phpredis": ('getenv("HOST"), (int)getenv("PORT")', '"tls://" . getenv("HOST"), (int)getenv("PORT"), 0, null, 0, 0, '
                 '["stream" => ["cafile" => getenv("CA")]]'),
    "ruby-redis": ('id: "me"', 'id: "me", ssl: true, ssl_params: { ca_file: ENV["CA"] }'),
    "ioredis": ('connectionName: "me"', 'connectionName: "me", tls: { ca: require("fs").readFileSync(process.env.CA) }'),
    "node-redis": ("port: +process.env.PORT", 'port: +process.env.PORT, tls: true, '
                   'ca: require("fs").readFileSync(process.env.CA)'),
}


@pytest.fixture(scope="module")
def tls_redis(authority, certificate):
    with TlsRedis(authority, certificate, "--port", 0) as redis:
        yield redis


@pytest.fixture
def plain(tls_redis):
    with tls_redis.client() as client:
        client.flushall()
        yield client


@pytest.fixture
def hasp(tls_hasp):
    return tls_hasp(rule() + VERBS)


@pytest.mark.parametrize("client", ENCRYPTED)
def test_client_library_that_encrypts(hasp, plain, authority, tmp_path, client):
    argv, code = CLIENTS[client]
    old, new = ENCRYPTED[client]
    assert old in code
    (tmp_path / "app").write_text(code.replace(old, new, 1))
    _, port = tls_address(hasp)
    out = run([*argv, tmp_path / "app"], host="localhost", port=port, ca=authority.cert, node_path=NODE_MODULES)
    assert plain.get("a") == "4" and not plain.exists("lock:1"), out
    assert re.search(r"\b1\b.*\b2\b.*\b3\b.*\b4\b.*(1|[Tt]rue).*\b1\b", out, re.DOTALL), out
    assert "tls_failed" not in hasp.log


def test_redis_cli_that_encrypts(hasp, plain, authority):
    _, port = tls_address(hasp)
    cli = ["redis-cli", "--tls", "--cacert", authority.cert, "-h", "localhost", "-p", port]
    lines = run(cli, "set a 1\nmulti\nincr a\nexec\nlock k\nsetnx lock:1 v\nsetnx lock:1 w\n").split("\n")
    assert lines[:4] == ["OK", "OK", "QUEUED", "2"] and int(lines[4]) > 0 and lines[5:7] == ["1", "0"]
    assert plain.get("a") == "2" and plain.get("lock:1") == "v"
    lines = "".join(f"set k{n} {n}\r\n" for n in range(5000))
    assert "errors: 0, replies: 5000" in run([*cli, "--pipe"], lines)
