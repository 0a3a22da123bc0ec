/* SPDX-License-Identifier: BSD-3-Clause
 *
 * server_check: what `hasp -t` asks the server: is it there, what is it, and does it let hasp
 * do what hasp has to. Nothing is changed there, but that it knows hasp's scripts afterwards.
 */
#ifndef HASP_SERVER_CHECK_H
#define HASP_SERVER_CHECK_H

#include "base/buf.h"
#include "config/types.h"

/* Waits for the server, some seconds at most. What is as it should be is appended to `good`,
 * what is not to `warnings`, a line for each. */
void server_check(const struct config *config, struct buf *good, struct buf *warnings);

#endif
