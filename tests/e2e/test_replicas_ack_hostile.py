# SPDX-License-Identifier: BSD-3-Clause
"""If a primary answers WAIT with anything but a number of replicas, hasp counts no replica."""

import re

import pytest
from harness.relay import Relay
from harness.replicas import Replicas
from harness.replies import FENCE, NOREPLICAS, ONE, PONG
from harness.sections import verbs

WAITED = re.compile(rb":\d+\r\n$")
ANSWERS = [b"-ERR no\r\n", b"-\r\n", b"+9\r\n", b"$1\r\n9\r\n", b"$-1\r\n", b"*-1\r\n", b"*1\r\n:9\r\n", b":-1\r\n",
           b":99999999\r\n", b":9223372036854775807\r\n", b"(9\r\n", b",9\r\n", b"#t\r\n", b"_\r\n", b"9\r\n", b"\0\xff no RESP\r\n",
           b""]


class Nonsense(Relay):
    """A relay that replaces each answer to WAIT by `answer`."""

    answer = None

    def __init__(self, target):
        self.asking = set()  # sockets to Redis over which hasp has sent WAIT
        super().__init__(target)

    def _pass_on(self, data, source, sink, replies):
        if not replies and b"\r\nWAIT\r\n" in data:
            self.asking.add(sink)
        elif replies and source in self.asking and self.answer is not None and WAITED.search(data):
            data = WAITED.sub(lambda _: self.answer, data)
        sink.sendall(data)


@pytest.fixture(scope="module")
def servers():
    with Replicas(1) as servers:
        yield servers


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_answer_that_is_no_number_of_replicas_confirms_nothing(start_hasp, servers, answer):
    plain = servers.primary.client()
    plain.delete("k")
    with Nonsense(servers.primary.address) as relay:
        upstream = f"address = {relay.address}\nreplicas_ack = 1\nreplicas_ack_timeout = "
        hasp, patient = (start_hasp(verbs(), upstream=upstream + timeout).is_up() for timeout in ("500ms", "20s"))
        with hasp.connect() as one, hasp.connect() as other, patient.connect() as third:
            relay.answer = answer
            assert one.call("LOCK", "k") == NOREPLICAS
            assert other.call("PING") == PONG and not plain.exists("k")
            relay.answer = None
            assert third.call("LOCK", "k") == FENCE and third.call("UNLOCK", "k") == ONE
        assert " got=-1 " in hasp.log
