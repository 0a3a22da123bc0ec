/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client: one application's connection: reads its requests, has each one decided (policy/),
 * sends it, or a call in its place, over a link, and returns the replies in order. The client
 * shares its link with other clients until a command needs a link of its own.
 *
 *               input.c               requests.c
 *   socket --> scratch or `in` --> request scan --> fast_path.c --> only to be passed --.
 *                                      |                                                v
 *                                      `--> policy/dispatch --PASS------------------> links.c
 *                                                |                                      |
 *                                                `--CALL, GUARD--> exchange.c <--.      |
 *                                                    lock_exchange.c, guard_*.c  |      |
 *                                                                |  one step     |      v
 *   socket <--- replies.c <--------- reply scan <--------------- | ------------- | --- Redis
 *                  |                                             v               |
 *                  `--what the reply means for session and locks-`---answered----'
 *
 * (a) A request that has only to be passed, as most have, is counted and left where it is: a
 * run of them is sent in one piece. (b) A request that fits is kept until it is whole, and
 * decided once. A long request that no rule concerns streams through. (c) A rewritten or
 * guarded request stays at the head of `in` until it is answered: hasp may have to send it
 * again, and later requests must wait. Until then the client is parked. (d) Replies go to the
 * client as they come; the link's FIFO says which of them hasp must read, too.
 */
#ifndef HASP_CLIENT_CLIENT_H
#define HASP_CLIENT_CLIENT_H

#include "client/client_env.h"

struct quorum_owner;

/* Sets the members that belong to this room; the worker sets the others. */
void clients_init(struct client_env *env);

/* Takes the connection `fd`, which `listener` accepted, an entry of `listen` that outlives the
 * client. The client owns `fd` and `tls`; `tls` NULL: not encrypted. `behind`: the client's
 * address by the load balancer's PROXY header, AF_INET or AF_INET6; NULL: the peer's address
 * is the client's. */
void client_new(struct client_env *env, int fd, const char *listener, struct tls *tls,
                const struct sockaddr_storage *behind);

/* Appends what the log calls the client whose holds, or read set, it is; holds_describe_fn and
 * read_sets_describe_fn. */
void client_describe_holder(const struct hold_owner *o, struct buf *out);
void client_describe_reader(const struct read_set *r, struct buf *out);
void client_describe_quorum_owner(const struct quorum_owner *o, struct buf *out);

/* A lock that this client had is gone, and its section has on_lost = close. */
void client_lost_hold(struct hold_owner *o);

/* A lock of a quorum, which this client has, was lost: it is closed, so that it notices. */
void client_lost_lock(struct quorum_owner *o);

/* The lock or guard that a client waits for in line. Points into the client. */
struct client_wait {
	struct client *client;
	const struct section_stats *stats; /* of its section; NULL: it has none any more */
	int db;
	struct slice key; /* the lock, or what is guarded */
};
struct client_wait client_waits_for(void *owner);
/* Appends what the log calls the client. */
void client_describe_waiter(const struct client_wait *w, struct buf *out);

/* Frees the clients that were closed since the last call. Call it once per turn of the loop. */
void clients_reap(struct client_env *env);

/* Closes clients that were idle too long, did not log in, or do not take their last bytes. Once
 * a second or so. */
void clients_sweep(struct client_env *env);

/* The node is another server now: clients that cannot come to it by themselves are closed. */
void clients_follow(struct client_env *env);

/* The node takes what clients send again: those that wait to send something go on. */
void clients_go_on(struct client_env *env);

/* Redis has said what commands were that it was asked about (commands/unmet.h), or cannot be
 * asked: those that wait for that go on. */
void clients_know_commands(struct client_env *env);

/* For a paused node: returns how many clients have a request under way at Redis, or are in the
 * middle of their work. Sets *nbound to the number of other clients that lose their state when
 * Redis ends, because they are subscribed or blocked. */
size_t clients_under_way(const struct client_env *env, size_t *nbound);

/* Begins to drain: from now on a client is closed when it is at rest. A client that has a lock,
 * a guard or a transaction, or waits, is in the middle of its work; it is closed when it has
 * given that back. From then on the caller must call clients_sweep() more often. */
void clients_drain(struct client_env *env);

/* Closes those for which most is kept, while it is more than memory_limit for all together, and
 * gives back the memory that only this turn needed. At the end of each turn of the loop, as
 * nothing is read while there is too much. */
void clients_shed(struct client_env *env);
/* Gives the kernel back what was freed, if that is much. Once a second or so. */
void clients_trim(struct client_env *env);

/* hasp ends: closes them all. They are cut off in the middle of their work, so that what they
 * have is not released, but runs out with its lease. */
void clients_close(struct client_env *env, const char *reason);

#endif
