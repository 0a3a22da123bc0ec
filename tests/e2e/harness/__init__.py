# SPDX-License-Identifier: BSD-3-Clause
"""The basis of the end-to-end tests: real processes, raw sockets, legacy applications."""

from .apps import run_app
from .processes import TOP, Hasp, RedisServer
from .resp import Connection, encode
from .wait import until

__all__ = ["TOP", "Connection", "Hasp", "RedisServer", "encode", "run_app", "until"]
