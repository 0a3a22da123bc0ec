/* SPDX-License-Identifier: BSD-3-Clause
 *
 * loop: libev in virtual time: the functions of <ev.h> that hasp uses, in place of the library.
 * A loop does not run but is stepped, by an event of the machine that made it, when a socket is
 * ready, a timer is due or another loop has woken it. A step is one iteration of libev's loop:
 *
 *   sockets, timers, check --> callbacks --> prepare --> callbacks --> wait
 *
 * with the order that libev has: of callbacks of one priority, the last one queued runs first.
 */
#ifndef HASP_TESTS_SIM_LOOP_H
#define HASP_TESTS_SIM_LOOP_H

#include <ev.h>
#include <stdbool.h>

struct machine;

/* Call this when a socket that the loop watches may have become ready. */
void loop_wake(struct ev_loop *loop);

/* True if ev_break() has ended the loop. */
bool loop_is_over(const struct ev_loop *loop);
/* Calls `call` with each loop of the machine. */
void loops_each(const struct machine *m, void (*call)(void *arg, struct ev_loop *loop),
                void *arg);
/* The machine's loops begin to run, as threads that were started. */
void loops_start(const struct machine *m);

#endif
