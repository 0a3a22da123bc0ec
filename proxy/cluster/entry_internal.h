/* SPDX-License-Identifier: BSD-3-Clause
 *
 * entry_internal: the requests of a cluster session in flight. An entry is one request of the
 * client; its parts are the requests that hasp makes from it, one for each node. A session
 * keeps a part's bytes until the reply shows that the node has run it, so that hasp can send
 * the part again after a redirection.
 */
#ifndef HASP_CLUSTER_ENTRY_INTERNAL_H
#define HASP_CLUSTER_ENTRY_INTERNAL_H

#include "base/buf.h"
#include "base/list.h"
#include "base/slice.h"
#include "commands/subscriptions.h"
#include "upstream/node.h"

struct cluster_session;
struct node_conn;

/* The state of a part. Only part_set_state() writes it.
 *
 *   NEW ---> HELD ---> SENT ---> DONE
 *    |        ^  ^      |         ^  no node took it for failover_wait: it gets an error
 *    '-> SENT |  |      | redirected
 *             |  |      v
 *             |  '--- RETRY */
enum part_state {
	PART_NEW, /* not sent yet */
	PART_HELD, /* in node_conn->held: waits for the node connection's link */
	PART_SENT, /* `node_conn` awaits the part's reply */
	PART_RETRY, /* in session->retries: no node took it; sent again at `retry_at` */
	PART_DONE, /* answered */
};

enum block_part_kind {
	BLOCK_PART_WATCH, /* WATCH, UNWATCH */
	BLOCK_PART_QUEUED, /* a command of the transaction */
	BLOCK_PART_EXEC,
	BLOCK_PART_END, /* a DISCARD or UNWATCH that replaces a request; or a refused EXEC */
};

/* The role of a part in a transaction. */
struct block_part {
	enum block_part_kind kind;
	unsigned serial; /* session->block_serial when hasp took the part */
	bool begins; /* send `behind` before the part */
	bool watched; /* (EXEC) keys are watched, so no other node can run it */
	struct buf behind; /* MULTI, and the commands before this part */
	size_t nbehind; /* number of requests in `behind`; 0: they cannot be sent again */
	struct buf refused; /* first error among the node's replies to `behind` */
};

/* One request for one node. */
struct cluster_part {
	struct list node; /* in node_conn->held or session->retries */
	struct cluster_entry *entry;
	enum part_state state;

	/* The request: set by the function that begins the entry. */
	struct buf request; /* the request's bytes, in case hasp must send it again */
	int slot; /* slot of the keys; -1: no key, so `to` or the home node gets the part */
	struct node *to; /* send the part to this node; NULL: to the node of its slot */
	bool several; /* the part may name more than one key of its slot */
	bool reads; /* changes nothing: the part may run twice; if `slot` is -1, on any node */
	bool may_forge; /* a script may have forged an error: command_may_forge() */
	bool counts; /* WAIT: hasp sends a write first, so that WAIT covers earlier writes */
	bool is_copy; /* (acks) hasp forwards only the first part's acknowledgements */
	struct acks acks; /* the acknowledgements that are the part's reply */
	struct block_part
		*block; /* the part's role in a transaction, or in WATCH; NULL: none */

	/* Where the part was sent, and its reply. */
	struct node_conn *node_conn; /* the part's connection in PART_HELD and PART_SENT */
	struct buf reply; /* the whole reply, if the entry has `merge` */
	bool uncounted; /* (counts) the node refused the write before WAIT */
	bool withdrawn; /* (PART_SENT) if the node refuses the part, the reply is
	                 * session->withdrawal */
	bool streamed; /* forwarded as it arrived, too long to keep: `request` is empty */

	/* Redirections, and nodes that cannot be reached: dispatch.c, redirection.c. */
	struct node *asked; /* the node to send the part to next, after ASKING; NULL: none */
	struct hint *hint; /* (PART_RETRY) the error by which the node refused the part, if a
	                    * script may have forged the error; else NULL */
	bool redirected; /* the part was redirected at least once */
	bool unserved; /* the part's node last answered that it does not serve the slot */
	bool is_stale; /* (PART_SENT) the node refused an earlier part: hasp drops the reply to
	                * this part, and sends this part again after the earlier one */
	double since; /* time when the part first had to wait; 0: it has not waited */
	double retry_at; /* (PART_RETRY) the time of the next try */
	const char *why; /* why no node took the part; a literal */
};

/* A request of the client, which gets one reply. */
struct cluster_entry {
	struct list node; /* in session->entries */
	struct cluster_session *session;
	uint64_t serial; /* number of the entry in its session; later entries have greater ones
	                  */
	struct cluster_part *parts; /* the address of `only`, or an array of the entry's own */
	size_t nparts; /* 0: hasp itself answers, see entry_answer() */
	size_t ndone; /* number of parts that are answered */
	struct cluster_part only;
	/* Appends the entry's reply to `out`, made of parts[i].reply, when all parts are
	 * answered. NULL: the reply of the only part is forwarded as it comes. */
	void (*merge)(struct cluster_entry *e, struct buf *out);
	/* Called when a part got an answer that is not a redirection. May be NULL. */
	void (*on_reply)(struct cluster_entry *e, struct cluster_part *p, bool is_error);
	void *arg; /* for `merge` and `on_reply` */
	void (*free_arg)(void *arg); /* NULL: `arg` need not be freed */
	struct buf reply; /* bytes of the reply that came before the entry's turn */
	struct buf after; /* pushes to send after the reply: see entries_push_*() */
	size_t nreply; /* bytes that nodes have answered */
	bool done; /* the whole reply has come */
	bool muted; /* the reply is dropped: CLIENT REPLY */
	bool pushes; /* SUBSCRIBE: CLIENT REPLY does not drop the acknowledgements */
	bool begins_stream; /* MONITOR: bytes follow without end, unless Redis refuses it */
	bool blocks; /* BLPOP: Redis may answer only when another client writes */
	bool patient; /* the reply may take long: LINK_PATIENT */
	bool ends; /* QUIT: the virtual link ends when the reply is delivered */
};

/* True if no node has the part now, and none has carried it out. */
static inline bool part_is_unsent(const struct cluster_part *p)
{
	return p->state == PART_HELD || p->state == PART_RETRY;
}

/* True if the part is in flight, and any other node could answer it, too. */
static inline bool part_is_for_any(const struct cluster_part *p)
{
	return p->state == PART_SENT && p->slot < 0 && !p->to && p->reads;
}

static inline struct cluster_session *part_session(const struct cluster_part *p)
{
	return p->entry->session;
}

/* --- entry.c ------------------------------------------------------------------------------ */

/* Appends a new entry; the caller then sets its `nparts` parts. */
struct cluster_entry *entry_begin(struct cluster_session *s, size_t nparts);
/* Sets part `i`; copies `request`. `slot`: -1: none. `to`: NULL: the slot's node, or home. */
void entry_set_part(struct cluster_entry *e, size_t i, int slot, struct node *to,
                    struct slice request);
/* Appends an entry with one part: entry_begin() and entry_set_part(). */
struct cluster_entry *entry_begin_one(struct cluster_session *s, int slot, struct node *to,
                                      struct slice request);
/* Keeps the next bytes of a request that streams. */
void part_keep(struct cluster_part *p, struct slice bytes);
/* Drops the kept bytes because they are too many: the part cannot be sent again. */
void part_let_go(struct cluster_part *p);
/* Answers an entry without parts by `reply`. */
void entry_answer(struct cluster_entry *e, struct slice reply);
/* Appends an entry whose reply is hasp's own. */
void entry_answer_new(struct cluster_session *s, struct slice reply);
/* A value of entry->merge, for entries of one part: passes the reply through
 * hide_cluster_mode(). */
void entry_merge_mode(struct cluster_entry *e, struct buf *out);
/* Puts the replies of finished entries at the head into session->out. */
void session_advance(struct cluster_session *s);
/* Sends the push, an invalidation of a cached key that the client already has, again after the
 * replies that hasp keeps: one of them may bring the old value. */
void entries_push_again(struct cluster_session *s, struct slice push);
/* Sends the push after the reply to the last request in flight. */
void entries_push_after(struct cluster_session *s, struct slice push);
/* Frees the entry, because its request is answered, or the session is closed. */
void entry_end(struct cluster_entry *e);

void part_set_state(struct cluster_part *p, enum part_state state);
/* Handles bytes of the part's reply. */
void part_on_bytes(struct cluster_part *p, struct slice bytes);
/* Handles the end of the part's reply. */
void part_on_reply(struct cluster_part *p, bool is_error);
/* Answers the part by `error`, a line of hasp's own. */
void part_fail(struct cluster_part *p, struct slice error);

/* --- dispatch.c --------------------------------------------------------------------------- */

/* Sends the entry's parts, which are all set, as soon as possible. */
void entry_start(struct cluster_entry *e);
/* Sends the part to the node that serves it, or holds the part until that is possible. */
void part_dispatch(struct cluster_part *p);
/* Answers the part, which no node has, by session->withdrawal. */
void part_withdraw(struct cluster_part *p);
/* Sends parts again that are due, and fails parts that no node took for too long. Returns true
 * if some parts still wait. */
bool dispatch_due(struct cluster_session *s, double now);
/* Sends all unsent parts again, because the map has changed: they may have other nodes now. */
void dispatch_again(struct cluster_session *s);

/* --- redirection.c ------------------------------------------------------------------------ */

/* Handles the part's reply, the error `line`. Returns true if the node did not carry the
 * request out: hasp sends the part again, or answers it later. */
bool redirection_take(struct cluster_part *p, struct slice line);
/* As redirection_take(), for a part of a transaction. */
bool redirection_take_block(struct cluster_part *p, struct slice line);
/* Sends the part again a little later, because no node takes it now. `why`: a literal. */
void redirection_later(struct cluster_part *p, const char *why);
/* Sends the part again; at once if its node is known (`is_named`). If the part names several
 * keys, also sends later reads of its slot again: they may have run before this part. */
void redirection_again(struct cluster_part *p, bool is_named, const char *why);
/* Call this when `n` has answered hasp's question number `question`, and the map contains the
 * answer. Sends the parts again that `n` has redirected, or answers them by the error of `n`.
 * `was_down`: `n` recently reported that the cluster is down. */
void redirection_answered(struct cluster_session *s, const struct node *n, uint64_t question,
                          bool was_down);
/* Answers the part by the error in its hint. */
void redirection_believe_nothing(struct cluster_part *p);
/* Removes `n`, which has left the map, from the part's redirection. */
void redirection_forget(struct cluster_part *p, const struct node *n);
/* Call this when a node has carried out the part `by`. Fails older parts of its slot that a
 * node has refused. */
void redirection_note_carried_out(const struct cluster_part *by);

#endif
