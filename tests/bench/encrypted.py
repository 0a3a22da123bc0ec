# SPDX-License-Identifier: BSD-3-Clause
"""The subjects of a benchmark whose clients use TLS: hasp, and its peers as proxies that end TLS.

    with Encrypted(sides) as encrypted:
        encrypted.redis, encrypted.subjects     # a Redis, and as SUBJECTS: by name, makers

`sides`: "clients": a proxy talks to Redis without TLS; "both": with TLS, too. Direct is Redis with
its own TLS. Every subject has `options`, with which redis-benchmark talks to it. All have the same
certificate, and their own choice of protocol, cipher and tickets.
"""

import pathlib
import shutil
import tempfile

from subjects import HAPROXY, Direct, Ours, Peer
from harness.processes import free_port
from harness.tls import Authority, TlsRedis, encrypted, tls_address

# Two services for TLS on both sides: one ends the clients' TLS, one begins TLS to Redis.
STUNNEL = {"clients": """
foreground = yes
pid =
debug = err
[clients]
accept = 127.0.0.1:{port}
connect = {upstream}
cert = {cert}
key = {key}
""", "both": """
foreground = yes
pid =
debug = err
[clients]
accept = 127.0.0.1:{port}
connect = 127.0.0.1:{inner}
cert = {cert}
key = {key}
[redis]
client = yes
accept = 127.0.0.1:{inner}
connect = {upstream}
CAfile = {authority}
verifyChain = yes
"""}


class Encrypted:
    def __init__(self, sides, max_clients):
        self.sides = sides
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="encrypted-"))
        self.authority = Authority(self.dir)
        self.certificate = self.authority.certificate("server")
        # haproxy has them in one file.
        self.pem = self.dir / "server.pem"
        self.pem.write_text(self.certificate.cert.read_text() + self.certificate.key.read_text())
        self.redis = TlsRedis(self.authority, self.certificate, "--maxclients", str(max_clients))
        self.options = ("--tls", "--cacert", str(self.authority.cert))
        self.subjects = {name: self._marked(make) for name, make in {
            "direct": self._direct, "haproxy": self._haproxy, "stunnel4": self._stunnel,
            "hasp": self._hasp, "hasp2": lambda redis: self._hasp(redis, 2)}.items()}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.redis.stop()
        self.redis.remove()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _marked(self, make):
        def maker(redis):
            subject = make(redis)
            subject.options = self.options
            return subject
        return maker

    @property
    def _upstream(self):
        """Returns the upstream address for proxies."""
        return ("127.0.0.1", self.redis.tls_port) if self.sides == "both" else self.redis.address

    def _direct(self, redis):
        subject = Direct(redis)
        subject.address = ("127.0.0.1", redis.tls_port)
        return subject

    def _peer(self, name, config, command):
        cert, key = self.certificate
        return Peer.started(name, config, self._upstream, command, cert=cert, key=key, pem=self.pem,
                            authority=self.authority.cert, inner=free_port())

    def _haproxy(self, _):
        config = HAPROXY.replace("bind 127.0.0.1:{port}", "bind 127.0.0.1:{port} ssl crt {pem}")
        if self.sides == "both":
            config = config.replace("server redis {upstream}",
                                    "server redis {upstream} ssl verify required ca-file {authority}")
        return self._peer("haproxy", config, lambda file: ["haproxy", "-db", "-f", file])

    def _stunnel(self, _):
        return self._peer("stunnel4", STUNNEL[self.sides], lambda file: ["stunnel4", file])

    def _hasp(self, redis, workers=1):
        cert, key = self.certificate
        upstream = (encrypted("127.0.0.1:%d" % redis.tls_port, self.authority)
                    if self.sides == "both" else None)
        subject = Ours(redis, workers, upstream=upstream,
                       options=f"listen_tls = 127.0.0.1:0\ntls_cert_file = {cert}\ntls_key_file = {key}\n")
        subject.address = tls_address(subject.hasp)
        return subject
