# SPDX-License-Identifier: BSD-3-Clause
"""A quorum whose servers accept only TLS."""

import contextlib
import re

import pytest
import redis as redis_py
from harness import until
from harness.by_hand import run
from harness.marks import covers
from harness.quorum import Quorum, connected
from harness.replies import FENCE, NIL, ONE, PONG
from harness.sections import section
from harness.tls import Authority, server_options

KEY = "k"
ADMIN = "[admin]\nlisten = unix:{}\n"


@pytest.fixture
def encrypted(authority):
    """Returns TLS options for a [quorum] section."""
    return {"tls": "yes", "tls_ca_cert_file": authority.cert}


@pytest.fixture
def quorum(authority, certificate):
    """quorum(certificate ...) starts servers with these certificates; without any, three with a
    valid one."""
    with contextlib.ExitStack() as stack:
        def start_with(*certificates, options=()):
            return stack.enter_context(Quorum(tls=[
                (*server_options(authority, mine), *options) for mine in certificates or [certificate] * 3]))
        yield start_with


def down(hasp, server, reason):
    """Waits until the log reports that the server is down."""
    line = rf' warning quorum_server_down quorum=locks address={server.host}:{server.port} reason="TLS: [^"\n]*({reason})'
    until(lambda: re.search(line, hasp.log), f"{reason!r} in the log")


def states(path):
    with redis_py.Redis(unix_socket_path=str(path), decode_responses=True) as console:
        rows = [dict(zip(row[::2], row[1::2], strict=True)) for row in console.execute_command("SHOW", "NODES")]
    return [row["state"] for row in rows if row["quorum"] == "locks"]


def test_lock_is_taken_and_given_back(start_hasp, quorum, encrypted):
    servers = quorum()
    hasp = connected(start_hasp(servers.sections(tls=encrypted), workers=1).is_up(), 3)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY) == FENCE
        until(lambda: servers.is_everywhere(KEY), "all servers to have the lock")
        assert other.call("LOCK", KEY) == NIL
        assert one.call("UNLOCK", KEY) == ONE
        until(lambda: servers.is_free(KEY), "all servers to have released the lock")
        assert other.call("LOCK", KEY) == FENCE
    assert "quorum_server_down" not in hasp.log


def test_server_whose_certificate_is_not_in_order_does_not_count(start_hasp, quorum, encrypted, authority, certificate,
                                                                 tmp_path):
    stranger = Authority(tmp_path, "other").certificate("stranger")
    elsewhere = authority.certificate("elsewhere", names="DNS:elsewhere")
    expired = authority.expired("expired")
    servers = quorum(certificate, certificate, stranger, elsewhere, expired)
    path = tmp_path / "admin.sock"
    hasp = start_hasp(servers.sections(tls=encrypted) + ADMIN.format(path), workers=1).is_up()
    connected(hasp, 2)
    for server, reason in zip(servers.servers[2:], ("unable to get local issuer certificate", "IP address mismatch",
                                                    "certificate has expired"), strict=True):
        down(hasp, server, reason)
    assert states(path) == ["up", "up", "down", "down", "down"]
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == b"-NOQUORUM 2 of the 5 servers of 'locks' answer in time\r\n"
        until(lambda: not any(server.client().exists(KEY) for server in servers.servers), "the lock to be undone")


def test_servers_that_do_not_encrypt_do_not_count(start_hasp, redis_server, encrypted):
    with Quorum(3) as servers:
        upstream = f"address = unix:{redis_server.unix}\nconnect_timeout = 1s"
        hasp = start_hasp(servers.sections(tls=encrypted), upstream=upstream, workers=1)
        # Redis does not answer the handshake, or answers as to an unknown command.
        for server in servers.servers:
            down(hasp, server, "does the server use TLS|wrong version number")
        with hasp.connect() as one:
            assert one.call("LOCK", KEY).startswith(b"-NOQUORUM 0 ")


@pytest.mark.parametrize("option", [{"tls_server_name": "elsewhere"}, {"tls_verify": "no"}], ids=str)
def test_servers_may_have_another_name_or_any(start_hasp, quorum, encrypted, authority, option):
    elsewhere = authority.certificate("elsewhere", names="DNS:elsewhere")
    servers = quorum(*[elsewhere] * 3)
    hasp = connected(start_hasp(servers.sections(tls={**encrypted, **option}), workers=1).is_up(), 3)
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE


@covers("quorum_server_down")
def test_servers_that_ask_for_a_certificate_get_it(start_hasp, quorum, encrypted, authority, certificate):
    mine = authority.certificate("hasp")
    servers = quorum(*[certificate] * 3, options=("--tls-auth-clients", "yes"))
    hasp = start_hasp(servers.sections(tls=encrypted), workers=1)
    until(lambda: hasp.log.count("quorum_server_down") >= 3, "three servers to refuse hasp")
    shown = {**encrypted, "tls_cert_file": mine.cert, "tls_key_file": mine.key}
    hasp = connected(start_hasp(servers.sections(tls=shown), workers=1).is_up(), 3)
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE


@covers("quorum_server_up")
def test_reload_reads_the_certificates_again_and_closes_nothing(start_hasp, quorum, encrypted, authority, certificate,
                                                                tmp_path):
    trusted = tmp_path / "trusted.crt"
    other = Authority(tmp_path, "other")
    trusted.write_bytes(other.cert.read_bytes())
    servers = quorum()
    hasp = start_hasp(servers.sections(tls={**encrypted, "tls_ca_cert_file": trusted}), workers=1).is_up()
    for server in servers.servers:
        down(hasp, server, "unable to get local issuer certificate|self-signed certificate in certificate chain")
    trusted.write_bytes(authority.cert.read_bytes())
    hasp.reload("", "")
    connected(hasp, 3)
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        until(lambda: servers.is_everywhere(KEY), "all servers to have the lock")
        trusted.write_bytes(other.cert.read_bytes())
        hasp.reload("", "")
        assert one.call("PING") == PONG and one.call("UNLOCK", KEY) == ONE
        assert hasp.log.count("quorum_server_down") == 3
        # hasp verifies a new connection by the file that it has read last.
        servers.servers[0].kill()
        servers.servers[0].start()
        until(lambda: hasp.log.count("quorum_server_down") >= 4, "hasp to reject the restarted server's certificate")
        assert one.call("LOCK", KEY) == FENCE
        assert hasp.log.count("quorum_server_up") == 3


@pytest.mark.parametrize("at, options, fault", [
    ("tls_ca_cert_file", {"tls_ca_cert_file": "/nowhere"}, "tls_ca_cert_file /nowhere cannot be "
                                                           "opened: No such file or directory; give a readable file"),
    ("tls_cert_file", {"tls_cert_file": "/a.crt"}, "[quorum locks] has 'tls_cert_file' and no 'tls_key_file'; expected "
                                                   "both or neither"),
    ("tls_ca_cert_file", {"tls": "no"}, "'tls_ca_cert_file' of [quorum locks] has no effect without 'tls = yes'; "
                                        "add it, or nothing is encrypted"),
])
def test_options_that_cannot_be_used_are_faults(encrypted, tmp_path, at, options, fault):
    path = tmp_path / "hasp.ini"
    text = section("quorum locks", {"servers": "a:1 b:1 c:1", **encrypted, **options})
    line = 1 + next(i for i, line in enumerate(text.split("\n")) if line.startswith(at + " = "))
    path.write_text(text)
    assert run("-tq", "-c", path).stderr == f"{path}:{line}: {fault}\n"
