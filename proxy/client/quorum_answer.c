/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/quorum_answer.h"

#include <inttypes.h>

#include "client/conn.h"
#include "client/holder_fields.h"

#define INFO_FIELDS 5

/* As with a client that leaves a line. */
bool quorum_client_waits(const void *client)
{
	return !((const struct client *)client)->eof;
}

void quorum_answer(struct client *c, struct buf *out)
{
	stream_send(&c->stream, buf_slice(out));
	buf_release(out);
	session_complete(&c->session, c->current);
	client_end_current(c);
	if (!client_is_dead(c))
		client_count_memory(c);
}

void quorum_answer_number(struct client *c, int64_t n)
{
	struct buf out = BUF_INIT;

	buf_printf(&out, ":%" PRId64 "\r\n", n);
	quorum_answer(c, &out);
}

void quorum_answer_nil(struct client *c)
{
	struct buf out = BUF_INIT;

	buf_puts(&out, c->session.proto == 3 ? "_\r\n" : "$-1\r\n");
	quorum_answer(c, &out);
}

void quorum_answer_unreached(struct client *c, const struct quorum_result *r)
{
	const struct quorum_how *how = quorum_terms(c->env->quorum);
	struct buf out = BUF_INIT;

	if (r->nanswered >= quorum_majority(how->nservers))
		buf_printf(&out,
		           "-NOQUORUM too few servers of '%s' agree about the last fencing "
		           "token\r\n",
		           how->name);
	else
		buf_printf(&out, "-NOQUORUM %zu of the %zu servers of '%s' answer in time\r\n",
		           r->nanswered, how->nservers, how->name);
	quorum_answer(c, &out);
}

void quorum_answer_holder(struct client *c, const struct quorum_result *r, struct slice owner,
                          const struct quorum_hold *h)
{
	bool resp3 = c->session.proto == 3;
	struct buf out = BUF_INIT;

	buf_printf(&out, "%c%d\r\n", resp3 ? '%' : '*', resp3 ? INFO_FIELDS : 2 * INFO_FIELDS);
	holder_text(&out, "owner", owner, resp3);
	holder_number(&out, "holds", true, 1, resp3);
	holder_number(&out, "ttl", true, r->ttl_ms, resp3);
	holder_number(&out, "fence", h, h ? quorum_hold_fence(h) : 0, resp3);
	holder_number(&out, "waiters", false, 0, resp3);
	quorum_answer(c, &out);
}

/* --- as quorum_done_fn ----------------------------------------------------------------------
 */

void quorum_answer_own_release(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	c->quorum->op = NULL;
	if (r->verdict != QUORUM_UNREACHED)
		quorum_events_released(c->env->quorum);
	if (r->verdict == QUORUM_UNREACHED)
		quorum_answer_unreached(c, r);
	else
		quorum_answer_number(c, 1);
}

void quorum_answer_release(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	c->quorum->op = NULL;
	if (r->verdict == QUORUM_WON) {
		quorum_events_released(c->env->quorum);
		quorum_hold_end_other(c->env->quorum, r->value);
	}
	if (r->verdict == QUORUM_UNREACHED)
		quorum_answer_unreached(c, r);
	else
		quorum_answer_number(c, r->verdict == QUORUM_WON);
}

void quorum_answer_extend(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	struct quorum_hold *h = quorum_hold_find(c->quorum, r->key, r->owner);

	c->quorum->op = NULL;
	if (r->verdict == QUORUM_UNREACHED) {
		quorum_answer_unreached(c, r);
		return;
	}
	/* (The lease of one's own hold is not made shorter.) */
	if (h && r->verdict == QUORUM_WON)
		quorum_hold_extend(h, r);
	quorum_answer_number(c, r->verdict == QUORUM_WON &&
	                                (h || r->good_until > c->env->policy.now));
}
