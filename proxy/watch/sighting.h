/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sighting: what a command does to keys, as far as `hasp --discover` wants to know; kept until
 * Redis has answered it, and given to the discovery then.
 *
 *   policy/discover.c --> pending request --reply--> sighting_complete() --> discovery
 *
 * The discovery is one for all workers of the process: `struct discoverer` holds it behind a
 * lock.
 */
#ifndef HASP_WATCH_SIGHTING_H
#define HASP_WATCH_SIGHTING_H

#include <stdatomic.h>
#include <pthread.h>

#include "base/buf.h"
#include "commands/effect.h"
#include "resp/reply.h"
#include "watch/discovery.h"
#include "watch/sampling.h"

/* What a script is called with: so many of its arguments are looked at. */
#define SIGHTING_ARGS_MAX 8

struct discoverer {
	pthread_mutex_t lock; /* of the discovery */
	struct discovery *discovery;
	bool is_on; /* else what it is told is lost */
	size_t memory; /* the discovery's bound */
	struct sampling *sampling; /* the discovery's; needs no lock */
	double (*clock)(void); /* seconds; never goes back */
	_Atomic uint64_t commands; /* with keys, that were looked at */
};

struct discoverer *discoverer_new(double (*clock)(void)); /* it is off */
void discoverer_free(struct discoverer *d); /* NULL is allowed; no clients are left */
/* From any thread: it begins with nothing, or goes on if it may take no less memory than
 * before; it forgets all. */
void discoverer_turn_on(struct discoverer *d, size_t memory);
void discoverer_turn_off(struct discoverer *d);
/* From any thread: appends the ini, of which `r->commands` is filled in here (`so_far` as for
 * discovery_snapshot_new()); tells how far it is. */
void discoverer_report(struct discoverer *d, const struct discovery_result *r, bool so_far,
                       struct buf *out);
void discoverer_progress(struct discoverer *d, struct discovery_progress *p);

/* The client, whose address and name (NULL: none) are these; *client is NULL until it was seen.
 */
void discoverer_see_client(struct discoverer *d, struct discovery_client **client,
                           struct slice address, const char *name);
void discoverer_client_free(struct discoverer *d,
                            struct discovery_client *client); /* or NULL */

enum sighting_kind { SIGHTING_EFFECT, SIGHTING_READ, SIGHTING_LOOK, SIGHTING_SCRIPT };

struct sighting {
	struct discoverer *all;
	struct discovery_client *client;
	enum sighting_kind kind;
	enum discovery_read how; /* READ */
	enum discovery_way way; /* EFFECT, of a lock */
	struct effect effect; /* EFFECT */
	double sent_at; /* by the clock; 0: it is queued in a transaction */
	bool watches;
	uint64_t value; /* EFFECT: the hash of what is stored; 0: not known */
	size_t nargs; /* SCRIPT */
	uint64_t args[SIGHTING_ARGS_MAX];
	bool under_lock; /* the client has a lock of LOCK's, or of a rule in force */
	struct buf bytes; /* of the keys */
	size_t n; /* keys */
	struct sighted_key {
		size_t n; /* its length in `bytes` */
		bool covered; /* by a rule or guard in force */
	} keys[];
};

void sighting_free(struct sighting *s); /* NULL is allowed */
size_t sighting_nbytes(const struct sighting *s); /* of memory */
/* It was answered, in database `db`. Its client was not freed. */
void sighting_complete(const struct sighting *s, int db, const struct resp_reply *reply);

#endif
