/* SPDX-License-Identifier: BSD-3-Clause
 *
 * node: one Redis server, as a worker sees it: its address, the shared links to it, hasp's own
 * connection, and the one for its published messages. Clients' own links are made with
 * `links`, too. A node may come to stand for another server, or for none: node_move(),
 * node_leave().
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
	/* As in struct dialer. */
	int64_t connect_timeout_ms, keepalive_ms, user_timeout_ms;
	struct dial_tls tls;
	int64_t dns_max_ttl_ms; /* for name_watch_set() */
	int64_t check_delay_ms; /* for control_set_check_delay() */
	int64_t server_timeout_ms; /* for liveness_set_timeout() */
	int64_t failover_wait_ms; /* for link_env.failover_wait */
	int64_t links_per_login; /* limit of shared links; >= 1 */
	int64_t links_max; /* limit of this worker's links; 0: no limit */
	bool is_alone; /* the configuration names one server, by its address */
};

/* The state of a node, as hasp's own connection sees it. */
enum node_health {
	NODE_ANSWERS,
	NODE_UNSURE, /* a check is in flight, or the connection is being made */
	NODE_SILENT, /* the server cannot be reached, or has not answered for a while */
};

/* Reasons to hold a node, as bits. */
enum node_freeze {
	NODE_LEAVING = 1, /* another server is about to take its place */
	NODE_PAUSED = 2, /* the operator wants new requests held back */
	NODE_AT_REST = 4, /* nothing is in flight any more, so hasp sends nothing either */
};

#define NODE_HISTORY_SIZE 48
struct node {
	struct link_env links;
	struct pool *pool; /* NULL after node_stop() */
	struct control *control; /* NULL after node_stop() */
	struct liveness *liveness; /* NULL after node_stop() */
	struct name_watch *name; /* resolves the address from time to time; NULL after
	                          * node_stop() */
	struct subscriber *subscriber; /* NULL before node_listen() */
	struct control *acks; /* for WAIT; NULL before node_acks() */
	struct node_settings settings; /* in force */
	unsigned held; /* node_freeze() */
	unsigned nups; /* how many times `control` has come up */
	char history[NODE_HISTORY_SIZE]; /* the server's when it was last up; "": not known */
	const struct node_ops *ops;
	void *arg;
};

struct node_ops {
	/* Takes COMMAND's reply, which is no error. Returns how many commands it describes. */
	size_t (*on_commands)(void *arg, struct node *n, const redisReply *reply);
	/* Called when `control` is up and logged in, before any call can be made. */
	void (*on_up)(void *arg, struct node *n);
	/* Called when the node stands for another server or none. Links to the old one have
	 * ended or are outdated. */
	void (*on_moved)(void *arg, struct node *n);
	/* Called when requests that node_freeze() held back may go on; after on_moved(). */
	void (*on_released)(void *arg, struct node *n);
	/* Called, any number of times, when this may no longer be the right server. */
	void (*on_alarm)(void *arg, struct node *n, enum link_alarm alarm);
	/* Called when the node is up again, and is another server, or has lost its data: a
	 * replica was promoted, or the server was restarted. The last writes may be missing.
	 * Also called if hasp cannot know, because INFO is forbidden. */
	void (*on_changed)(void *arg, struct node *n);
};

/* `links`: the settings that the links of all nodes share, without an address: node_move()
 * sets that before the loop runs. `control` then connects by itself. */
struct node *node_new(const struct link_env *links, const struct node_ops *ops, void *arg);
/* Applies the first configuration, or a changed one. */
void node_use(struct node *n, const struct node_settings *s);
/* Closes the shared links, which have no users, and `control`: its calls in flight get NULL. */
void node_stop(struct node *n);
/* Call it after node_stop(), when all links are closed. */
void node_free(struct node *n);

/* Makes `subscriber`, which the caller opens, and sets opts->env. Call it once. */
void node_listen(struct node *n, const struct subscriber_opts *opts);

/* Returns a connection of hasp's own for calls that block it, such as WAIT; the first call
 * makes it. Do not call it after node_stop(). */
struct control *node_acks(struct node *n);

/* Makes the node stand for the server at `address`. hasp's own connections, and links that
 * clients request or await, go there. With a `reason`, open links end at once, as if Redis
 * died; if it is NULL, clients leave each when it is idle. */
void node_move(struct node *n, const char *address, const char *reason);
/* As node_move(), if no server is known: clients wait until one is, or for
 * links.failover_wait. `no_server_reason` says why. */
void node_leave(struct node *n, const char *no_server_reason, const char *reason);
/* Holds the node: clients send it nothing new, and hasp itself only renewals (NODE_PAUSED: all
 * its calls), until `held` is false. Commands in flight go on. node_move() and node_leave()
 * end NODE_LEAVING. */
void node_freeze(struct node *n, enum node_freeze why, bool held);
/* True if hasp itself sends nothing to the node but renewals. */
static inline bool node_is_still(const struct node *n)
{
	return n->held & (NODE_LEAVING | NODE_AT_REST);
}
/* Logs hasp's own connections in again, because links.user or links.password has changed. */
void node_log_in(struct node *n);

/* Returns NODE_SILENT after node_stop(). */
enum node_health node_health(const struct node *n);

/* Resolves the name in the address at once. */
void node_look_up(struct node *n);

/* Redis is reachable now: hasp's own connections retry at once if they could not reach it. */
void node_retry_now(struct node *n);

#endif
