/* SPDX-License-Identifier: BSD-3-Clause
 *
 * conn: a client's connection: its state, and its end.
 */
#ifndef HASP_CLIENT_CONN_H
#define HASP_CLIENT_CONN_H

#include "client/client_internal.h"

/* The only writer of c->state. Asserts that the state may change so. */
void client_set_state(struct client *c, enum client_state state);
bool client_may_become(enum client_state from, enum client_state to);

/* An activity this soon after the last one does not count. */
#define ACTIVE_SECONDS 0.01
/* While its command is answered, a client may send this much ahead. */
#define AHEAD_MAX ((size_t)64 * 1024)

/* Only for client_mark_active(). */
void client_set_active(struct client *c);

/* Something was read or written: the client is not idle. */
static inline void client_mark_active(struct client *c)
{
	if (c->env->policy.now - c->active_at >= ACTIVE_SECONDS)
		client_set_active(c);
}

/* True if there is no space for more requests: the link is full, or the client is parked and
 * has sent enough. Unread replies are no reason: as with Redis, a client may read them after it
 * has sent all its requests. */
static inline bool client_is_behind(const struct client *c)
{
	if (client_is_ending(c))
		return false;
	return (c->user.link && link_is_full(c->user.link)) ||
	       (client_is_parked(c) && buf_len(&c->in) >= AHEAD_MAX);
}

/* Stops reading from the client while its requests cannot be sent; reads again when they can.
 */
void client_steer_reading(struct client *c);

/* True if hasp can stop reading from the client's link without delaying another client. */
static inline bool client_may_pause_link(const struct client *c)
{
	return c->user.link && (!c->shared || c->user.claimed);
}

/* Stops reading from a link of the client's own while the client leaves replies unread, so that
 * they stay in Redis; but goes on if the client may be waiting for hasp to read its requests.
 */
void client_steer_link(struct client *c);

/* Bytes of memory kept for the client, without the buffers of a link of its own. */
static inline size_t client_nbytes(const struct client *c)
{
	return buf_cap(&c->in) + buf_cap(&c->stream.out) + session_nbytes(&c->session) +
	       c->holds.nbytes + c->read_set.nbytes +
	       (c->holds.seen ? seen_values_nbytes(c->holds.seen) : 0) +
	       (c->quorum ? sizeof(*c->quorum) + c->quorum->nbytes : 0);
}

/* Notes when the client has read some of its replies, or all. To be called each second, too. */
void client_note_reading(struct client *c);

/* Counts the client's memory again, after it may have grown or shrunk. */
void client_count_memory(struct client *c);

/* True if the client has a link of its own with requests that Redis has not taken. */
static inline bool client_has_unsent(const struct client *c)
{
	return !c->shared && c->user.link && link_pending(c->user.link);
}

/* Counts the client's memory again if it is, or was, enough to be counted. Cheap for nearly
 * every client. */
static inline void client_notice_memory(struct client *c)
{
	if (c->share.nbytes || client_nbytes(c) >= ACCOUNT_LEAST || client_has_unsent(c))
		client_count_memory(c);
}

/* A shared link goes on without the client; a link of its own is closed. */
void client_leave_link(struct client *c);

/* The address of the other side, in at most `n` bytes. */
void client_print_peer(const struct client *c, char *out, size_t n);

/* The request at the head of `in` waits until the client is unparked. `why`: one of
 * CLIENT_PARKED_*. */
void client_park(struct client *c, enum client_state why);
/* The reason is gone: requests are taken from `in` again. */
void client_unpark(struct client *c);

/* `current` was answered: removes the request from `in` and takes the next ones. The caller
 * owns `current` itself. */
void client_end_current(struct client *c);

/* True if the decision about `current` is still valid: neither the configuration nor Redis'
 * list of commands has changed since. */
bool client_is_decided(const struct client *c);
/* Drops `current`, which is not in flight, and decides about the request again. Its waiter
 * stays. */
void client_decide_again(struct client *c);

/* The client does not wait for a lock any more. */
void client_end_wait(struct client *c);

/* True if the client is quiet by nature: it waits for messages, or for replicated writes. */
bool client_is_listener(const struct client *c);

/* True if a reply is due to the client, or on its way. The reply to a request that streams is
 * due when the request has ended. */
bool client_waits_for_answer(const struct client *c);

/* True if the client is between commands that belong together: in a transaction, or between the
 * read of a guarded key, for which it may have waited, and the write. */
bool client_is_amid(const struct client *c);

/* While hasp drains: closes the client if it has nothing under way, no lock, guard or
 * transaction, and has not just connected; else hasp checks again when the client has got the
 * last reply that is due. */
void client_drain(struct client *c);

/* Ends it at once. clients_reap() frees it. `reason` is for the log. */
void client_close(struct client *c, const char *reason);

/* Closes when the client has fetched its last bytes. */
void client_finish(struct client *c, const char *reason);
/* As client_finish(), with `error` as the last answer. The client's locks and guards are given
 * up before it gets that. */
void client_finish_with(struct client *c, struct slice error, const char *reason);

#endif
