/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client_env: what the clients of a worker share.
 */
#ifndef HASP_CLIENT_CLIENT_ENV_H
#define HASP_CLIENT_CLIENT_ENV_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/account.h"
#include "base/list.h"
#include "base/log.h"
#include "client/counters.h"
#include "net/stream.h"
#include "policy/context.h"
#include "resp/request.h"
#include "upstream/node.h"

struct client;
struct deadlocks;
struct quorum;
struct replica_acks;
struct round;

/* Only client.c writes it. The phases follow each other in this order. */
enum clients_phase {
	CLIENTS_SERVED,
	CLIENTS_DRAINING, /* each is closed when it is at rest */
	CLIENTS_CUT_OFF, /* hasp ends: what they have runs out with its lease */
};

/* The clients by their places: client_list.h. */
struct client_place {
	struct client *client; /* NULL: the place is free */
	uint64_t id; /* of the client; of a free place: the next one, from 1; 0: none is */
};

struct client_table {
	struct client_place *places;
	uint32_t n, cap;
	uint64_t first_free; /* counted from 1; 0: none is */
	uint64_t last; /* number that was given to a client */
};

/* The state that the clients of a worker share; the worker owns it. */
struct client_env {
	struct ev_loop *loop;
	struct policy_env policy; /* what commands are decided by */
	struct stream_flusher *flusher;
	struct node *node; /* serves the clients */
	struct replica_acks *replica_acks;
	struct deadlocks *deadlocks;
	struct quorum *quorum; /* has the verbs' locks; NULL: `node` has them */
	int worker; /* the worker's number, part of owners' tokens */
	char *scratch; /* requests are read into it */
	size_t scratch_size;
	struct request_args args; /* of the request that is being decided */
	struct command_info found; /* the command of `args`, if that was not remembered */
	struct freelist inputs; /* of BUF_FIRST_SIZE: most clients' `in` */
	struct list clients; /* open, least recently active first */
	struct list finishing; /* sent their last bytes, oldest first */
	struct list dead; /* closed, to be freed by clients_reap() */
	struct list learning; /* CLIENT_PARKED_COMMAND: for clients_know_commands() */
	size_t n; /* clients not yet freed */
	struct client_table table; /* the clients by number */
	struct account account; /* the memory kept for clients, against memory_limit */
	struct client_counters counters;
	size_t most; /* of account.total since memory was last given back */
	unsigned shortages; /* memory_shortages() that have been acted upon */
	struct log_limit over_limit;
	struct log_limit tls_failed; /* of the lines of that name */
	uint64_t nover; /* clients that were closed because too much was kept for them */
	enum clients_phase phase;
	/* A client was freed. */
	void (*on_gone)(void *arg);
	bool is_alone; /* the process has no other worker */
	/* Begins a round of all workers (client/round.h), which has step() and end(). */
	void (*begin_round)(void *arg, struct round *r);
	void *arg;
	/* Set by clients_init(): */
	void (*on_unparked)(struct client *c); /* requests are taken from `in` again */
	const struct waiter_ops *waiter_ops;
	void (*on_acked)(void *client, bool enough); /* a replica_ask_fn */
	void (*on_deadlock)(void *client, struct slice error); /* a deadlock_fn */
};

#endif
