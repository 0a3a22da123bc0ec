/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client: one application's connection: reads its requests, has each one decided
 * (client/dispatch), sends it or what it became over a link, and hands the replies back in
 * order. The link is one shared with other clients until a command needs a private one.
 *
 *   socket -> scratch or `in` -> request scan -> dispatch -+-> pass ----> link -> Redis
 *                                                          +-> rewrite -^     |
 *   socket <------------------- reply scan <----------------------------------+
 *
 * A request that fits is held until it is whole; one that concerns no rule streams through.
 * A rewritten request stays at the head of `in` until it is answered: it may have to be
 * sent again, as EVAL, and what is behind it must wait.
 */
#ifndef HASP_CLIENT_CLIENT_H
#define HASP_CLIENT_CLIENT_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/log.h"
#include "net/stream.h"
#include "policy/context.h"
#include "resp/request.h"
#include "upstream/link.h"
#include "upstream/pool.h"

struct client;

/* What the clients of a worker share; the worker owns it. */
struct client_env {
	struct ev_loop *loop;
	double now; /* clock_now(), when this turn of the loop began */
	struct policy_env policy; /* what commands are decided by */
	struct stream_flusher *flusher;
	struct link_env *links;
	struct pool *pool;
	int worker; /* its number, part of owners' tokens */
	char *scratch; /* requests are read into it */
	size_t scratch_size;
	struct request_args args;
	struct list clients; /* open, least recently active first */
	struct list closing; /* sent their last bytes, oldest first */
	struct list dead; /* closed, to be freed by clients_reap() */
	size_t n; /* clients not yet freed */
	bool draining; /* close every client that is at rest */
	/* A client was freed. */
	void (*on_gone)(void *arg);
	void *arg;
};

/* Takes a connection that was accepted by `listener`, an entry of `listen` that outlives it. */
void client_new(struct client_env *env, int fd, const char *listener);

/* Frees what was closed since the last call. Once per turn of the loop. */
void clients_reap(struct client_env *env);

/* Closes clients that were idle too long, or that do not take their last bytes; with
 * env->draining also those at rest. Once a second or so. */
void clients_sweep(struct client_env *env);

/* Closes them all. */
void clients_close(struct client_env *env, const char *reason);

#endif
