/* SPDX-License-Identifier: BSD-3-Clause */
#include "quorum/quorum_internal.h"

#include "resp/write.h"

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
