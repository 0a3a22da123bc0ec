# SPDX-License-Identifier: BSD-3-Clause
"""hasp -t checks the server: whether it answers, its kind and version, and hasp's permissions."""

import contextlib
import re
import socket
import threading

import pytest
from harness import until
from harness.by_hand import run
from harness.marks import covers
from harness.processes import free_port
from harness.relay import Relay
from harness.replies import OK
from harness.scrape import HTTP, ask
from harness.sections import rule, verbs
from harness.tls import Authority


# The permissions that hasp.ini(5) lists for the user in [upstream], without keys and channels.
COMMANDS = ("+@all", "-@admin")
KEYS, CHANNELS = ("~lock:*", "~hasp:*"), ("&hasp:worker:*", "&redisson_lock__channel:*")


@pytest.fixture
def check(tmp_path, redis_server):
    """check(sections, option=value ...) runs hasp -t. Returns the points that it reports as good,
    and its warnings."""
    def ask(sections=rule(), args=(), address=None, **upstream):
        path = tmp_path / "hasp.ini"
        options = {} if {"sentinels", "cluster"} & upstream.keys() else {"address": address or f"unix:{redis_server.unix}"}
        options |= upstream
        path.write_text("[hasp]\nlisten = 127.0.0.1:0\n[upstream]\n" + "".join(f"{k} = {v}\n" for k, v in options.items()) + sections)
        path.chmod(0o600)
        result = run("-t", *args, "-c", path)
        assert result.returncode == 0
        return (re.sub(r"(?m)^Redis at \S+: ", "", result.stdout).replace(f"{path}: ok\n", ""),
                re.sub(rf"(?m)^warning: {path}: Redis at \S+ ", "", result.stderr))

    return ask


def user(plain, *rules):
    plain.execute_command("ACL", "SETUSER", "hasp", "reset", "on", ">pw", *rules)
    return {"user": "hasp", "password": "pw"}


@pytest.mark.parametrize("sections", [rule(), verbs(), "[guard a]\npattern = a:*\nacquire_on = GET\n"])
def test_each_question_has_its_line(check, plain, sections):
    good, warnings = check(sections)
    assert warnings == ""
    assert re.fullmatch(
        rf"reachable, version {plain.info()['redis_version']}\n"
        r"one server, neither a Sentinel nor a node of a cluster, and a master\n"
        r"it loads and runs hasp's \d+ scripts\n"
        r"it has all commands that the scripts call\n"
        r"hasp may use the keys hasp:\*\n"
        r"hasp may publish and subscribe to hasp:worker:\*\n", good)


def test_version_is_known_to_a_user_that_may_not_ask_info(check, plain):
    good, _ = check("", **user(plain, "+@all", "-info"))
    assert f"reachable, version {plain.info()['redis_version']}\n" in good


class Older(Relay):
    """A relay that replaces the server's version by an older one of the same length."""

    def _pass_on(self, data, source, sink, replies):
        super()._pass_on(re.sub(rb"\b[78]\.(\d\.\d+)\b", rb"5.\1", data) if replies else data, source, sink, replies)


def test_server_that_is_too_old_is_named_and_hasp_is_not_ready(check, redis_server, start_hasp):
    with Older(redis_server.address) as relay:
        warning, = re.findall("has version 5[.0-9]+, which is too old: hasp needs .*", check(address=relay.address)[1])
        assert warning.endswith("hasp needs Redis 6.2 or Valkey 7.2")
        hasp = start_hasp(HTTP + verbs(), upstream=relay.address)
        until(lambda: "upstream_refused" in hasp.log, "the refusal")
        assert "is too old: hasp needs Redis 6.2" in hasp.log
        assert ask(hasp, "/readyz")[0].status == 503


def test_server_that_may_evict_locks_is_a_warning(check, plain):
    plain.config_set("maxmemory-policy", "allkeys-lru")
    assert check()[1] == ""  # maxmemory is 0, so Redis evicts nothing
    plain.config_set("maxmemory", "100mb")
    assert check()[1] == ("may evict locks and their owners' records when its memory is full (maxmemory-policy "
                          "allkeys-lru): set maxmemory-policy noeviction, or keep locks on another Redis\n")
    assert check("")[1] == ""


def test_without_sections_nothing_of_scripts_is_asked(check, plain):
    assert check("")[0].count("\n") == 3
    assert "cmdstat_script|load" not in plain.info("commandstats")


def test_it_changes_nothing_in_redis(check, plain):
    plain.set("k", "v")
    check(rule() + verbs())
    assert plain.keys("*") == ["k"]


def test_login_is_told(check, plain):
    good, warnings = check(**user(plain, *COMMANDS, *KEYS, *CHANNELS))
    assert "it accepts the login of hasp\n" in good and warnings == ""


def test_login_that_is_refused_is_told(check, plain):
    user(plain, *COMMANDS, *KEYS, *CHANNELS)
    assert "refuses the login of [upstream]: WRONGPASS" in check(user="hasp", password="other")[1]


def test_missing_login_is_told_where_hasp_needs_one(check, plain):
    plain.config_set("requirepass", "secret")
    assert "requires a login, but [upstream] has none" in check()[1]
    good, warnings = check("")
    assert "it requires a login, which clients send themselves\n" in good and warnings == ""


@pytest.mark.parametrize("rules, warning", [
    ((*COMMANDS, "-evalsha", *KEYS, *CHANNELS), "refuses to run scripts for hasp: NOPERM"),
    ((*COMMANDS, "-script", *KEYS, *CHANNELS), "refuses to load hasp's scripts: NOPERM"),
    ((*COMMANDS, "-zadd", "-hset", *KEYS, *CHANNELS),
     "does not let hasp call these commands, which its scripts need: "),
    ((*COMMANDS, "~lock:*", *CHANNELS), "does not let hasp use the keys hasp:*"),
    ((*COMMANDS, "-subscribe", *KEYS, *CHANNELS), "does not let hasp subscribe to hasp:worker:*"),
    ((*COMMANDS, *KEYS, "resetchannels"), "does not let hasp publish to hasp:worker:*")])
def test_what_an_acl_forbids_is_told(check, plain, rules, warning):
    assert warning in check(**user(plain, *rules))[1]


def test_commands_that_an_acl_forbids_to_scripts_are_named(check, plain):
    warnings = check(**user(plain, *COMMANDS, "-zadd", *KEYS, *CHANNELS))[1]
    assert warnings.endswith("which its scripts need: ZADD\n") and warnings.count("\n") == 1


def test_replica_is_told(check, plain):
    plain.replicaof("127.0.0.1", "1")
    assert check()[1] == "is a replica, which refuses writes; expected the address of its master\n"


def test_node_of_a_cluster_is_named_clearly(check, shared_cluster):
    node = shared_cluster.primaries()[0]
    good, warnings = check(address="%s:%d" % node.address)
    assert warnings.startswith("is a node of a Redis Cluster, but 'address' of [upstream] names it")
    assert good.count("\n") == 1


def test_sentinel_is_named_clearly(check, sentinels):
    warnings = check(address="%s:%d" % sentinels.sentinels[0].address)[1]
    assert warnings.startswith("is a Sentinel, which stores no keys")


@covers("upstream_kind")
@pytest.mark.parametrize("kind", ["sentinel", "cluster"])
def test_server_of_another_kind_is_logged_by_a_hasp_that_serves(start_hasp, request, kind):
    node = (request.getfixturevalue("sentinels").sentinels[0] if kind == "sentinel"
            else request.getfixturevalue("shared_cluster").primaries()[0])
    hasp = start_hasp(upstream="%s:%d" % node.address)
    until(lambda: "upstream_kind address=%s:%d kind=" % node.address + kind in hasp.log, "the line")


def test_each_sentinel_has_its_line(check, sentinels):
    names = ["%s:%d" % sentinel.address for sentinel in sentinels.sentinels]
    good, warnings = check(sentinels=" ".join([*names, "127.0.0.1:1"]), master="mymaster")
    primary = "%s:%d" % sentinels.primary().address
    for name in names:
        assert f"Sentinel at {name}: mymaster is at {primary}\n" in good
    assert "reachable, version" in good and "and a master\n" in good
    assert re.fullmatch(r"warning: \S+ Sentinel at 127.0.0.1:1 does not report the address of mymaster: "
                        r"Connection refused\n", warnings)
    warnings = check(sentinels=names[0], master="another")[1]
    assert f"Sentinel at {names[0]} does not report the address of another: " in warnings


def test_offline_it_is_a_warning(check, redis_server):
    redis_server.stop()
    good, warnings = check(address="127.0.0.1:1")
    assert good == "" and warnings == "cannot be asked what it is, and what it lets hasp do: Connection refused\n"


def test_server_that_does_not_answer_is_a_warning(check, redis_server):
    with redis_server.frozen():
        assert "it does not answer in time\n" in check(connect_timeout="500ms")[1]


@pytest.fixture
def refusing():
    """The address of a server that refuses the first request and closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                with sock:
                    sock.recv(65536)
                    sock.sendall(b"-ERR max number of clients reached\r\n")
                    sock.shutdown(socket.SHUT_WR)
                    # Unread bytes would make close() send a reset, which may destroy the reply.
                    while sock.recv(65536):
                        pass

    threading.Thread(target=serve, daemon=True).start()
    yield "127.0.0.1:%d" % listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.parametrize("how", [
    {}, {"password": "pw"}, {"sentinels": True}, {"sentinels": True, "sentinel_password": "pw"}],
    ids=lambda how: " ".join(how))
def test_what_a_server_says_before_it_closes_is_told(check, refusing, how):
    where = {"sentinels": refusing, "master": "m"} if "sentinels" in how else {"address": refusing}
    assert "ERR max number of clients reached" in check(**how | where)[1]


HOSTILE = b"\x1b]0;title\x07\x9b2J\xc2\x9b"


@pytest.fixture
def hostile():
    """The address of a server whose replies move a terminal's cursor and imitate hasp's lines."""
    version = b"7.0\n" + HOSTILE
    hello = b"*2\r\n$7\r\nversion\r\n$%d\r\n%s\r\n" % (len(version), version)

    def serve(sock):
        with sock, contextlib.suppress(OSError):
            while data := sock.recv(65536):
                for command in re.findall(rb"\*\d+\r\n\$\d+\r\n(\w+)\r\n", data):
                    sock.sendall(hello if command == b"HELLO" else b"-NO " + HOSTILE + b"\r\n")

    def listen():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()

    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=listen, daemon=True).start()
    yield "127.0.0.1:%d" % listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.parametrize("how", [{}, {"password": "pw"}, {"sentinels": True}], ids=lambda how: " ".join(how))
@pytest.mark.parametrize("sections", [rule(), "[guard a]\npattern = a:*\nacquire_on = GET\n"], ids=["rule", "guard"])
def test_terminal_gets_no_byte_of_a_server_that_is_not_printable(check, hostile, sections, how):
    where = {"sentinels": hostile, "master": "m"} if "sentinels" in how else {"address": hostile}
    good, warnings = check(sections, **how | where)
    assert r"\x1b]0;title\x07\x9b2J\xc2\x9b" in good + warnings
    assert all(c == "\n" or c.isprintable() for c in good + warnings)
    assert not [line for line in warnings.splitlines() if line.startswith("\\x1b")]


def test_quiet_says_nothing_where_the_file_has_no_fault(check, redis_server):
    assert check(args=["-q"]) == ("", "")
    redis_server.stop()
    assert check(args=["-q"]) == ("", "")


def test_quiet_tells_faults(tmp_path):
    path = tmp_path / "hasp.ini"
    path.write_text("[upstream]\naddress = nowhere\n")
    result = run("-t", "-q", "-c", path)
    assert result.returncode == 1 and result.stderr.startswith(f"{path}:2: ") and not result.stdout


def test_hasp_works_with_a_server_that_was_checked(check, share_hasp):
    check()
    with share_hasp(rule()).connect() as one:
        assert one.call("SET", "lock:a", 1) == OK


# --- the machine, and --strict --------------------------------------------------------------


def strict(tmp_path, text):
    path = tmp_path / "hasp.ini"
    path.write_text(text)
    path.chmod(0o600)
    return run("-t", "--strict", "-c", path)


def test_strict_fails_on_warnings_and_on_a_server_that_cannot_be_asked(tmp_path, redis_server):
    upstream = f"[upstream]\naddress = unix:{redis_server.unix}\n"
    assert strict(tmp_path, upstream + verbs()).returncode == 0
    warned = strict(tmp_path, upstream + rule(pattern="*"))
    assert warned.returncode == 1 and "makes every key a lock" in warned.stderr and ": ok" not in warned.stdout
    away = strict(tmp_path, f"[upstream]\naddress = 127.0.0.1:{free_port()}\n")
    assert away.returncode == 1 and "cannot be asked" in away.stderr
    refused = strict(tmp_path, upstream + "user = nobody\npassword = wrong\n")
    assert refused.returncode == 1 and "refuses the login of [upstream]: WRONGPASS" in refused.stderr
    assert run("--strict", "-c", tmp_path / "hasp.ini").returncode == 2


def test_what_of_the_machine_would_keep_hasp_from_starting_is_found(tmp_path, redis_server):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = strict(tmp_path, f"[hasp]\nlisten = 127.0.0.1:{port} unix:/nowhere/1/hasp.sock\nlog = /nowhere/2/log\n"
                                  f"[upstream]\naddress = unix:{redis_server.unix}\n"
                                  "[discover]\nfile = /nowhere/3/found.ini\n")
    assert result.returncode == 1
    for option, what in (("listen", "/nowhere/1/hasp.sock"), ("log", "/nowhere/2/log"),
                         ("file", "/nowhere/3/found.ini")):
        assert f"'{option}' is '{what}', but there is no directory {what.rpartition('/')[0]}\n" in result.stderr
    assert f"127.0.0.1:{port}: Address already in use: " in result.stdout


def test_file_without_rules_is_told_to_lock_nothing(check):
    assert ": no rules: nothing is locked\n" in check("")[0]
    assert "no rules" not in check()[0]


def test_single_server_is_no_cluster_and_no_sentinel(check, redis_server):
    where = "127.0.0.1:%d" % redis_server.port
    assert "is not a Sentinel, but 'sentinels' of [upstream] names it" in check("", sentinels=where, master="m")[1]
    assert "or 'address' for a single server\n" in check("", cluster=where)[1]


@pytest.mark.parametrize("bad", ["tls_cert_file", "tls_key_file", "tls_ca_cert_file"])
def test_file_of_tls_is_named_by_its_own_line(tmp_path, bad):
    authority = Authority(tmp_path)
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("garbage\n")
    files = {"tls_cert_file": authority.cert, "tls_key_file": authority.key, "tls_ca_cert_file": authority.cert, bad: garbage}
    lines = ["[hasp]", "listen_tls = 127.0.0.1:0", "tls_auth_clients = yes", *(f"{k} = {v}" for k, v in files.items())]
    (tmp_path / "hasp.ini").write_text("\n".join(lines) + "\n")
    result = run("-t", "-c", tmp_path / "hasp.ini")
    number = 4 + list(files).index(bad)
    assert result.returncode == 1 and result.stderr.startswith(f"{tmp_path}/hasp.ini:{number}: {bad} {garbage}"), result.stderr
    if bad != "tls_ca_cert_file":
        assert result.stderr.endswith(": it is not in PEM form\n")
