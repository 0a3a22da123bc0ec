/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client: one application's connection: reads its requests, has each one decided (policy/),
 * sends it, or what it became, over a link, and hands the replies back in order. The link is
 * one shared with other clients until a command needs one of the client's own.
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
 * run of them is sent in one piece. (b) A request that fits is held until it is whole and
 * decided about once. One that is long and concerns no rule streams through. (c) A rewritten or
 * guarded request stays at the head of `in` until it is answered: it may have to be sent again,
 * and what is behind it must wait. The client is parked meanwhile. (d) Replies go to the client
 * as they come; the link's FIFO says which of them hasp needs to know, too.
 */
#ifndef HASP_CLIENT_CLIENT_H
#define HASP_CLIENT_CLIENT_H

#include "client/client_env.h"

struct quorum_owner;

/* Sets the members that belong to this room; the worker sets the others. */
void clients_init(struct client_env *env);

/* Takes the connection `fd`, which was accepted by `listener`, an entry of `listen` that
 * outlives it. `tls`: of `fd`, which the client owns, too; NULL: it is not encrypted. `behind`:
 * whose connection it is said to be, AF_INET or AF_INET6; NULL: that of who is connected. */
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

/* What the client waits for that is the owner of a waiter in line. Points into the client. */
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

/* While the node is paused: how many clients have something under way at Redis, or are in the
 * middle of their work. *nbound: how many others lose what they have there when Redis ends, for
 * they listen, or are blocked. */
size_t clients_under_way(const struct client_env *env, size_t *nbound);

/* hasp shall end: from now on a client is closed when it is at rest. One that has a lock, a
 * guard or a transaction, or waits, is in the middle of its work, and is closed when it gives
 * that back. clients_sweep() is then to be called more often. */
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
