# SPDX-License-Identifier: BSD-3-Clause
"""Started as root with `user`: what root touches before it becomes that user.

The user may own the directory that a file is in, and put a link there to what is root's.
"""

import os
import pathlib
import pwd
import signal
import socket
import struct
import warnings

import pytest
from harness import until
from harness.by_hand import config, let_others_in, run

# Only root can become another user. For others, tests/unit/test_privileges.c plays the kernel.
__test__ = os.geteuid() == 0
if not __test__:
    warnings.warn("the tests of this file need root, and are left out")

USER = pwd.getpwnam("nobody")
SECRET = "root's\n"


@pytest.fixture
def dirs(tmp_path):
    """A directory of the user's, and one of root's that the user can search."""
    let_others_in(tmp_path)
    theirs, roots = tmp_path / "theirs", tmp_path / "roots"
    theirs.mkdir()
    os.chown(theirs, USER.pw_uid, USER.pw_gid)
    roots.mkdir(mode=0o755)
    return theirs, roots


def secret(path):
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


def untouched(path):
    status = path.stat()
    return (path.read_text(), status.st_uid, status.st_mode & 0o777) == (SECRET, 0, 0o600)


def link(path, to):
    path.symlink_to(to)


def hard_link(path, to):
    path.hardlink_to(to)


OPTIONS = {"log": "{}", "pid_file": "{}", "listen": "unix:{}"}


@pytest.mark.parametrize("make_link", [link, hard_link])
@pytest.mark.parametrize("option", OPTIONS)
def test_link_of_the_user_to_a_file_of_roots_is_not_followed(redis_server, dirs, option, make_link):
    theirs, roots = dirs
    victim = secret(roots / "victim")
    make_link(theirs / "file", victim)
    path = config(theirs.parent / "hasp.ini", redis_server, user=USER.pw_name,
                  **{option: OPTIONS[option].format(theirs / "file")})
    result = run("-c", path)
    assert result.returncode == 1 and f"{theirs}/file" in result.stderr
    assert untouched(victim)


@pytest.mark.parametrize("option", OPTIONS)
def test_link_of_the_user_to_a_directory_of_roots_is_not_followed(redis_server, dirs, option):
    theirs, roots = dirs
    (theirs / "dir").symlink_to(roots)
    path = config(theirs.parent / "hasp.ini", redis_server, user=USER.pw_name,
                  **{option: OPTIONS[option].format(theirs / "dir" / "file")})
    result = run("-c", path)
    assert result.returncode == 1 and "Permission denied" in result.stderr
    assert list(roots.iterdir()) == []


@pytest.mark.parametrize("option", OPTIONS)
def test_directory_in_which_others_write_is_not_trusted(redis_server, dirs, option):
    _, roots = dirs
    roots.chmod(0o775)
    path = config(roots.parent / "hasp.ini", redis_server, user=USER.pw_name,
                  **{option: OPTIONS[option].format(roots / "file")})
    result = run("-c", path)
    assert result.returncode == 1 and "Permission denied" in result.stderr
    assert list(roots.iterdir()) == []


@pytest.mark.parametrize("through_link", [False, True], ids=["", "link"])
def test_directory_of_roots_serves_as_before(start_hasp, dirs, through_link):
    """Such as /run and /var/log; /var/run is a link of root's."""
    _, roots = dirs
    at = roots
    if through_link:
        at = roots.parent / "link"
        at.symlink_to("roots")
    options = {"user": USER.pw_name, "listen": f"127.0.0.1:0 unix:{at}/s", "pid_file": f"{at}/pid"}
    for _ in range(2):  # the second finds what the first could not remove
        hasp = start_hasp(**options)
        assert (roots / "s").stat().st_uid == USER.pw_uid
        assert ((roots / "pid").read_text(), (roots / "pid").stat().st_uid) == (f"{hasp.pid}\n", 0)
        assert hasp.stop() is None


def test_log_in_a_directory_of_roots_becomes_the_users(redis_server, dirs):
    _, roots = dirs
    path = config(roots.parent / "hasp.ini", redis_server, user=USER.pw_name, log=roots / "log",
                  pid_file=roots / "pid")
    assert run("-d", "-c", path).returncode == 0
    pid = int((roots / "pid").read_text())
    os.kill(pid, signal.SIGHUP)
    until(lambda: "reloaded" in (roots / "log").read_text(), "the log to be opened anew")
    os.kill(pid, signal.SIGTERM)
    until(lambda: not pathlib.Path(f"/proc/{pid}").exists() or "State:\tZ" in
          pathlib.Path(f"/proc/{pid}/status").read_text(), "hasp to leave")
    status = (roots / "log").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (USER.pw_uid, USER.pw_gid, 0o640)


def test_socket_in_a_directory_of_the_users_is_listened_to_as_the_user(start_hasp, dirs):
    theirs, _ = dirs
    hasp = start_hasp(user=USER.pw_name, listen=f"unix:{theirs}/s")
    with hasp.connect() as one:
        credentials = one.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    assert struct.unpack("3i", credentials)[1:] == (USER.pw_uid, USER.pw_gid)
    assert hasp.stop() is None
    assert list(theirs.iterdir()) == []
