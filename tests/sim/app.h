/* SPDX-License-Identifier: BSD-3-Clause
 *
 * app: an application's connection to hasp: it sends a command, gets the reply, thinks.
 */
#ifndef HASP_TESTS_SIM_APP_H
#define HASP_TESTS_SIM_APP_H

#include <hiredis/hiredis.h>

#include "tests/sim/simnet.h"
#include "tests/sim/world.h"

struct app;

struct app_ops {
	/* The client is connected, and may send. */
	void (*on_connected)(struct app *c);
	/* The oldest unanswered command has its reply; `r` lives during the call. */
	void (*on_reply)(struct app *c, const redisReply *r);
	/* The connection is over. The client connects again by itself after a while, unless
	 * this calls app_fini(). */
	void (*on_lost)(struct app *c);
	/* app_think() is over. */
	void (*on_thought)(struct app *c);
};

struct app {
	struct machine machine;
	const struct app_ops *ops;
	struct sock *sock; /* NULL: not connected */
	redisReader *reader;
	struct buf out; /* commands, or the rest of one, that hasp's buffers had no space for */
	bool writes_first; /* the client reads nothing until `out` is written: app_gather() */
	int port;
	size_t unanswered; /* number of unanswered commands */
	int64_t reply_began; /* world_now(): when the first byte of the reply came */
	struct event next; /* connects again, or ends app_think() */
	bool has_left; /* the client does not connect again */
};

/* Begins to connect, from the machine client`number`. */
void app_start(struct app *c, size_t number, int port, const struct app_ops *ops);
/* Ends the connection, and does not connect again. */
void app_fini(struct app *c);

/* Sends a command, of words divided by single blanks: as much as hasp's buffers take, and the
 * rest by and by. */
void app_call(struct app *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Keeps the commands that follow until app_write(). The client reads no reply before all of
 * them are written. */
void app_gather(struct app *c);
void app_write(struct app *c);
/* on_thought() runs in `us`, unless the connection ends before. */
void app_think(struct app *c, int64_t us);
/* Hangs up; on_lost() does not run. The client connects again after a while. */
void app_hang_up(struct app *c);
/* Sends nothing more, but still reads. */
void app_half_close(struct app *c);

#endif
