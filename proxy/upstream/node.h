/* SPDX-License-Identifier: BSD-3-Clause
 *
 * node: one Redis server, as a worker sees it: its address, the links of clients, hasp's own
 * connection, and the connection for published messages. A node may later move to another
 * server, or have none: node_move(), node_leave().
 */
#ifndef HASP_UPSTREAM_NODE_H
#define HASP_UPSTREAM_NODE_H

#include "net/name_watch.h"
#include "upstream/control.h"
#include "upstream/link.h"
#include "upstream/liveness.h"
#include "upstream/pool.h"
#include "upstream/subscriber.h"

/* The settings of all nodes. */
struct node_settings {
	/* Time limits of connections, as in struct dialer. */
	int64_t connect_timeout_ms, keepalive_ms, user_timeout_ms;
	struct dial_tls tls;
	int64_t dns_max_ttl_ms; /* for name_watch_set() */
	int64_t check_delay_ms; /* for control_set_check_delay() */
	int64_t server_timeout_ms; /* for liveness_set_timeout() */
	int64_t failover_wait_ms; /* for link_env.failover_wait */
	int64_t links_per_login; /* limit of each login's shared links; >= 1 */
	int64_t links_max; /* limit of this worker's links; 0: no limit */
	bool is_alone; /* the configuration names one server, by its address */
};

/* The state of a node, as hasp's own connection sees it. */
enum node_health {
	NODE_ANSWERS,
	NODE_UNSURE, /* a check is in flight, or the connection is being made */
	NODE_SILENT, /* the server cannot be reached, or has not answered for a while */
};

/* Reasons to freeze a node, as bits: see node_freeze(). */
enum node_freeze {
	NODE_LEAVING = 1, /* another server is about to replace the node's server */
	NODE_PAUSED = 2, /* the operator has paused hasp */
	NODE_AT_REST = 4, /* hasp is paused, and no request is in flight any more */
};

#define NODE_HISTORY_SIZE 48
struct node {
	struct link_env links; /* the environment of all links to the server */

	/* `pool`, `control`, `liveness` and `name` are NULL after node_stop(). */
	struct pool *pool; /* the shared links */
	struct control *control; /* hasp's own connection */
	struct liveness *liveness;
	struct name_watch *name; /* resolves the address from time to time */

	struct subscriber *subscriber; /* for published messages; NULL before node_listen() */
	struct control *acks; /* hasp's connection for WAIT; NULL before node_acks() */
	struct node_settings settings; /* the settings in force */
	unsigned held; /* reasons of node_freeze(); 0: the node is not frozen */
	unsigned nups; /* number of times that `control` has come up */
	char history[NODE_HISTORY_SIZE]; /* the server's replication id when it was last up; "":
	                                  * not known */
	const struct node_ops *ops;
	void *arg;
	struct list in_topology; /* in a list of the topology */
};

struct node_ops {
	/* Gets COMMAND's reply, which is no error. Returns how many commands it describes. */
	size_t (*on_commands)(void *arg, struct node *n, const redisReply *reply);
	/* Called when `control` is up and logged in, before any call can be made. */
	void (*on_up)(void *arg, struct node *n);
	/* Called when the node has moved to another server, or has none now. Links to the old
	 * server have ended or are outdated. */
	void (*on_moved)(void *arg, struct node *n);
	/* Called when requests that node_freeze() held back may go on; after on_moved(). */
	void (*on_released)(void *arg, struct node *n);
	/* Called, any number of times, when the server may no longer be the primary. */
	void (*on_alarm)(void *arg, struct node *n, enum link_alarm alarm);
	/* Called when the node is up again and may lack the last writes: a replica was
	 * promoted, or the server was restarted. Also called if an ACL forbids INFO, because
	 * hasp then cannot know this. */
	void (*on_changed)(void *arg, struct node *n);
};

/* Makes a node without a server; call node_move() or node_leave() before the loop runs.
 * `links`: the settings that the links of all nodes share. */
struct node *node_new(const struct link_env *links, const struct node_ops *ops, void *arg);
/* Applies the first configuration, or a changed one. */
void node_use(struct node *n, const struct node_settings *s);
/* Closes the shared links, which must have no users, and hasp's own connections: calls in
 * flight get NULL. */
void node_stop(struct node *n);
/* Frees the node. Call it after node_stop(), when all links are closed. */
void node_free(struct node *n);

/* Makes n->subscriber, which the caller then opens. opts->env is ignored. Call it once. */
void node_listen(struct node *n, const struct subscriber_opts *opts);

/* Returns hasp's own connection for calls that block the connection, such as WAIT; makes it the
 * first time. Do not call it after node_stop(). */
struct control *node_acks(struct node *n);

/* Moves the node to the server at `address`: new links and hasp's own connections go there.
 * With a `reason`, open links end at once, as if Redis died; if `reason` is NULL, clients leave
 * each link when it is idle. */
void node_move(struct node *n, const char *address, const char *reason);
/* As node_move(), but no server is known: clients wait for a server, for links.failover_wait at
 * most. `no_server_reason`: the text of the error that clients then get. */
void node_leave(struct node *n, const char *no_server_reason, const char *reason);
/* If `held`, freezes the node for the reason `why`; else ends this reason. While a node is
 * frozen, clients send no new requests, and hasp itself sends only renewals; but if NODE_PAUSED
 * is the only reason, hasp sends all its calls. Requests in flight go on. node_move() and
 * node_leave() end NODE_LEAVING. */
void node_freeze(struct node *n, enum node_freeze why, bool held);
/* Logs hasp's own connections in again, because links.user or links.password has changed. */
void node_log_in(struct node *n);

/* Returns NODE_SILENT after node_stop(). */
enum node_health node_health(const struct node *n);

/* Resolves the host name of the node's address at once. */
void node_look_up(struct node *n);

#endif
