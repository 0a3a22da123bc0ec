# SPDX-License-Identifier: BSD-3-Clause
"""A sentinel that sends the messages that a test chooses, when the test chooses.

    with Announcer(server) as announcer:
        start_hasp(upstream=announcer.upstream)
        announcer.begins()          announces that it will replace the primary
        announcer.promotes(other)   ... by this server; or announcer.aborts()

Real sentinels do not stop between these steps. proxy/upstream/sentinel_events.h lists their
messages, in order.
"""

import collections
import socketserver
import threading

from .resp import encode

NAME = "mymaster"


class Announcer:
    def __init__(self, primary):
        self.primary, self.epoch = primary, 1
        self.listeners = collections.defaultdict(list)  # {channel: its subscribers' files}
        self.asked = 0  # requests for the primary's address
        self.lock = threading.Lock()
        announcer = self

        class Connection(socketserver.StreamRequestHandler):
            def handle(self):
                announcer.serve(self.rfile, self.wfile)

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        self.upstream = f"sentinels = {self.address}\nmaster = {NAME}"

    def serve(self, requests, answers):
        try:
            while line := requests.readline():
                words = [line.strip().decode()]
                if line.startswith(b"*"):
                    words = [self._word(requests) for _ in range(int(line[1:]))]
                with self.lock:
                    answers.write(self._answer(words, answers))
        except (OSError, ValueError):
            pass

    @staticmethod
    def _word(requests):
        n = int(requests.readline()[1:])
        return requests.read(n + 2)[:-2].decode()

    def _answer(self, words, answers):
        host, port = "127.0.0.1", self.primary.port
        if words[0] == "SUBSCRIBE":
            self.listeners[words[1]].append(answers)
            return b"*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n" % (len(words[1]), words[1].encode())
        if words[:2] == ["SENTINEL", "GET-MASTER-ADDR-BY-NAME"]:
            self.asked += 1
            return encode(host, port)
        if words[:2] == ["SENTINEL", "MASTER"]:
            return encode("name", NAME, "config-epoch", self.epoch)
        if words[:2] == ["SENTINEL", "SENTINELS"]:
            return b"*0\r\n"
        return b"+PONG\r\n"

    def is_heard(self):
        """Returns true if a subscriber gets all messages of this sentinel."""
        return all(self.listeners[channel] for channel in (
            "+switch-master", "+failover-state-select-slave", "+promoted-slave", "-failover-abort-slave-timeout"))

    def says(self, channel, message):
        with self.lock:
            for listener in self.listeners[channel]:
                try:
                    listener.write(encode("message", channel, message))
                except (OSError, ValueError):
                    pass

    def begins(self, master=NAME):
        self.says("+failover-state-select-slave", f"master {master} 127.0.0.1 {self.primary.port}")

    def aborts(self):
        self.says("-failover-abort-slave-timeout", f"master {NAME} 127.0.0.1 {self.primary.port}")

    def promotes(self, server):
        old = self.primary.port
        server.client().replicaof("NO", "ONE")
        self.primary, self.epoch = server, self.epoch + 1
        address = f"127.0.0.1:{server.port} 127.0.0.1 {server.port}"
        self.says("+promoted-slave", f"slave {address} @ {NAME} 127.0.0.1 {old}")

    def switches(self):
        address = f"127.0.0.1 {self.primary.port}"
        self.says("+switch-master", f"{NAME} {address} {address}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
