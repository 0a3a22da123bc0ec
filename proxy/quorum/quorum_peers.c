/* SPDX-License-Identifier: BSD-3-Clause */
#include "quorum/quorum_internal.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "resp/write.h"

/* If there are more releases than this, hasp drops the oldest: its lock ends with the lease. */
#define RELEASES_MAX 10000
/* Seconds until hasp sends a release again to servers that answered with an error. */
#define AGAIN_SECONDS 1.0

/* --- servers ---------------------------------------------------------------------------- */

bool quorum_peer_is_silent(const struct quorum *q, size_t server, double now)
{
	const struct quorum_peer *p = &q->peers[server];

	return p->ninflight && now - p->quiet_since > (double)q->opts.timeout_ms / 1000;
}

bool quorum_peer_can_be_asked(const struct quorum *q, size_t server, double now)
{
	return q->peers[server].up && !quorum_peer_is_silent(q, server, now);
}

bool quorum_peer_counts(const struct quorum *q, size_t server, double now)
{
	return quorum_peer_can_be_asked(q, server, now) && now >= q->peers[server].counts_from;
}

enum quorum_server_state quorum_server_state(const struct quorum *q, size_t server)
{
	double now = timers_now(q->opts.timers);

	if (quorum_peer_counts(q, server, now))
		return QUORUM_SERVER_UP;
	return quorum_peer_can_be_asked(q, server, now) ? QUORUM_SERVER_UNCOUNTED
	                                                : QUORUM_SERVER_DOWN;
}

bool quorum_peer_call(struct quorum *q, size_t server, enum script_id script, struct slice key,
                      struct slice value, const int64_t *numbers, size_t n,
                      struct quorum_call *call)
{
	struct quorum_peer *p = &q->peers[server];
	size_t nkeys = script == SCRIPT_QUORUM_TAKE || script == SCRIPT_QUORUM_CONFIRM ? 2 : 1;
	struct buf out = BUF_INIT;

	if (!p->up)
		return false;
	if (p->ninflight++ == 0)
		p->quiet_since = timers_now(q->opts.timers);
	resp_write_array(&out, 3 + nkeys + (value.n > 0) + n);
	resp_write_bulk_str(&out, "EVAL");
	resp_write_bulk(&out, script_get(script)->text);
	resp_write_bulk_int(&out, (long long)nkeys);
	resp_write_bulk(&out, key);
	if (nkeys > 1)
		resp_write_bulk_str(&out, "hasp:fence");
	if (value.n)
		resp_write_bulk(&out, value);
	for (size_t i = 0; i < n; i++)
		resp_write_bulk_int(&out, numbers[i]);
	call->server = server;
	q->opts.send(q->opts.arg, server, buf_slice(&out), call);
	buf_release(&out);
	return true;
}

/* --- releases --------------------------------------------------------------------------- */

struct quorum_release {
	struct quorum *q;
	struct list node; /* in q->releases */
	struct buf key, value;
	double until; /* when the release ends, by the timers' clock */
	double again_at; /* when hasp sends it again, by the timers' clock */
	uint32_t acked; /* servers that have confirmed the release, as bits */
	uint32_t sent; /* servers whose answers are due, as bits */
	bool is_over; /* not in q->releases any more; the last answer frees the release */
	struct quorum_call_of_release {
		struct quorum_call call;
		struct quorum_release *release;
	} calls[QUORUM_PEERS_MAX];
};

static void release_free(struct quorum_release *r)
{
	buf_release(&r->key);
	buf_release(&r->value);
	free(r);
}

static uint32_t all_servers(const struct quorum *q)
{
	return (UINT32_C(1) << q->opts.nservers) - 1;
}

/* Ends the release: hasp does not send it to further servers. */
static void release_end(struct quorum_release *r)
{
	r->is_over = true;
	list_remove(&r->node);
	r->q->nreleases--;
	if (!r->sent)
		release_free(r);
}

static void release_on_answer(struct quorum_call *call, const redisReply *reply)
{
	struct quorum_call_of_release *c = container_of(call, struct quorum_call_of_release,
	                                                call);
	struct quorum_release *r = c->release;
	uint32_t bit = UINT32_C(1) << call->server;

	r->sent &= ~bit;
	if (reply && reply->type == REDIS_REPLY_INTEGER)
		r->acked |= bit;
	if (!r->is_over && r->acked == all_servers(r->q))
		release_end(r);
	else if (r->is_over && !r->sent)
		release_free(r);
}

/* Sends the release to the server, unless the server has confirmed it, or its answer is due. */
static void release_send(struct quorum_release *r, size_t server)
{
	uint32_t bit = UINT32_C(1) << server;
	double now = timers_now(r->q->opts.timers);

	if ((r->acked | r->sent) & bit || !quorum_peer_can_be_asked(r->q, server, now))
		return;
	r->calls[server].release = r;
	r->calls[server].call.fn = release_on_answer;
	if (quorum_peer_call(r->q, server, SCRIPT_QUORUM_RELEASE, buf_slice(&r->key),
	                     buf_slice(&r->value), NULL, 0, &r->calls[server].call))
		r->sent |= bit;
}

static void release_send_all(struct quorum_release *r)
{
	for (size_t i = 0; i < r->q->opts.nservers; i++)
		release_send(r, i);
}

void quorum_release(struct quorum *q, struct slice key, struct slice value, uint32_t among,
                    int64_t lease_ms)
{
	struct quorum_release *r;

	if ((among & all_servers(q)) == 0)
		return;
	r = xcalloc(1, sizeof(*r));
	r->q = q;
	buf_append(&r->key, key);
	buf_append(&r->value, value);
	/* Twice the lease: a slow server may begin the lease late. */
	r->until = timers_now(q->opts.timers) + 2 * (double)lease_ms / 1000;
	r->again_at = timers_now(q->opts.timers) + AGAIN_SECONDS;
	r->acked = all_servers(q) & ~among;
	if (q->nreleases == RELEASES_MAX)
		release_end(container_of(q->releases.next, struct quorum_release, node));
	list_append(&q->releases, &r->node);
	q->nreleases++;
	release_send_all(r);
}

void quorum_releases_resend(struct quorum *q, size_t server)
{
	list_each (struct quorum_release, r, &q->releases, node)
		release_send(r, server);
}

void quorum_tick(struct quorum *q)
{
	double now = timers_now(q->opts.timers);

	list_drain (struct quorum_release, r, &q->releases, node) {
		if (now >= r->until) {
			release_end(r);
		} else if (now >= r->again_at) {
			r->again_at = now + AGAIN_SECONDS;
			release_send_all(r);
		}
	}
}

void quorum_releases_free(struct quorum *q)
{
	struct quorum_release *r;

	while ((r = list_first(&q->releases, struct quorum_release, node)))
		release_end(r);
}
