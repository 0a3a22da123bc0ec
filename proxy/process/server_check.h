/* SPDX-License-Identifier: BSD-3-Clause
 *
 * server_check: checks the server for `hasp -t`: whether hasp can reach it, of which kind it
 * is, and whether it allows all commands that hasp needs. The check changes nothing there,
 * except that it loads hasp's scripts.
 */
#ifndef HASP_PROCESS_SERVER_CHECK_H
#define HASP_PROCESS_SERVER_CHECK_H

#include "base/buf.h"
#include "config/types.h"

/* Checks the server, for some seconds at most. Appends a line to `good` for each check that
 * passed, and to `warnings` for each that failed. */
void server_check(const struct config *config, struct buf *good, struct buf *warnings);

#endif
