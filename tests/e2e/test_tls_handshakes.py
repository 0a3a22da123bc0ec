# SPDX-License-Identifier: BSD-3-Clause
"""Clients that never finish a handshake, and certificates that change, while honest clients
continue."""

import contextlib
import os
import pathlib
import re
import socket
import ssl
import threading
import time

import pytest
from harness import Connection, encode, until
from harness.encrypted import Encrypted, TlsAddress
from harness.load import Load
from harness.marks import covers
from harness.memory import Growth
from harness.replies import PONG
from harness.resp import PATIENCE
from harness.sections import VERBS
from harness.tls import Authority, connect_tls, encrypted, tls_address
from test_upgrade import generations  # noqa: F401 pylint: disable=unused-import

MANY = 500


@covers("tls_failed")
def test_client_that_uses_tls_at_a_plain_port_is_closed_at_once(start_hasp):
    hasp = start_hasp()
    with hasp.connect() as one, hasp.connect() as other:
        one.send(b"\x16\x03\x01\x02\x00\x01")
        assert one.at_end()
        until(lambda: 'reason="the client uses TLS, but the listener does not"' in hasp.log, "the reason")
        other.send(b"\x16 x\r\n\x16\x03 x\r\n")
        assert other.read().startswith(b"-ERR unknown command") and other.read().startswith(b"-ERR unknown command")


@pytest.fixture
def redis_server(tls_redis):
    tls_redis.client().flushall()
    return tls_redis


@pytest.fixture
def encrypting(authority, certificate, tls_redis):
    """Returns options of a hasp with TLS."""
    return {"listen_tls": "127.0.0.1:0", "tls_cert_file": certificate.cert, "tls_key_file": certificate.key,
            "upstream": encrypted(tls_redis.tls_address, authority)}


def hello():
    """Returns the hello of an honest client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def records(message):
    size = 1 << 14
    parts = (message[at:at + size] for at in range(0, len(message), size))
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in parts)


def long_hello(announced, sent):
    return records(b"\x01" + announced.to_bytes(3, "big") + b"\x03\x03" + b"x" * sent)


NEVER = "no TLS handshake for client_login_timeout"
LONG = "client hello of more than 16384 bytes"
# What the clients of a storm send, and the reason that hasp logs when it closes them.
STORMS = {
    "nothing": (b"", NEVER),
    "half": (hello()[:100], NEVER),
    "one-byte": (hello()[:1], NEVER),
    "unanswered": (hello(), NEVER),
    "garbage": (bytes(range(256)) * 12, "wrong version number"),
    "plain": (encode("PING"), "wrong version number"),
    "alert": (b"\x15\x03\x01\x00\x02\x02\x28", "unexpected message"),
    "warnings": (b"\x15\x03\x01\x00\x02\x01\x00" * 1000, "unexpected message"),
    "long": (long_hello(131_000, 130_000), LONG),
    "long-announced": (long_hello(131_000, 10), LONG),
    "longest-announced": (long_hello((1 << 24) - 1, 10), LONG),
    "cut": (hello()[:-1], "closed by the other side"),
}


class Storm:
    """Clients that all send the same bytes until hasp closes them."""

    def __init__(self, address, sent, cut):
        self.socks = []
        for _ in range(MANY):
            sock = socket.create_connection(address)
            sock.settimeout(PATIENCE)
            self.socks.append(sock)
            with contextlib.suppress(ConnectionError):  # hasp may close the client before all is sent
                sock.sendall(sent)
                if cut:
                    sock.shutdown(socket.SHUT_WR)

    def until_closed(self):
        for sock in self.socks:
            with sock, contextlib.suppress(ConnectionError):
                while sock.recv(4096):
                    pass


def descriptors(hasp):
    return len(os.listdir(f"/proc/{hasp.pid}/fd"))


@pytest.mark.parametrize("storm", STORMS)
def test_clients_that_do_not_shake_hands_harm_nobody_and_leave_nothing(tls_hasp, authority, storm):
    sent, reason = STORMS[storm]
    hasp = tls_hasp(client_login_timeout="2s", memory_limit="16mb")
    address = TlsAddress.of(tls_address(hasp), authority.trusting())
    with Connection(address) as tls, Connection(hasp.address) as plain:
        def all_go_on():
            with Connection(address) as new:
                assert [c.call("PING") for c in (tls, plain, new)] == [PONG] * 3

        all_go_on()
        before, growth = descriptors(hasp), Growth(hasp)
        clients = Storm(tls_address(hasp), sent, storm == "cut")
        all_go_on()
        clients.until_closed()
        all_go_on()
        until(lambda: descriptors(hasp) <= before, "the descriptors of all clients to be closed")
        growth.check(MANY * 80 * 1024)
        lines = re.findall(r"tls_failed address=\S+ listener=\S+ reason=\"(.*?)\" suppressed=", hasp.log)
        assert set(lines) == {reason} and hasp.log.count("tls_failed") == len(lines)
        assert len(lines) < MANY / 4  # hasp logs at most ten of them in ten seconds


def hello_without_key():
    """Returns a TLSv1.3 hello without a key share, so that the server asks for a second hello with
    an x25519 key."""
    extensions = b"".join(number.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body for number, body in [
        (43, b"\x02\x03\x04"), (10, b"\x00\x02\x00\x1d"), (13, b"\x00\x02\x04\x03"), (51, b"\x00\x00")])
    body = (b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00" +
            len(extensions).to_bytes(2, "big") + extensions)
    return records(b"\x01" + len(body).to_bytes(3, "big") + body)


def test_second_hello_may_not_be_longer(tls_hasp):
    hasp = tls_hasp()
    with Connection(tls_address(hasp)) as c:
        c.send(hello_without_key())
        assert c.file.read(1) == b"\x16"  # the server's answer has begun
        c.send(long_hello(131_000, 10))
        until(lambda: f'reason="{LONG}"' in hasp.log, "hasp to log the long hello")


@pytest.mark.parametrize("nbytes", [20 * 1024, 40 * 1024])
def test_certificates_of_clients_may_have_32_kib(tls_hasp, authority, nbytes):
    hasp = tls_hasp(tls_auth_clients="yes", tls_ca_cert_file=authority.cert)
    chain, link = authority.certificate("chain"), authority.cert.read_text()
    with chain.cert.open("a") as file:
        file.write(link * (nbytes // len(ssl.PEM_cert_to_DER_cert(link))))
    if nbytes < 32 * 1024:
        with connect_tls(tls_address(hasp), authority.trusting(chain)) as c:
            assert c.call("PING") == PONG
        return
    with pytest.raises((OSError, EOFError)), connect_tls(tls_address(hasp), authority.trusting(chain)) as c:
        c.call("PING")
    until(lambda: 'reason="excessive message size"' in hasp.log, "hasp to log the long certificate")


# --- certificates that change ------------------------------------------------------------


def common_name(address, context, session=None):
    """Returns the common name of hasp's certificate, the session, and whether hasp resumed
    `session`."""
    with connect_tls(address, context, session) as c:
        assert c.call("PING") == PONG
        subject = dict(pair[0] for pair in c.sock.getpeercert()["subject"])
        return subject["commonName"], c.sock.session, c.sock.session_reused


class Talk(threading.Thread):
    """One connection that stays open, and must not notice changes."""

    def __init__(self, address):
        super().__init__()
        self.address, self.count, self.fault, self.ending = address, 0, None, threading.Event()

    def run(self):
        try:
            with Connection(self.address) as c:
                while not self.ending.is_set():
                    self.count += 1
                    assert c.call("INCR", self.name) == b":%d\r\n" % self.count
        except (OSError, EOFError, AssertionError) as fault:
            self.fault = repr(fault)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.join()


def test_certificates_change_under_load(tls_hasp, authority):
    """After a reload with a broken certificate file, hasp keeps the old certificate and logs the
    fault."""
    names = [authority.certificate("odd"), authority.certificate("even")]
    used = authority.certificate("used")
    hasp = tls_hasp(VERBS, certificate=used, workers=2)
    plain, context = tls_address(hasp), authority.trusting()
    address = TlsAddress.of(plain, context)

    def shown(n):
        """Returns the name on the certificate of the worker that accepts. A worker may still finish
        a turn that began before the reload."""
        until(lambda: common_name(plain, context)[0] == ["odd", "even"][n % 2], "the certificate to be shown")

    with Load(address, clients=2) as load, Talk(address) as talk:
        for n in range(10):
            for old, new in zip(used, names[n % 2]):
                pathlib.Path(old).write_bytes(new.read_bytes())
            hasp.reload("", "")
            shown(n)
            told = hasp.log.count("reload_failed kept=")
            used.cert.write_text("nonsense")
            hasp.edit("", "")
            until(lambda told=told: hasp.log.count("reload_failed kept=") > told, "hasp to log the fault")
            shown(n)
            load.goes_on()
    assert not load.faults and not talk.fault and talk.count
    assert "tls_cert_file" in hasp.log and "tls_failed" not in hasp.log


@pytest.fixture(params=["TLSv1_2", "TLSv1_3"])
def version(request):
    """Returns options of a client's context that allow only this TLS version."""
    version = getattr(ssl.TLSVersion, request.param)
    return {"minimum_version": version, "maximum_version": version}


def test_sessions_are_resumed_over_reloads(tls_hasp, authority, version):
    context = authority.trusting(**version)
    hasp = tls_hasp()
    _, session, _ = common_name(tls_address(hasp), context)
    for _ in range(3):
        hasp.reload("", "")
        assert common_name(tls_address(hasp), context, session)[2]


def shakes_hands_anew(hasp, context, session):
    """Checks that hasp does not resume the old session, and resumes the one that it then issues."""
    with connect_tls(tls_address(hasp), context, session) as c:
        assert c.call("PING") == PONG and not c.sock.session_reused
        session = c.sock.session
    assert common_name(tls_address(hasp), context, session)[2]


def test_sessions_of_another_certificate_are_not_resumed(tls_hasp, authority, version):
    used, other = authority.certificate("used"), authority.certificate("other")
    context = authority.trusting(**version)
    hasp = tls_hasp(certificate=used)
    _, session, _ = common_name(tls_address(hasp), context)
    for old, new in zip(used, other):
        pathlib.Path(old).write_bytes(new.read_bytes())
    hasp.reload("", "")
    shakes_hands_anew(hasp, context, session)
    assert common_name(tls_address(hasp), context)[0] == "other"


def test_sessions_of_other_settings_are_not_resumed(tls_hasp, authority, version):
    """A client that the old settings accepted may not be acceptable now."""
    context = authority.trusting(authority.certificate("client"), **version)
    hasp = tls_hasp(tls_auth_clients="no", tls_ca_cert_file=authority.cert)
    for old, new in ("tls_auth_clients = no", "tls_auth_clients = yes"), ("tls_auth_clients = yes", "tls_auth_clients = no"):
        _, session, _ = common_name(tls_address(hasp), context)
        hasp.reload(old, new)
        shakes_hands_anew(hasp, context, session)


def test_client_whose_certificate_has_expired_resumes_nothing(tls_hasp, authority, version):
    hasp = tls_hasp(tls_auth_clients="yes", tls_ca_cert_file=authority.cert)
    session, lasts = None, 2
    while not session:  # a busy machine takes long to shake hands
        assert lasts < 100, "no handshake succeeded"
        lasts *= 2
        ends = int(time.time()) + lasts
        context = authority.trusting(authority.certificate_until(ends, "client"), **version)
        with contextlib.suppress(OSError, EOFError):
            _, session, _ = common_name(tls_address(hasp), context)
    until(lambda: time.time() > ends + 1, "the client's certificate to expire")
    told = hasp.log.count('reason="certificate has expired"')
    with pytest.raises((OSError, EOFError)), connect_tls(tls_address(hasp), context, session) as c:
        c.call("PING")
    until(lambda: hasp.log.count('reason="certificate has expired"') > told, "hasp to refuse the client")


def test_clients_of_an_authority_that_is_not_trusted_any_more_resume_nothing(tls_hasp, authority, tmp_path, version):
    trusted, ca = Authority(tmp_path, "another"), tmp_path / "ca.crt"
    ca.write_bytes(authority.cert.read_bytes())
    context = authority.trusting(authority.certificate("client"), **version)
    hasp = tls_hasp(tls_auth_clients="yes", tls_ca_cert_file=ca)
    _, session, _ = common_name(tls_address(hasp), context)
    hasp.reload("", "")
    assert common_name(tls_address(hasp), context, session)[2]
    ca.write_bytes(trusted.cert.read_bytes())
    hasp.reload("", "")
    with pytest.raises(OSError), connect_tls(tls_address(hasp), context, session) as c:
        assert not c.call("PING")
    context = authority.trusting(trusted.certificate("client"), **version)
    assert common_name(tls_address(hasp), context)[0] == "server"


def test_upgrades_are_not_noticed_by_clients_that_encrypt(generations, encrypting, authority):  # noqa: F811
    hasps = generations(VERBS, workers=2, drain_timeout="60s", **encrypting)
    address = TlsAddress.of(tls_address(hasps.hasp), authority.trusting())
    with Load(address, clients=3) as load:
        for _ in range(4):
            load.goes_on()
            hasps.upgrade()
        load.goes_on()
    assert not load.faults and "tls_failed" not in hasps.hasp.log


def test_clients_that_shake_hands_while_hasp_is_upgraded_end_it(generations, encrypting, authority):  # noqa: F811
    """The old process finishes the handshakes of the clients that it has accepted."""
    hasps = generations(drain_timeout="60s", **encrypting)
    address = tls_address(hasps.hasp)
    first = hello()
    with socket.create_connection(address) as half:
        half.sendall(first[:50])
        hasps.hasp.take_turn()
        hasps.upgrade()
        with Encrypted(socket.create_connection(address), authority.trusting()) as new:
            new.sendall(encode("PING"))
            assert new.recv(100) == PONG
        half.settimeout(PATIENCE)
        half.sendall(first[50:])
        assert half.recv(3) == b"\x16\x03\x03"
