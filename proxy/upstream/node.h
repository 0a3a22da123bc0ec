/* SPDX-License-Identifier: BSD-3-Clause
 *
 * node: one Redis server, as a worker sees it: its address, the shared links to it, hasp's own
 * connection, and the one that hears what it publishes. Links of a client's own are made with
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
	int64_t dns_max_ttl_ms; /* of name_watch_set() */
	int64_t check_delay_ms; /* of control_set_check_delay() */
	int64_t server_timeout_ms; /* of liveness_set_timeout() */
	int64_t failover_wait_ms; /* of link_env.failover_wait */
	int64_t links_per_login; /* shared ones; >= 1 */
	int64_t links_max; /* of this worker; 0: no limit */
	bool is_alone; /* the configuration names one server, by its address */
};

/* The state of a node, as hasp's own connection sees it. */
enum node_health {
	NODE_ANSWERS,
	NODE_UNSURE, /* it has just been asked, or is being connected */
	NODE_SILENT, /* it cannot be reached, or has not answered for a while */
};

/* Why a node is held: bits. */
enum node_freeze {
	NODE_LEAVING = 1, /* another server is about to take its place */
	NODE_PAUSED = 2, /* the operator wants what is new held back */
	NODE_AT_REST = 4, /* nothing is under way any more; so hasp is still, too */
};

#define NODE_HISTORY_SIZE 48
struct node {
	struct link_env links;
	struct pool *pool; /* NULL after node_stop() */
	struct control *control; /* likewise */
	struct liveness *liveness; /* likewise */
	struct name_watch *name; /* NULL, too; resolves the address again and again */
	struct subscriber *subscriber; /* NULL before node_listen() */
	struct control *acks; /* for WAIT; NULL before node_acks() */
	struct node_settings settings; /* in force */
	unsigned held; /* node_freeze() */
	unsigned nups; /* so often `control` has been up */
	char history[NODE_HISTORY_SIZE]; /* of the server when it was up last; "": not known */
	const struct node_ops *ops;
	void *arg;
};

struct node_ops {
	/* The reply to COMMAND, which is no error. Returns how many commands it describes. */
	size_t (*on_commands)(void *arg, struct node *n, const redisReply *reply);
	/* `control` is up and logged in; runs before any call could be made. */
	void (*on_up)(void *arg, struct node *n);
	/* The node stands for another server or none. Links to the old one ended or are
	 * outdated. */
	void (*on_moved)(void *arg, struct node *n);
	/* Requests that node_freeze() held back may go on. Comes after on_moved(). */
	void (*on_released)(void *arg, struct node *n);
	/* Find out whether it is still the right server. Any number of times. */
	void (*on_alarm)(void *arg, struct node *n, enum link_alarm alarm);
	/* The node is up again, and is another server, or has lost its data: a replica was
	 * promoted, or the server was restarted. The last writes may be missing. Also called if
	 * hasp cannot find out, because INFO is forbidden. */
	void (*on_changed)(void *arg, struct node *n);
};

/* `links`: what the links of all nodes share, without an address, which node_move() sets before
 * the loop runs. `control` then connects by itself. */
struct node *node_new(const struct link_env *links, const struct node_ops *ops, void *arg);
/* The configuration has changed, or is there for the first time. */
void node_use(struct node *n, const struct node_settings *s);
/* Closes the shared links, which have no users, and `control`: its calls in flight get NULL. */
void node_stop(struct node *n);
/* After node_stop(), when all links are closed. */
void node_free(struct node *n);

/* Makes `subscriber`, which is for the caller to open; opts->env is set here. Once. */
void node_listen(struct node *n, const struct subscriber_opts *opts);

/* A connection of hasp's own for calls that block it, as WAIT does. It is made by the first
 * call. Not after node_stop(). */
struct control *node_acks(struct node *n);

/* From now on the node is the server at `address` (an address). hasp's own connections, and
 * links that clients want from now on, or wait for, go there. If `reason` is given, those that
 * are open end at once, as when Redis dies; if NULL, each is left when it is idle. */
void node_move(struct node *n, const char *address, const char *reason);
/* As node_move(), if no server is known, for the reason `no_server_reason`: clients wait until
 * one is known, or for links.failover_wait. */
void node_leave(struct node *n, const char *no_server_reason, const char *reason);
/* Holds the node: from now on clients send nothing more to it, and hasp itself only renewals
 * (NODE_PAUSED: all its calls), until `held` is false. Commands under way go on. node_move()
 * and node_leave() end NODE_LEAVING. */
void node_freeze(struct node *n, enum node_freeze why, bool held);
/* True if hasp itself sends nothing to the node but renewals. */
static inline bool node_is_still(const struct node *n)
{
	return n->held & (NODE_LEAVING | NODE_AT_REST);
}
/* links.user or links.password has changed: hasp's own connections log in again. */
void node_log_in(struct node *n);

/* NODE_SILENT after node_stop(). */
enum node_health node_health(const struct node *n);

/* Resolves the address' name at once. */
void node_look_up(struct node *n);

/* Redis is there: if it could not be reached, hasp's own connections try again now. */
void node_retry_now(struct node *n);

#endif
