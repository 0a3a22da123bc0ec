/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client_internal: struct client, and its one state. For the files of this folder only.
 *
 *      .------------------------------------------------------------------------.
 *      v                                                                         |
 *    OPEN --a long request begins--> STREAMING --it ends--> OPEN                 |
 *      |  `--SYNC was accepted-----> TUNNEL                                      |
 *      |  `--a protocol error------> REFUSED                                     |
 *      |                                                                         |
 *      |--what it means depends on a reply---> PARKED_DEFERRED --answered--------|
 *      |--it needs another link--------------> PARKED_LINK --no reply is due-----|
 *      |--its link is full-------------------> PARKED_SPACE --it is no more------|
 *      |--its command is not known-----------> PARKED_COMMAND --Redis was asked--|
 *      `--it is rewritten, or guarded-.                                          |
 *                                     v                                          |
 *      .----------> PARKED_QUEUE --ready--> PARKED_REPLY --answered--------------|
 *      |                  ^                  |   ^  |                            |
 *      |                  | no link      QUEUED  |  | another link               |
 *      |                  |                  v   |  v                            |
 *      |                  `---- place lost - PARKED_TURN    PARKED_LINK          |
 *      |                                         `--timed out--------------------'
 *      `-- the queue of waiters cannot be joined yet
 *
 * PARKED_REPLY <--> PARKED_ACK: it has the lock, and replicas are asked whether they do.
 * PARKED_REPLY ---> PARKED_ROUND --answered--> OPEN: Redis has said what it knows of a lock,
 * and other workers are asked; or the servers of a quorum are.
 *
 * From each of them: FINISHING (its last bytes are being fetched) and DEAD (closed, to be
 * freed). From STREAMING also REFUSED: the rest of the request was none.
 *
 * Only client_set_state() (conn.c) writes the state. The request for which a client is parked
 * is at the head of `in`, from when it is decided until it is answered; `current` is what is
 * known of it.
 */
#ifndef HASP_CLIENT_CLIENT_INTERNAL_H
#define HASP_CLIENT_CLIENT_INTERNAL_H

#include "base/fatal.h"
#include "client/client_env.h"
#include "lock/ack/replica_acks.h"
#include "lock/deadlock/deadlock.h"
#include "lock/model/owner.h"
#include "policy/dispatch.h"
#include "quorum/quorum.h"
#include "session/session.h"

#define CLIENT_MAGIC 0x68617370u

enum client_state {
	CLIENT_OPEN, /* requests are taken as they come */
	CLIENT_STREAMING, /* the rest of a request is being passed as it comes */
	CLIENT_TUNNEL, /* a replica's byte stream */
	CLIENT_REFUSED, /* hasp drops all further input; replies are due */
	CLIENT_PARKED_REPLY, /* for the reply to `current`, which was sent */
	CLIENT_PARKED_DEFERRED, /* until nothing is awaited */
	CLIENT_PARKED_LINK, /* until no reply is due, for then it can change its link */
	CLIENT_PARKED_SPACE, /* until its link, which is full, takes more */
	CLIENT_PARKED_COMMAND, /* until Redis has described the command, which hasp does not
	                          know */
	CLIENT_PARKED_QUEUE, /* until `current`, which may have to wait in line, can be sent */
	CLIENT_PARKED_TURN, /* `current` waits in line for a lock */
	CLIENT_PARKED_ACK, /* `current` took a lock that replicas must have before it goes on */
	CLIENT_PARKED_ROUND, /* `current` asks the other workers, too, or a quorum */
	CLIENT_FINISHING, /* only `stream`'s last bytes are left */
	CLIENT_DEAD,
};
#define CLIENT_STATES (CLIENT_DEAD + 1)

/* The next step of a request if the link that it waits for cannot be had. links.c writes it. */
enum next_link {
	NEXT_NONE, /* the request fails */
	NEXT_MAY_BE_BARE, /* a link of its own will do on which nothing is replayed */
	NEXT_BARE, /* such a link is taken now */
	NEXT_OWN, /* no shared link is asked for: the one of its own will do */
};

/* A client's question to the other workers: the part that its own worker may read. The rest
 * travels from worker to worker. */
struct client_asked {
	struct client *client; /* NULL: it is gone */
	size_t nbytes; /* of memory */
};

struct client {
	unsigned magic;
	uint32_t place; /* in env->table: client_list.h */
	enum client_state state : 8; /* conn.c writes it */
	enum next_link next_link : 8;
	bool eof; /* the client sends no more */
	bool shared; /* the link that `user` is on is shared */
	bool bare; /* a link of its own, for one command: what had to be replayed was refused */
	bool refused; /* Redis has just answered that the client is not logged in */
	bool uncounted; /* the client wrote on other links, or another client wrote for it: WAIT
	                 * on its present link would not cover that */
	bool transacting; /* MULTI or WATCH was sent over the client's own link, and no reply
	                   * has ended them yet */
	bool altered; /* the client's own link may be in another state than its login says */
	bool pinned; /* the client needs a link of its own until RESET, or for ever */
	bool bound; /* and needs the present one: its state there cannot be replayed on another
	             */
	bool served; /* Redis carried out a request of the client, maybe without a login */
	bool in_error; /* not `served`: the last bytes sent to the client are part of an error
	                */
	bool asks_login; /* `current`: whether the client is logged in is being asked */
	uint32_t ntransacting; /* requests that may begin or end a transaction: the last one's
	                        * number */
	struct list node; /* in env->clients, env->finishing or env->dead */
	struct list learning; /* in env->learning, while CLIENT_PARKED_COMMAND */
	struct account_share share; /* client_count_memory() */
	struct client_env *env;
	struct link_user user; /* on no link before the first request */
	struct pool_waiter pool_waiter; /* waits while the client is to come to a shared link */
	struct owner_identity *identity; /* NULL until it is asked for */
	/* The request at the head of `in` that is answered step by step; NULL: none. It is
	 * among session.awaited once it was sent. */
	struct pending_request *current;
	uint64_t decided_in; /* `current`: env->policy.generation when it was decided about */
	struct waiter *waiter; /* of `current`; NULL: `current` did not have to wait yet */
	struct deadlock_watch *deadlock; /* of `current`, while CLIENT_PARKED_TURN; NULL:
	                                  * `current` can be in no deadlock */
	struct replica_ask *ask; /* of `current`, while CLIENT_PARKED_ACK */
	struct client_asked *asked; /* of other workers, while CLIENT_PARKED_ROUND; else NULL */
	struct buf in; /* bytes read and not sent on */
	struct request_scan scan;
	size_t scanned; /* bytes of the first request that `scan` has seen */
	size_t decide_at; /* bytes of it at which to ask again if it may stream */
	double own_until; /* env->policy.now until which its link lingers: ROUTE_LINGERING */
	double login_from; /* env->policy.now since when it could log in */
	double since; /* env->policy.now when it came */
	double read_at; /* client_note_reading(): when the client last read replies, or had none
	                 */
	size_t read_till; /* stream.taken then */
	double active_at; /* when it last sent or was sent bytes, as env->policy.now */
	struct stream stream;
	struct session session;
	struct hold_owner holds;
	struct quorum_owner *quorum; /* NULL until it has asked a quorum */
	struct read_set read_set;
	struct tracker_client *watched; /* NULL until the tracker watches the client */
	const char *listener; /* the entry of `listen` that accepted the client */
	struct sockaddr_storage *behind; /* the client's address by the PROXY header; NULL: the
	                                  * peer's address is the client's */
	char *peer; /* the client's address, to log a failure of TLS after the socket has lost
	             * it; NULL: not encrypted */
};

/* Returns the client that a callback's void pointer means. */
static inline struct client *client_of(void *owner)
{
	struct client *c = owner;

	HASP_ASSERT(c->magic == CLIENT_MAGIC);
	return c;
}

static inline bool client_is_dead(const struct client *c)
{
	return c->state == CLIENT_DEAD;
}

/* True if the client is closed or about to be: hasp takes no more requests from it. */
static inline bool client_is_ending(const struct client *c)
{
	return c->state == CLIENT_FINISHING || c->state == CLIENT_DEAD;
}

static inline bool client_is_parked(const struct client *c)
{
	return c->state >= CLIENT_PARKED_REPLY && c->state <= CLIENT_PARKED_ROUND;
}

#endif
