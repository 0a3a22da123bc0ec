#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Makes configure from configure.ac. Needs autoconf, automake and pkg-config.
set -e
cd "$(dirname "$0")"
autoreconf --install --force --warnings=all
