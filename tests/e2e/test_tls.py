# SPDX-License-Identifier: BSD-3-Clause
"""TLS between clients and hasp, and between hasp and Redis."""

import contextlib
import hashlib
import re
import socket
import ssl
import threading
import time

import pytest
import redis as redis_py
from harness import Connection, encode, until
from harness.by_hand import run
from harness.encrypted import TlsAddress
from harness.marks import covers
from harness.nodes import private_address
from harness.replies import ONE, OK, PONG
from harness.sections import VERBS, rule
from harness.tls import Authority, Certificate, TlsRedis, connect_tls, encrypted, openssl, tls_address

MB = 1 << 20


@pytest.fixture
def redis_server(tls_redis):
    tls_redis.client().flushall()
    return tls_redis


@pytest.fixture(params=["TLSv1_2", "TLSv1_3"])
def context(authority, request):
    """Returns a client's context, one for each TLS version."""
    version = getattr(ssl.TLSVersion, request.param)
    return authority.trusting(minimum_version=version, maximum_version=version)


def refused(hasp, context):
    """Returns the error that a client gets when hasp refuses its handshake."""
    with pytest.raises((ssl.SSLError, ConnectionError)) as error:
        connection = connect_tls(tls_address(hasp), context)
        connection.send(encode("PING"))  # in TLSv1.3, hasp's refusal arrives after the client's handshake is done
        if not connection.sock.recv(1):
            raise ConnectionError("closed")
    return str(error.value)


def logged(hasp, *texts):
    until(lambda: all(text in hasp.log for text in texts), f"{texts} in the log")


# --- what passes through TLS --------------------------------------------------------------


def test_clients_that_encrypt_and_others_have_the_same_server(tls_hasp, authority):
    hasp = tls_hasp()
    with connect_tls(tls_address(hasp), authority.trusting()) as tls, Connection(hasp.address) as plain:
        assert tls.call("SET", "a", "1") == OK
        assert plain.call("GET", "a") == b"$1\r\n1\r\n"
        assert tls.call("SETNX", "lock:1", "x") == ONE
        assert plain.call("SETNX", "lock:1", "y") == b":0\r\n"
        assert tls.call("DEL", "lock:1") == ONE


def test_values_of_any_size_come_through_as_they_are(tls_hasp, context):
    hasp = tls_hasp()
    with connect_tls(tls_address(hasp), context) as c:
        for size in (0, 1, 16383, 16384, 16385, 65536, 300_001, 5 * MB):
            value = hashlib.sha256(str(size).encode()).digest() * (size // 32 + 1)
            assert c.call("SET", "v", value[:size]) == OK
            assert c.call("GET", "v") == b"$%d\r\n%b\r\n" % (size, value[:size])


def test_pipelines_that_fill_records_are_answered_to_the_last(tls_hasp, authority):
    """TLS may have decrypted more bytes than hasp reads at once; the socket reports no event for
    the rest."""
    hasp = tls_hasp()
    with connect_tls(tls_address(hasp), authority.trusting()) as c:
        for n in (1, 1000, 4000):
            c.send(b"".join(encode("INCR", f"n:{n}") for _ in range(n)))
            assert [c.read() for _ in range(n)] == [b":%d\r\n" % (i + 1) for i in range(n)]


def test_client_that_does_not_read_holds_up_nobody(tls_hasp, authority, redis_server):
    hasp = tls_hasp()
    redis_server.client().set("big", "x" * MB)
    with connect_tls(tls_address(hasp), authority.trusting()) as slow:
        slow.send(encode("GET", "big") * 40)
        with connect_tls(tls_address(hasp), authority.trusting()) as c:
            assert [c.call("PING") for _ in range(50)] == [PONG] * 50
        for _ in range(40):
            assert len(slow.read()) == MB + 12


def test_handshake_in_single_bytes_succeeds(tls_hasp, authority):
    hasp = tls_hasp()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.trusting().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(tls_address(hasp)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def step(do):
            while True:
                try:
                    result = do()
                except ssl.SSLWantReadError:
                    result = None
                for byte in outgoing.read():
                    sock.sendall(bytes([byte]))
                if result is not None:
                    return result
                incoming.write(sock.recv(1))

        step(lambda: tls.do_handshake() or True)
        step(lambda: tls.write(encode("PING")))
        assert step(lambda: tls.read(100)) == PONG


def end_of_tls_alone(client):
    client.sock.close_notify()


def end_of_both(client):
    client.sock.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("half_close", [end_of_tls_alone, end_of_both])
def test_half_close_is_answered_first(tls_hasp, context, redis_server, pooling, half_close):
    """A client half-closes by TLS' close_notify; hasp answers its requests before it closes."""
    hasp = tls_hasp()
    hasp.is_up()
    size = 5 * MB if pooling == "shared" else 1000
    redis_server.client().set("big", "x" * size)
    with Connection(TlsAddress.of(tls_address(hasp), context)) as c:
        # With pooling = shared, the client uses a shared link from its second command on.
        assert (c.call("PING"), c.call("PING")) == (PONG, PONG)
        c.send(encode("SET", "a", "1") + encode("GET", "big") * 3 + encode("GET", "a"))
        half_close(c)
        answers = [c.read() for _ in range(5)]
        assert answers[0] == OK and all(big == b"$%d\r\n%b\r\n" % (size, b"x" * size) for big in answers[1:4])
        assert answers[4] == b"$1\r\n1\r\n" and c.at_end()


def test_locks_are_released_when_a_client_that_encrypts_hangs_up(tls_hasp, authority, redis_server):
    hasp = tls_hasp(rule(on_disconnect="release"))
    with connect_tls(tls_address(hasp), authority.trusting()) as c:
        assert c.call("SETNX", "lock:1", "x") == ONE
    until(lambda: not redis_server.client().exists("lock:1"), "the lock to be released")


def test_subscribers_and_transactions_work(tls_hasp, authority):
    host, port = tls_address(tls_hasp())
    client = redis_py.Redis(host, port, ssl=True, ssl_ca_certs=str(authority.cert), decode_responses=True)
    with client.pubsub() as pubsub, client.pipeline() as pipeline:
        pubsub.subscribe("c")
        assert pubsub.get_message(timeout=10)["type"] == "subscribe"
        client.publish("c", "hello")
        assert pubsub.get_message(timeout=10)["data"] == "hello"
        assert pipeline.set("a", 1).incr("a").execute() == [True, 2]
    client.close()


def test_many_clients_at_once(tls_hasp, authority):
    hasp = tls_hasp()
    context = authority.trusting()

    def count():
        with connect_tls(tls_address(hasp), context) as c:
            for _ in range(100):
                c.call("INCR", "n")

    threads = [threading.Thread(target=count) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Connection(hasp.address) as c:
        assert c.call("GET", "n") == b"$4\r\n2000\r\n"


# --- which clients hasp accepts -----------------------------------------------------------


@covers("tls_failed")
def test_client_that_does_not_encrypt_is_told_in_the_log(tls_hasp, authority):
    hasp = tls_hasp()
    with Connection(tls_address(hasp)) as c:
        c.send(encode("PING"))
        address = "{}:{}".format(*c.sock.getsockname())
        logged(hasp, "tls_failed", f'address="{address}"', 'reason="wrong version number"')
    with Connection(hasp.address) as c:
        assert c.call("PING") == PONG


def test_client_that_does_not_know_the_authority_refuses(tls_hasp):
    hasp = tls_hasp()
    assert "certificate verify failed" in refused(hasp, ssl.create_default_context())
    logged(hasp, 'reason="tlsv1 alert unknown ca"')


@covers("listen_tls", "tls_auth_clients")
def test_clients_need_certificates_where_they_are_asked_for(tls_hasp, authority, tmp_path):
    hasp = tls_hasp(tls_auth_clients="yes", tls_ca_cert_file=authority.cert)
    assert "certificate required" in refused(hasp, authority.trusting())
    logged(hasp, 'reason="peer did not return a certificate"')
    stranger = Authority(tmp_path, "stranger").certificate("client")
    refused(hasp, authority.trusting(stranger))
    logged(hasp, 'reason="unable to get local issuer certificate"')
    refused(hasp, authority.trusting(authority.expired("old")))
    logged(hasp, 'reason="certificate has expired"')
    with connect_tls(tls_address(hasp), authority.trusting(authority.certificate("client"))) as c:
        assert c.call("PING") == PONG


@covers("tls_ca_cert_file")
def test_certificates_that_are_optional_must_be_in_order(tls_hasp, authority, tmp_path):
    hasp = tls_hasp(tls_auth_clients="optional", tls_ca_cert_file=authority.cert)
    with connect_tls(tls_address(hasp), authority.trusting()) as c:
        assert c.call("PING") == PONG
    refused(hasp, authority.trusting(Authority(tmp_path, "stranger").certificate("client")))
    logged(hasp, 'reason="unable to get local issuer certificate"')


@covers("tls_ciphersuites", "tls_protocols")
def test_versions_and_ciphers_may_be_limited(tls_hasp, authority):
    hasp = tls_hasp(tls_protocols="TLSv1.3", tls_ciphersuites="TLS_CHACHA20_POLY1305_SHA256")
    refused(hasp, authority.trusting(maximum_version=ssl.TLSVersion.TLSv1_2))
    logged(hasp, 'reason="unsupported protocol"')
    with connect_tls(tls_address(hasp), authority.trusting()) as c:
        assert c.sock.cipher()[0] == "TLS_CHACHA20_POLY1305_SHA256"


def test_client_that_never_shakes_hands_is_closed(tls_hasp):
    hasp = tls_hasp(client_login_timeout="1s")
    with Connection(tls_address(hasp)) as c:
        assert c.at_end()


def test_sessions_of_clients_are_resumed(tls_hasp, context):
    hasp = tls_hasp()
    with connect_tls(tls_address(hasp), context) as c:
        assert c.call("PING") == PONG
        session = c.sock.session
    with connect_tls(tls_address(hasp), context, session) as c:
        assert c.call("PING") == PONG
        assert c.sock.session_reused


def test_reload_takes_another_certificate_and_closes_nobody(tls_hasp, authority, tmp_path):
    first, second = authority.certificate("first"), authority.certificate("second")
    hasp = tls_hasp(certificate=first)

    def shown():
        with connect_tls(tls_address(hasp), authority.trusting()) as c:
            return dict(pair[0] for pair in c.sock.getpeercert()["subject"])["commonName"]

    with connect_tls(tls_address(hasp), authority.trusting()) as c:
        assert c.call("PING") == PONG
        assert shown() == "first"
        first.cert.write_bytes(second.cert.read_bytes())
        first.key.write_bytes(second.key.read_bytes())
        hasp.reload("", "")
        assert shown() == "second"
        assert c.call("PING") == PONG
        first.key.write_text("nonsense")
        hasp.edit("", "")
        logged(hasp, "tls_key_file", "kept=")
        assert shown() == "second"


@covers("listen_tls")
def test_reload_without_listen_tls_keeps_the_certificate_until_a_restart(tls_hasp, authority):
    hasp = tls_hasp()
    text = hasp.config_file.read_text()
    hasp.reload(text, re.sub(r"\n(listen_tls|tls_cert_file|tls_key_file) = .*", "", text))
    with connect_tls(tls_address(hasp), authority.trusting()) as c:
        assert c.call("PING") == PONG


# --- the servers -------------------------------------------------------------------------


@pytest.mark.parametrize("fault, reason", [
    ("authority", "self-signed certificate in certificate chain"),
    ("expired", "certificate has expired"),
    ("name", "hostname mismatch"),
    ("plain", "does the server use TLS|wrong version number"),  # the reason depends on Redis' version
])
def test_server_whose_certificate_is_not_in_order_is_not_spoken_to(start_hasp, authority, tmp_path, redis_server,
                                                                   fault, reason):
    other = Authority(tmp_path, "other")
    certificate = {
        "authority": lambda: other.certificate("stranger"),
        "expired": lambda: authority.expired("expired"),
        "name": lambda: authority.certificate("elsewhere", names="DNS:elsewhere"),
        "plain": lambda: authority.certificate("server"),
    }[fault]()
    with TlsRedis(other if fault == "authority" else authority, certificate) as redis:
        address = f"localhost:{redis.port}" if fault == "plain" else redis.tls_address
        hasp = start_hasp(upstream=encrypted(address, authority, connect_timeout="1s" if fault == "plain" else "20s"))
        with Connection(hasp.address) as c:
            assert c.call("PING").startswith(b"-ERR")
        until(lambda: re.search(reason, hasp.log), reason)
        checked = run("-t", "-c", hasp.config_file)
        told = "does not answer in time|wrong version number" if fault == "plain" else reason
        assert checked.returncode == 0 and re.search(told, checked.stderr)


@covers("upstream_down")
def test_log_names_the_certificate_of_a_server_that_came_back(start_hasp, authority, tmp_path):
    """The log has a line that the connection was lost, and one with the reason why it stays lost."""
    used = Certificate(tmp_path / "used.crt", tmp_path / "used.key")

    def use(certificate):
        for old, new in zip(used, certificate):
            old.write_bytes(new.read_bytes())

    use(authority.certificate("server"))
    with TlsRedis(authority, used) as redis:
        hasp = start_hasp(upstream=encrypted(redis.tls_address, authority)).is_up()
        redis.kill()
        logged(hasp, "upstream_down")
        use(authority.expired("expired"))
        redis.start()
        logged(hasp, 'reason="TLS: certificate has expired"')


@covers("tls_server_name", "tls_verify")
def test_server_may_have_another_name_or_any(start_hasp, authority):
    with TlsRedis(authority, authority.certificate("elsewhere", names="DNS:elsewhere")) as redis:
        for option in ({"tls_server_name": "elsewhere"}, {"tls_verify": "no"}):
            hasp = start_hasp(upstream=encrypted(redis.tls_address, authority, **option))
            with Connection(hasp.address) as c:
                assert c.call("PING") == PONG


@covers("tls", "tls_cert_file", "tls_key_file")
def test_server_that_asks_for_a_certificate_gets_it(start_hasp, authority):
    mine = authority.certificate("hasp")
    with TlsRedis(authority, authority.certificate("server"), clients="yes") as redis:
        hasp = start_hasp(upstream=encrypted(redis.tls_address, authority))
        # The log may lack the alert that is the reason, if a reset overtakes the alert.
        logged(hasp, "upstream_down")
        hasp = start_hasp(VERBS, upstream=encrypted(redis.tls_address, authority, tls_cert_file=mine.cert,
                                                    tls_key_file=mine.key))
        with Connection(hasp.address) as c:
            assert c.call("LOCK", "l").startswith(b":")


def test_server_that_never_shakes_hands_is_given_up(start_hasp, authority):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "localhost:{}".format(silent.getsockname()[1])
        hasp = start_hasp(upstream=encrypted(address, authority, connect_timeout="1s", server_timeout="2s",
                                             server_check_delay="1s"))
        with Connection(hasp.address) as c:
            assert c.call("PING").startswith(b"-ERR")


@contextlib.contextmanager
def half_a_server(certificate, delay=0):
    """Returns a server's address, and a list with a bool for each link: whether it resumed its TLS
    session. The server answers only what private links need, and takes `delay` seconds for a
    handshake."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.cert, certificate.key)
    reused = []

    def serve(listener):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    def answer(raw):
        time.sleep(delay)
        with raw, contextlib.suppress(OSError), context.wrap_socket(raw, server_side=True) as sock:
            while sock.recv(65536):
                reused.append(sock.session_reused)
                sock.sendall(b"+PONG\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield "localhost:{}".format(listener.getsockname()[1]), reused
        listener.shutdown(socket.SHUT_RDWR)


def ping(hasp):
    with Connection(hasp.address) as c:
        return c.call("PING")


@covers("connect_timeout")
def test_slow_handshake_may_take_the_time_of_the_further_addresses(start_hasp, authority, certificate, hosts):
    with half_a_server(certificate, delay=1) as (address, _):
        hosts.move("127.0.0.1", *(private_address() for _ in range(7)))
        upstream = encrypted(address.replace("localhost", hosts.name), authority, tls_server_name="localhost",
                             connect_timeout="4s", server_check_delay=0)
        hasp = start_hasp(upstream=upstream, pooling="session", within=hosts.within)
        assert ping(hasp) == PONG


def test_sessions_with_the_server_are_resumed(start_hasp, authority, certificate):
    with half_a_server(certificate) as (address, reused):
        hasp = start_hasp(upstream=encrypted(address, authority, server_check_delay=0), pooling="session")
        assert ping(hasp) == PONG
        until(lambda: ping(hasp) and True in reused, "a link whose session is resumed")


def test_sessions_with_a_server_whose_certificate_has_expired_are_not(start_hasp, authority):
    reused, lasts = [], 4
    while True not in reused:  # a busy machine takes long to shake hands
        assert lasts < 100, "no session was resumed"
        lasts *= 2
        ends = int(time.time()) + lasts
        with half_a_server(authority.certificate_until(ends, "brief")) as (address, reused):
            hasp = start_hasp(upstream=encrypted(address, authority, server_check_delay=0), pooling="session")
            until(lambda: time.time() > ends + 1 or (ping(hasp) and True in reused), "a link whose session is resumed")
            until(lambda: time.time() > ends + 1, "the server's certificate to expire")
            refused = ping(hasp)
            assert refused.startswith(b"-ERR ") and b"certificate has expired" in refused, refused


# --- the file ----------------------------------------------------------------------------


@covers("tls_ciphers")
def test_files_that_are_no_certificates_are_faults(authority, certificate, tmp_path):
    def faults(**options):
        options = {"tls_cert_file": certificate.cert, "tls_key_file": certificate.key, **options}
        path = tmp_path / "hasp.ini"
        path.write_text("[hasp]\nlisten_tls = 127.0.0.1:0\n" +
                        "".join(f"{name} = {value}\n" for name, value in options.items()))
        result = run("-tq", "-c", path)
        assert result.returncode == (1 if result.stderr else 0)
        return re.sub(rf"^{path}:[2-6]: ", "", result.stderr)

    assert faults() == ""
    assert faults(tls_cert_file="/nowhere") == \
        "tls_cert_file /nowhere cannot be opened: No such file or directory; give a readable file\n"
    assert faults(tls_key_file="/dev/zero") == "tls_key_file /dev/zero is no regular file; expected one\n"
    assert faults(tls_key_file=authority.key) == f"tls_key_file {authority.key}: key values mismatch\n"
    locked = tmp_path / "locked.key"
    openssl("ec", "-in", certificate.key, "-aes256", "-passout", "pass:x", "-out", locked)
    assert faults(tls_key_file=locked) == \
        f"tls_key_file {locked}: the key is encrypted; expected one without a passphrase\n"
    assert faults(tls_protocols="TLSv1.1") == "tls_protocols TLSv1.1: expected TLSv1.2, TLSv1.3 or both\n"
    assert faults(tls_ciphers="none") == "tls_ciphers none: no cipher match\n"
    assert faults(tls_auth_clients="yes", tls_ca_cert_file=certificate.key).startswith("tls_ca_cert_file ")
