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

/* Append the log's name of the client that owns the holds, or the read set; holds_describe_fn
 * and read_sets_describe_fn. */
void client_describe_holder(const struct hold_owner *o, struct buf *out);
void client_describe_reader(const struct read_set *r, struct buf *out);
void client_describe_quorum_owner(const struct quorum_owner *o, struct buf *out);

/* Closes the client: a lock that it had is gone, and the section has on_lost = close. */
void client_lost_hold(struct hold_owner *o);

/* Closes the client, so that it notices that its lock of a quorum was lost. */
void client_lost_lock(struct quorum_owner *o);

/* The lock or guard that a client waits for in line. Points into the client. */
struct client_wait {
	struct client *client;
	const struct section_stats
		*stats; /* of the key's section; NULL: it has none any more */
	int db;
	struct slice key; /* the lock, or the guarded key */
};
struct client_wait client_waits_for(void *owner);
/* Appends the log's name of the client. */
void client_describe_waiter(const struct client_wait *w, struct buf *out);

/* Frees the clients that were closed since the last call. Call it once per turn of the loop. */
void clients_reap(struct client_env *env);

/* Closes clients that were idle too long, did not log in, or do not take their last bytes. Once
 * a second or so. */
void clients_sweep(struct client_env *env);

/* The node is another server now: closes clients that cannot move to it by themselves. */
void clients_follow(struct client_env *env);

/* The node takes requests again: clients that wait to send one go on. */
void clients_go_on(struct client_env *env);

/* Redis has answered a question about unknown commands (commands/unmet.h), or cannot be asked:
 * clients that wait for the answer go on. */
void clients_know_commands(struct client_env *env);

/* For a paused node: returns how many clients have a request under way at Redis, or are in the
 * middle of their work. Sets *nbound to the number of other clients that lose their state when
 * Redis ends, because they are subscribed or blocked. */
size_t clients_under_way(const struct client_env *env, size_t *nbound);

/* Begins to drain: from now on a client is closed when it is at rest. A client that has a lock,
 * a guard or a transaction, or waits, is in the middle of its work; it is closed when it has
 * given that back. From then on the caller must call clients_sweep() more often. */
void clients_drain(struct client_env *env);

/* Closes the clients that use most memory, while all together use more than memory_limit, and
 * gives back the memory that only this loop iteration needed. Call it at the end of each
 * iteration: hasp reads nothing while clients use too much. */
void clients_shed(struct client_env *env);
/* Gives the kernel back what was freed, if that is much. Once a second or so. */
void clients_trim(struct client_env *env);

/* hasp ends: closes all clients. They are cut off in the middle of their work, so their locks
 * are not released, but expire with their leases. */
void clients_close(struct client_env *env, const char *reason);

#endif
