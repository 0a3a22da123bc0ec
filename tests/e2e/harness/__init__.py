# SPDX-License-Identifier: BSD-3-Clause
"""What the end-to-end tests stand on: real processes, raw sockets, legacy apps."""

from .apps import run_app
from .processes import TOP, Hasp, RedisServer
from .resp import Connection, encode
from .wait import until

__all__ = ["TOP", "Connection", "Hasp", "RedisServer", "encode", "run_app", "until"]
