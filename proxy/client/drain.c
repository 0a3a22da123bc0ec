/* SPDX-License-Identifier: BSD-3-Clause
 *
 * drain: how clients leave while hasp drains. hasp still serves a client in the middle of its
 * work. When the client is at rest, hasp hands it over to the next hasp. If there is no next
 * hasp, or if the record cannot hold all of the client's state, hasp closes the client.
 *
 *                   .-- its record and socket are sent --> HANDED --taken--> closed here only
 *   OPEN, at rest --|                                        `--not taken--> OPEN
 *                   `-- they cannot be sent --> closed
 *
 * The socket of a client that is HANDED stays open in both processes. Neither process reads
 * from it: the client's bytes stay in the kernel. The next hasp answers before it reads. If the
 * next hasp ends before it answers, this hasp still has the client.
 */
#include "client/client_internal.h"

#include <errno.h>

#include "base/clock.h"

/* A client that connected just before hasp drains has this many seconds to send a request. */
#define DRAIN_NEW_CLIENT_SECONDS 5.0
/* If a part of a request is longer, hasp awaits the rest before it hands the client over. */
#define DRAIN_IN_MAX ((size_t)16 * 1024)

/* True if the client is in a transaction, or has a lock or guard. */
static bool is_at_work(const struct client *c)
{
	return client_in_critical_section(c) ||
	       hold_owner_has_any(&c->locks->holds, clock_now());
}

/* True if all requests that hasp has read are answered, and the replies are sent. `in` may have
 * a part of a request; if the client is about to resume, it may have a whole request. */
static bool has_all_replies(const struct client *c)
{
	bool has_next = client_is_runnable(c) && buf_len(&c->in);

	return c->state == CLIENT_OPEN && !has_next && !client_waits_for_answer(c) &&
	       list_empty(&c->session.awaited);
}

/* --- closing ------------------------------------------------------------------------------ */

/* True if no request of the client and no reply to it is under way. */
static bool is_quiet(const struct client *c)
{
	return c->state == CLIENT_OPEN && buf_len(&c->in) == 0 && !client_waits_for_answer(c) &&
	       !stream_has_input(&c->stream);
}

/* True if the client has just connected and not sent a byte. Its first request may be on its
 * way, and would be lost if hasp closed the client now. */
static bool is_about_to_send(const struct client *c)
{
	return c->active_at < c->since &&
	       c->env->policy.now - c->since < DRAIN_NEW_CLIENT_SECONDS;
}

/* --- handing over ------------------------------------------------------------------------- */

/* True if the record (client_record.c) can hold all that hasp knows of the client. The record
 * has no fields for locks and guards, not even for ended ones, which hasp remembers to refuse
 * late commands. */
static bool is_recordable(const struct client *c)
{
	const struct session *s = &c->session;

	return !c->stays && !c->eof && !c->stream.error && !c->stream.tls && !c->transacting &&
	       route_is_replayable(c) && s->db >= 0 && !s->affects_next && !s->tracks &&
	       c->locks->holds.n == 0 && read_set_only_checks(&c->locks->read_set) &&
	       !c->locks->read_set.overflowed && !c->locks->read_set.unchecked;
}

/* How a client leaves for the next hasp. */
enum leaving {
	LEAVES_NOW, /* hasp has sent the client to the next hasp */
	LEAVES_WHEN_ANSWERED, /* the client leaves when it has all replies; until then, hasp
	                       * reads nothing from it */
	LEAVES_LATER,
	LEAVES_NEVER,
};

/* Sends the client to the next hasp. Returns 0, or an errno; EAGAIN: try again later. */
static int send_record(struct client *c)
{
	struct client_env *env = c->env;
	struct buf record = BUF_INIT;
	int rc;

	if (env->nhanded >= env->nhanded_max)
		return EAGAIN;
	/* The next hasp uses another link, on which WAIT would not cover earlier writes. */
	c->needs_wait_ping |= c->user.link != NULL;
	client_record_write(c, &record);
	rc = env->hand_over(env->arg, stream_fd(&c->stream), buf_slice(&record));
	buf_release(&record);
	return rc;
}

/* True if the client comes to rest when hasp reads no more of its requests. The client must
 * have read its replies. It must not wait in a blocking command, because hasp would not see it
 * hang up. */
static bool may_be_paused(const struct client *c)
{
	return c->state == CLIENT_OPEN && c->user.inflight && stream_pending(&c->stream) == 0 &&
	       !session_may_be_blocked(&c->session);
}

static enum leaving hand_client_over(struct client *c)
{
	struct client_env *env = c->env;
	int rc;

	if (!env->hand_over)
		return LEAVES_NEVER;
	if (is_at_work(c))
		return LEAVES_LATER;
	if (!is_recordable(c))
		return LEAVES_NEVER;
	if (!has_all_replies(c))
		return may_be_paused(c) ? LEAVES_WHEN_ANSWERED : LEAVES_LATER;
	if (buf_len(&c->in) > DRAIN_IN_MAX)
		return LEAVES_LATER;
	rc = send_record(c);
	if (rc != 0)
		return rc == EAGAIN ? LEAVES_LATER : LEAVES_NEVER;
	stream_pause(&c->stream);
	client_leave_link(c);
	client_set_state(c, CLIENT_HANDED);
	/* Until the next hasp answers, hasp must not close the client for its memory. */
	client_uncount_memory(c);
	list_move(&env->handed, &c->node);
	env->nhanded++;
	return LEAVES_NOW;
}

void drain_client(struct client *c)
{
	enum leaving how;

	HASP_ASSERT(c->env->phase == CLIENTS_DRAINING);
	if (client_is_ending(c) || client_is_listener(c))
		return;
	if (client_close_if_gone_in_pause(c))
		return;
	how = hand_client_over(c);
	if (how == LEAVES_NOW)
		return;
	if (how == LEAVES_WHEN_ANSWERED)
		stream_pause(&c->stream);
	else if (c->stream.paused)
		client_steer_reading(c);
	if (how == LEAVES_NEVER && is_quiet(c) && !is_at_work(c) && !is_about_to_send(c))
		client_close(c, "draining");
	else
		c->user.await_idle = true;
}

/* Serves the client in this hasp again. */
static void take_back(struct client *c)
{
	c->stays = true;
	client_set_state(c, CLIENT_OPEN);
	client_set_active(c);
	client_steer_reading(c);
	client_notice_memory(c);
}

bool drain_answered(struct client_env *env, bool taken)
{
	struct client *c = list_first(&env->handed, struct client, node);

	if (!c)
		return false;
	env->nhanded--;
	if (taken)
		client_close(c, "handed over");
	else
		take_back(c);
	return true;
}

void drain_successor_gone(struct client_env *env)
{
	env->hand_over = NULL;
	while (drain_answered(env, false))
		;
}
