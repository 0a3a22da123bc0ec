# SPDX-License-Identifier: BSD-3-Clause
"""Certificates for tests, and a Redis and connections that use them.

    authority = Authority(directory)
    authority.certificate("server", names="DNS:localhost,IP:127.0.0.1")  -> Certificate
"""

import collections
import os
import ssl
import subprocess
import time

import pytest

from .guards import guard
from .processes import RedisServer, free_port
from .resp import Connection
from .sections import VERBS, rule

Certificate = collections.namedtuple("Certificate", "cert key")

# Marks tests that cannot run over TLS: a client cannot finish a handshake while hasp is stopped,
# and a refused client gets no error. With $HASP_TLS, conftest.py skips them.
UNLESS_ENCRYPTED = pytest.mark.unless_encrypted

# Options of a hasp whose clients use TLS, and the authority that the clients trust.
Encrypting = collections.namedtuple("Encrypting", "options authority")

LOCALHOST = "DNS:localhost,IP:127.0.0.1"
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


CA_CONFIG = """
[ca]
default_ca = it
[it]
database = {database}
new_certs_dir = {directory}
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
"""


DAY = 24 * 3600


def date(seconds):
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(seconds))


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, stdin=subprocess.DEVNULL)


class Authority:
    """Signs certificates, which are files in `directory`."""

    def __init__(self, directory, name="authority"):
        self.directory = directory
        self.cert, self.key = directory / f"{name}.crt", directory / f"{name}.key"
        openssl("req", "-x509", *KEY, "-keyout", self.key, "-out", self.cert, "-days", 2, "-subj", f"/CN={name}",
                "-addext", "keyUsage=critical,keyCertSign")

    def certificate(self, name, names=LOCALHOST):
        cert, key, request, extensions = self._requested(name, names)
        openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial",
                "-out", cert, "-days", 2, "-extfile", extensions)
        return Certificate(cert, key)

    def certificate_until(self, end, name):
        """Returns a certificate that was valid from yesterday until `end`, in Unix seconds."""
        cert, key, request, extensions = self._requested(name, LOCALHOST)
        config, database = self.directory / "ca.cnf", self.directory / "ca.txt"
        database.write_text("")
        config.write_text(CA_CONFIG.format(database=database, directory=self.directory))
        openssl("ca", "-batch", "-notext", "-config", config, "-in", request, "-cert", self.cert, "-keyfile", self.key,
                "-out", cert, "-startdate", date(end - DAY), "-enddate", date(end), "-extfile", extensions)
        return Certificate(cert, key)

    def expired(self, name):
        return self.certificate_until(time.time() - 1, name)

    def _requested(self, name, names):
        cert, key, request, extensions = (self.directory / f"{name}.{end}" for end in ("crt", "key", "csr", "ext"))
        openssl("req", *KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        # Python 3.13 requires the authority's key identifier.
        extensions.write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n")
        return cert, key, request, extensions

    def trusting(self, certificate=None, **options):
        """Returns an SSLContext that trusts the authority, and shows `certificate`."""
        context = ssl.create_default_context(cafile=str(self.cert))
        if certificate:
            context.load_cert_chain(certificate.cert, certificate.key)
        for name, value in options.items():
            setattr(context, name, value)
        return context


def server_options(authority, certificate):
    """Returns options for the `tls` of Sentinels, Cluster and Quorum."""
    return ("--tls-cert-file", certificate.cert, "--tls-key-file", certificate.key, "--tls-ca-cert-file", authority.cert,
            "--tls-auth-clients", "no", "--tls-replication", "yes", "--tls-cluster", "yes")


class TlsRedis(RedisServer):
    """A Redis that also listens for TLS, at tls_address. `clients`: whether clients need
    certificates."""

    tls_port = None

    def __init__(self, authority, certificate, *options, clients="no"):
        super().__init__("--tls-cert-file", certificate.cert, "--tls-key-file", certificate.key,
                         "--tls-ca-cert-file", authority.cert, "--tls-auth-clients", clients, *options)

    def further_listeners(self):
        if not self.port:  # at a restart, the server keeps its ports
            self.tls_port = free_port(self.host)
        return "--tls-port", self.tls_port

    @property
    def tls_address(self):
        return f"localhost:{self.tls_port}"


def connect_tls(address, context, session=None):
    """Returns a Connection that uses TLS."""
    connection = Connection(address)
    connection.file.close()
    try:
        connection.sock = context.wrap_socket(connection.sock, server_hostname="localhost", session=session)
    except OSError:
        connection.sock.close()
        raise
    connection.file = connection.sock.makefile("rb")
    return connection


def encrypted(address, authority, **options):
    """Returns lines of [upstream] for a TLS server."""
    options = {"address": address, "tls": "yes", "tls_ca_cert_file": authority.cert, **options}
    return "\n".join(f"{name} = {value}" for name, value in options.items())


def tls_address(hasp):
    host, port = hasp.listening[1].rsplit(":", 1)
    return host, int(port)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificate(authority):
    return authority.certificate("server")


def is_everything_encrypted():
    return bool(os.environ.get("HASP_TLS"))


@pytest.fixture(scope="session")
def everything_encrypted(tmp_path_factory):
    """With $HASP_TLS, returns the options with which start_hasp() listens for TLS in all other
    tests. Otherwise returns None."""
    if not is_everything_encrypted():
        return None
    trusted = Authority(tmp_path_factory.mktemp("everything"))
    certificate = trusted.certificate("server")
    return Encrypting({"listen_tls": "127.0.0.1:0", "tls_cert_file": certificate.cert, "tls_key_file": certificate.key},
                      trusted)


@pytest.fixture(scope="module")
def tls_redis(authority, certificate):
    with TlsRedis(authority, certificate) as redis:
        yield redis


@pytest.fixture
def tls_hasp(start_hasp, authority, certificate, tls_redis):
    """tls_hasp(...) starts a hasp that uses TLS to Redis and at its second listener."""

    def start(rules=rule() + guard() + VERBS, upstream=None, certificate=certificate, **options):
        options = {"listen_tls": "127.0.0.1:0", "tls_cert_file": certificate.cert, "tls_key_file": certificate.key,
                   **options}
        upstream = upstream or encrypted(tls_redis.tls_address, authority)
        return start_hasp(rules, upstream=upstream, **options)

    return start
