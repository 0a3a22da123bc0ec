# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified client libraries in five languages, and redis-cli: no library notices hasp."""

import os
import pathlib
import re
import subprocess

import pytest
from harness import TOP, encode
from harness.sections import VERBS, rule

NODE_MODULES = TOP / "tests" / "e2e" / "node_modules"


@pytest.fixture
def hasp(share_hasp):
    return share_hasp(rule() + VERBS)


def run(argv, text=None, **env):
    result = subprocess.run(list(map(str, argv)), input=text, capture_output=True, text=True, timeout=30, check=False,
                            env={**os.environ, **{key.upper(): str(value) for key, value in env.items()}})
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_redis_cli(hasp):
    host, port = hasp.address
    out = run(["redis-cli", "-h", host, "-p", port], "set a 1\nget a\nmulti\nincr a\nexec\nlock k\n"
              "setnx lock:1 v\nttl nothing\nno-such\n")
    lines = out.split("\n")
    assert int(lines.pop(5)) > 0  # a fencing token
    assert lines[:7] == ["OK", "1", "OK", "QUEUED", "2", "1", "-2"]
    assert run(["redis-cli", "-h", host, "-p", port, "-3", "--no-raw", "hgetall", "none"]).strip() == "(empty hash)"
    lines = "".join(encode("SET", f"k{n}", n).decode() for n in range(5000))
    assert "errors: 0, replies: 5000" in run(["redis-cli", "-h", host, "-p", port, "--pipe"], lines)


CLIENTS = {
    "redis-py": (["/usr/bin/python3"], """
import os, redis
r = redis.Redis(os.environ["HOST"], int(os.environ["PORT"]), client_name="me", decode_responses=True)
print(r.set("a", "1"), r.get("a"))
p = r.pipeline(transaction=False); p.incr("a"); p.incr("a"); print(p.execute())
p = r.pipeline(); p.incr("a"); p.setnx("lock:1", "v"); print(p.execute())
print(r.delete("lock:1"), r.client_getname())
"""),
    "phpredis": (["php"], """<?php
$r = new Redis(); $r->connect(getenv("HOST"), (int)getenv("PORT"));
echo json_encode([$r->set("a", "1"), $r->get("a")]), "\\n";
echo json_encode($r->multi(Redis::PIPELINE)->incr("a")->incr("a")->exec()), "\\n";
echo json_encode($r->multi()->incr("a")->setnx("lock:1", "v")->exec()), "\\n";
echo json_encode([$r->del("lock:1"), $r->client("SETNAME", "me")]), "\\n";
"""),
    "ruby-redis": (["ruby"], """
require "redis"
r = Redis.new(host: ENV["HOST"], port: ENV["PORT"].to_i, id: "me")
p r.set("a", "1"), r.get("a")
p r.pipelined { |q| q.incr("a"); q.incr("a") }
p r.multi { |q| q.incr("a"); q.setnx("lock:1", "v") }
p r.del("lock:1"), r.client(:getname)
"""),
    "ioredis": (["node"], """
const Redis = require("ioredis");
(async () => {
	const r = new Redis({ host: process.env.HOST, port: +process.env.PORT, connectionName: "me" });
	console.log(await r.set("a", "1"), await r.get("a"));
	console.log(JSON.stringify(await r.pipeline().incr("a").incr("a").exec()));
	console.log(JSON.stringify(await r.multi().incr("a").setnx("lock:1", "v").exec()));
	console.log(await r.del("lock:1"), await r.client("GETNAME"));
	r.disconnect();
})();
"""),
    "node-redis": (["node"], """
const { createClient } = require("redis");
(async () => {
	const r = createClient({ socket: { host: process.env.HOST, port: +process.env.PORT }, name: "me", RESP: 3 });
	await r.connect();
	console.log(await r.set("a", "1"), await r.get("a"));
	console.log(JSON.stringify(await Promise.all([r.incr("a"), r.incr("a")])));
	console.log(JSON.stringify(await r.multi().incr("a").setNX("lock:1", "v").exec()));
	console.log(await r.del("lock:1"), await r.sendCommand(["CLIENT", "GETNAME"]));
	r.destroy();
})();
"""),
}


# The file of Debian's package; the test is skipped without it.
PREDIS = pathlib.Path("/usr/share/php/Predis/autoload.php")
PERL_REDIS = pathlib.Path("/usr/share/perl5/Redis.pm")

if PREDIS.exists():
    CLIENTS["predis"] = (["php"], """<?php
require "Predis/autoload.php";
$r = new Predis\\Client(["host" => getenv("HOST"), "port" => (int)getenv("PORT")]);
echo json_encode([(string)$r->set("a", "1"), $r->get("a")]), "\\n";
echo json_encode($r->pipeline(function ($p) { $p->incr("a"); $p->incr("a"); })), "\\n";
echo json_encode($r->transaction(function ($t) { $t->incr("a"); $t->setnx("lock:1", "v"); })), "\\n";
echo json_encode($r->del("lock:1")), "\\n";
""")

if PERL_REDIS.exists():
    CLIENTS["perl"] = (["perl"], """
use Redis;
my $r = Redis->new(server => "$ENV{HOST}:$ENV{PORT}", name => "me");
print $r->set("a", "1"), " ", $r->get("a"), "\\n";
$r->incr("a", sub { print "$_[0]\\n" }) for 1 .. 2;
$r->wait_all_responses;
$r->multi; $r->incr("a"); $r->setnx("lock:1", "v"); print join(" ", $r->exec), "\\n";
print $r->del("lock:1"), "\\n";
""")


@pytest.mark.parametrize("client", CLIENTS)
def test_client_library(hasp, plain, tmp_path, client):
    """The library's handshake, SET, GET, a pipeline, a transaction with a lock, and DEL of the
    lock."""
    argv, code = CLIENTS[client]
    (tmp_path / "app").write_text(code)
    host, port = hasp.address
    out = run([*argv, tmp_path / "app"], host=host, port=port, node_path=NODE_MODULES)
    assert plain.get("a") == "4" and not plain.exists("lock:1"), out
    # The replies to SET, GET, the pipeline, the transaction and DEL.
    assert re.search(r"\b1\b.*\b2\b.*\b3\b.*\b4\b.*(1|[Tt]rue).*\b1\b", out, re.DOTALL), out


def test_client_libraries_do_not_notice_a_cluster(cluster, start_hasp, tmp_path):
    """The clients expect a single server. All keys are in one slot, as the transaction requires."""
    hasp = start_hasp(rule() + VERBS, upstream=cluster.upstream)
    host, port = hasp.address
    with hasp.client() as plain:
        for client, (argv, code) in CLIENTS.items():
            (tmp_path / "app").write_text(code.replace('"a"', '"{x}a"').replace('"lock:1"', '"lock:{x}1"'))
            out = run([*argv, tmp_path / "app"], host=host, port=port, node_path=NODE_MODULES)
            assert plain.get("{x}a") == "4" and not plain.exists("lock:{x}1"), (client, out)
            assert re.search(r"\b1\b.*\b2\b.*\b3\b.*\b4\b.*(1|[Tt]rue).*\b1\b", out, re.DOTALL), (client, out)
            assert plain.flushall()
