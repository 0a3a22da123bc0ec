# SPDX-License-Identifier: BSD-3-Clause
"""hasp's HTTP replies, and its metrics as Prometheus reads them.

    hasp = start_hasp(rule() + HTTP)
    ask(hasp, "/healthz") -> (reply, text)
    metrics(hasp)["hasp_clients", ()]
    of(hasp, "hasp_lock_acquired_total", "locks")
"""

import contextlib
import http.client
import re

from .wait import until

HTTP = "[http]\nlisten = 127.0.0.1:0\n"
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def where(hasp):
    return re.search(r"\blistening_http address=127\.0\.0\.1:(\d+)", hasp.log)[1]


def ask(hasp, path, method="GET", body=None):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", where(hasp), timeout=60)) as c:
        c.request(method, path, body)
        reply = c.getresponse()
        return reply, reply.read().decode()


def read_metrics(text):
    """Returns {(name, labels): value}. Checks the format: each family is in one piece, has help and
    type, and no sample twice."""
    samples, families, family = {}, set(), None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in families
            families.add(family)
        elif line.startswith("# TYPE "):
            assert line.split()[2] == family
            kind = line.split()[3]
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert name == family or kind == "histogram" and re.fullmatch(family + "_(bucket|sum|count)", name)
            key = name, tuple(LABEL.findall(labels or ""))
            assert key not in samples
            samples[key] = float(value)
    return samples


def metrics(hasp):
    """Returns the metrics of all workers; a busy one may miss a scrape, which is then repeated."""
    samples = {}

    def whole():
        reply, text = ask(hasp, "/metrics")
        assert reply.status == 200
        assert reply.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
        samples.update(read_metrics(text))
        return samples["hasp_workers_answered", ()] == samples["hasp_workers", ()]

    until(whole, "all workers to answer")
    return samples


def of(hasp, name, section_name, kind="lock", **more):
    return metrics(hasp)[name, (("rule", section_name), ("kind", kind), *more.items())]


def value(hasp, name, **labels):
    """Returns the sample's value, or None without such a sample."""
    return metrics(hasp).get((name, tuple(labels.items())))
