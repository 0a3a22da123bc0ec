/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dial: opens one connection: resolves the name, tries its addresses in turn, gives up
 * after a time. Every dial resolves anew, so that a name that moves is followed.
 */
#ifndef HASP_NET_DIAL_H
#define HASP_NET_DIAL_H

#include <ev.h>
#include <stdint.h>

#include "net/address.h"
#include "net/resolve.h"

struct dial;

/* What dialling needs; shared by all dials of a worker. */
struct dialer {
	struct ev_loop *loop;
	struct resolver *resolver;
	int64_t timeout_ms; /* for resolving and connecting together; > 0 */
	int64_t keepalive_ms; /* TCP keepalive; 0: off */
};

/* Begins. `done` runs once, later, on the loop: with a connected non-blocking socket, which is
 * then the callee's, or with -1 and the reason in words. The dial is freed afterwards. */
struct dial *dial(const struct dialer *d, const struct address *to,
                  void (*done)(void *arg, int fd, const char *reason), void *arg);

/* Gives up; `done` will not run. Only before it ran. */
void dial_cancel(struct dial *d);

/* Sets what every TCP socket of ours has: no delay, and keepalive unless 0. */
void dial_tune(int fd, int64_t keepalive_ms);

#endif
