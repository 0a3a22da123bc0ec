/* SPDX-License-Identifier: BSD-3-Clause
 *
 * config: hasp's settings as the file gave them, whole and checked. A struct
 * config never changes once it is loaded; a reload makes a new one and the
 * old lives until its last user lets go. Knows nothing of sockets.
 */
#ifndef HASP_CONFIG_CONFIG_H
#define HASP_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum owner_kind {
	OWNER_CONNECTION,
	OWNER_ADDRESS,
	OWNER_NAME,
	OWNER_USER,
	OWNER_VALUE,
};

enum renew_mode { RENEW_NO, RENEW_YES, RENEW_UNLEASED };
enum disconnect_mode { DISCONNECT_EXPIRE, DISCONNECT_RELEASE };
enum reentrant_mode { REENTRANT_NO, REENTRANT_REFRESH, REENTRANT_COUNT };
enum pooling { POOLING_SHARED, POOLING_SESSION };
enum rule_mode { MODE_ENFORCE, MODE_OBSERVE };

/* A list of strings, as "a b, c" in the file. */
struct strings {
	char **v;
	size_t *lengths;
	int *lines; /* where each stands in the file; 0: a default */
	size_t n;
};

static inline struct slice strings_at(const struct strings *list, size_t i)
{
	return slice_of(list->v[i], list->lengths[i]);
}

/* One [lock NAME] section. */
struct rule {
	char *name;
	int line; /* where the section begins */
	size_t index; /* position in config.rules */
	struct strings patterns; /* Redis globs, at least one */
	enum owner_kind owner;
	int64_t lease_ms; /* > 0 */
	int64_t max_lease_ms; /* 0: no limit; else >= lease_ms */
	int64_t wait_ms; /* a failed try waits this long; 0: it does not */
	int64_t max_hold_ms; /* 0: no limit; renewal stops after it */
	enum renew_mode renew;
	enum disconnect_mode on_disconnect;
	enum reentrant_mode reentrant; /* NO or REFRESH */
	enum rule_mode mode;
};

/* One [guard NAME] section. */
struct guard {
	char *name;
	int line; /* where the section begins */
	size_t index; /* position in config.guards */
	struct strings patterns; /* Redis globs, at least one */
	struct strings acquire_on; /* commands' names, at least one */
	struct strings release_on; /* none: every write that is not in acquire_on */
	struct strings except; /* readers who take no guard: name:GLOB, user:GLOB,
	                          listener:ADDRESS */
	enum owner_kind owner; /* any but VALUE */
	int64_t lease_ms; /* > 0 */
	int64_t wait_ms; /* how long a command waits for the guard; 0: it does not */
	enum disconnect_mode on_disconnect;
	enum rule_mode mode;
};

/* The [verbs] section. */
struct verbs {
	bool enabled; /* the section is there */
	int line;
	char *lock; /* the commands' names */
	char *unlock;
	char *extend;
	char *info;
	enum owner_kind owner; /* any but VALUE */
	enum reentrant_mode reentrant; /* the layout: COUNT, REFRESH or NO */
	int64_t lease_ms;
	int64_t max_lease_ms; /* 0: no limit */
	int64_t max_hold_ms; /* 0: no limit */
	enum disconnect_mode on_disconnect;
};

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct config {
	char *path; /* the file it came from; NULL: defaults only */

	/* [hasp] */
	struct strings listen; /* HOST:PORT, [V6]:PORT, *:PORT, unix:/PATH */
	int64_t unix_socket_mode; /* permission bits */
	int64_t workers; /* threads, >= 1 */
	int64_t backlog; /* listen(2)'s */
	int64_t max_clients; /* over all workers together */
	int64_t client_idle_timeout_ms; /* 0: never */
	int64_t tcp_keepalive_ms; /* 0: off; whole seconds */
	int64_t max_request; /* bytes; longest request held whole for a rule */
	int64_t client_output_limit; /* bytes of replies a client on a shared link may leave
	                                unread */
	int64_t memory_limit; /* bytes of unread replies and unsent requests, over all clients
	                       */
	int64_t drain_timeout_ms; /* how long SIGTERM waits for busy clients */
	char *user; /* NULL: stay */
	char *pid_file; /* NULL: none */
	char *log; /* stderr, syslog, or a file's path */
	enum log_level log_level;

	/* [upstream] */
	char *address; /* HOST:PORT, [V6]:PORT or unix:/PATH */
	char *upstream_user; /* NULL: none; for hasp's own connections */
	char *upstream_password; /* NULL: none */
	enum pooling pooling;
	int64_t links_per_worker; /* shared links for each login, >= 1 */
	int64_t connect_timeout_ms; /* resolve and connect together */

	struct rule **rules; /* in the file's order: the first that matches wins */
	size_t nrules;
	struct guard **guards; /* likewise */
	size_t nguards;
	uint8_t concerns[256]; /* by a key's first byte; see config_concerns() */
	struct verbs verbs;

	_Atomic int refs;
};

/* Reads and checks `path` (NULL: all defaults). Every fault found is appended to
 * `faults` as one line `FILE:LINE: what is wrong and what would be right`;
 * suspicious but legal settings go to `warnings` in the same form.
 * Returns the configuration with one reference, or NULL when there was a fault. */
struct config *config_load(const char *path, struct buf *faults, struct buf *warnings);

struct config *config_ref(struct config *c);
void config_unref(struct config *c); /* NULL is allowed; last one frees */

/* Appends to `out` one line per setting that differs between the two but cannot
 * change without a restart (listen, workers, user, ...). Returns their number. */
size_t config_needs_restart(const struct config *running, const struct config *next,
                            struct buf *out);

/* The first rule one of whose patterns matches `key`; NULL: none. Keys that
 * begin with "hasp:" are hasp's own and match no rule. */
const struct rule *config_rule_for(const struct config *c, struct slice key);

/* The first guard one of whose patterns matches `key`; NULL: none, or the key has a rule, or is
 * hasp's own. */
const struct guard *config_guard_for(const struct config *c, struct slice key);

/* Could there be a rule or a guard for the key: flags. No is certain, and found at a glance. */
enum { CONCERNS_RULE = 1 << 0, CONCERNS_GUARD = 1 << 1 };
static inline unsigned config_concerns(const struct config *c, struct slice key)
{
	return key.n ? c->concerns[(unsigned char)*key.p] : CONCERNS_RULE | CONCERNS_GUARD;
}

/* Is the command `name` one of these (upper or lower case)? */
bool guard_acquires_on(const struct guard *g, struct slice name);
/* Does it release the guard, provided that it writes? */
bool guard_releases_on(const struct guard *g, struct slice name);

#endif
