/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watcher: a thread that finds the primary for all workers, by the sentinels.
 *
 *             .--- poll, +switch-master, watcher_ask() ---.
 *             v                                           |
 *   ask the sentinels in turn --> another one? on_primary(none) --> ROLE says master?
 *             ^                                                      |          |
 *             '--- no sentinel answers, not a master: soon again ----'          v
 *                                                                     on_primary(address)
 *
 * When a sentinel announces a failover, the watcher calls on_primary(address, leaving) before
 * the primary is replaced, because Redis' sentinels promote a replica while the old primary
 * still accepts writes, and those writes are lost.
 *
 * If the configuration has one address, the watcher only asks the server at that address for
 * its role when a worker alarms the watcher, because the address may now lead to another
 * server.
 */
#ifndef HASP_UPSTREAM_WATCHER_H
#define HASP_UPSTREAM_WATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "upstream/link.h"

struct watcher;

/* The settings, which the watcher copies. */
struct watcher_settings {
	const char *master; /* the master's name at the sentinels; NULL: no sentinels */
	char *const *sentinels; /* addresses; at least one if there is a master */
	size_t nsentinels;
	const char *address; /* address of the only server, if there is no master */
	const char *user, *password; /* login at servers; NULL: none */
	const char *sentinel_user, *sentinel_password; /* login at sentinels; NULL: none */
	struct dial_tls tls; /* TLS settings of all connections */
	int64_t timeout_ms; /* limit of one question; > 0 */
	int64_t failover_wait_ms; /* limit of the wait for an announced failover; 0: no wait */
};

/* The present primary. Valid during the call of on_primary(). */
struct found_primary {
	const char *master; /* the master's name; NULL: no sentinels */
	const char *address; /* HOST:PORT; NULL: there is no primary now */
	const char *why; /* why there is no primary */
	bool anew; /* open links to the address may lead to another server */
	bool leaving; /* a failover is announced: send nothing more to this primary until the
	               * watcher calls again, for failover_wait_ms at most */
};

/* Makes a watcher, which calls `on_primary` on its thread at each change. */
struct watcher *watcher_new(void (*on_primary)(void *arg, const struct found_primary *p),
                            void *arg);
/* Starts the thread. Returns 0, or an errno: then there is no thread. */
int watcher_start(struct watcher *w) __attribute__((warn_unused_result));
/* Ends the thread: `on_primary` does not run any more. */
void watcher_stop(struct watcher *w);
/* Frees the watcher. Call it last, after watcher_stop(), or if no thread was started. */
void watcher_free(struct watcher *w);

/* Sets new settings; the watcher then reports the primary again. From any thread. */
void watcher_use(struct watcher *w, const struct watcher_settings *s);

/* Makes the watcher check whether the primary has changed. From any thread, at any rate. */
void watcher_ask(struct watcher *w, enum link_alarm alarm);

#endif
