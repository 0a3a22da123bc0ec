/* SPDX-License-Identifier: BSD-3-Clause
 *
 * simulation: one seed from its beginning to its end: a Redis, hasps before it, and a model's
 * clients.
 *
 *   model works, faults happen --> faults end, clients finish --> nobody hangs?
 *        --> leases end --> is nothing left behind?
 *
 * A model is an application with the promises that hasp makes to it: what its clients do, and
 * what they note in the history (history.h), which decides whether that is possible.
 */
#ifndef HASP_TESTS_SIM_SIMULATION_H
#define HASP_TESTS_SIM_SIMULATION_H

#include "tests/sim/process.h"
#include "tests/sim/server.h"

#define HASPS_MAX 3
#define REDIS_PORT 6379
#define QUORUM_MAX 5 /* servers of a quorum, at the ports after REDIS_PORT */
/* The longest lease of a quorum's locks: a server that was started less than this ago does not
 * count. */
#define QUORUM_RESTART_DELAY (3 * SECOND)

struct model;

struct simulation {
	struct server redis;
	struct server quorum[QUORUM_MAX];
	size_t nquorum; /* 0: the model has no quorum */
	struct process hasps[HASPS_MAX];
	size_t nhasps;
	const struct model *model;
	bool closing; /* clients begin nothing new, and leave when they have finished */
};

struct model {
	const char *name;
	const char *about; /* description in one line */
	const char *ini; /* sections of its hasps' files besides [hasp] and [upstream] */
	size_t nhasps, nworkers;
	size_t nquorum; /* servers of a quorum besides Redis; 0: no quorum */
	bool votes_late; /* in some seeds, its servers are so far away that votes come late */
	bool needs_data; /* Redis never loses its data */
	void (*begin)(struct simulation *s);
	/* Names a client that has not left; NULL: all have. */
	const char *(*who_hangs)(void);
	/* When all have left and all leases are over; may be NULL. */
	void (*check)(struct simulation *s);
	/* May this key be left in Redis when all is over? NULL: none may. */
	bool (*may_stay)(struct slice key);
	void (*end)(void);
};

extern const struct model *const models[]; /* ends with NULL */

struct simulation_opts {
	const struct model *model; /* NULL: chance decides */
	bool quiet_world; /* no faults */
};

/* The sums of all seeds that were run. */
struct simulation_totals {
	double seconds; /* of virtual time */
	unsigned long long nfaults, ngrants; /* locks that clients got */
};
extern struct simulation_totals simulation_totals;

/* Runs the seed. Returns false if the history is wrong. */
bool simulation_run(uint64_t seed, const struct simulation_opts *opts);

/* The hasp and the port to which the client `number` connects. */
struct process *simulation_hasp(struct simulation *s, size_t number);
int simulation_port(const struct simulation *s, size_t number);

#endif
