/* SPDX-License-Identifier: BSD-3-Clause
 *
 * maintenance: the calls that hasp makes for itself, such as renewals, releases and probes.
 */
#include "lock/rewrite/rewrite_internal.h"

enum script_id rewrite_renewal(enum lock_kind kind)
{
	return layout_of(kind)->by_verb ? SCRIPT_RENEW_VERB : SCRIPT_RENEW;
}

/* Writes the sidecar's key, or with owner = value the lock's, because there is no sidecar. */
static void write_side(struct buf *out, enum key_naming naming, const struct lock_ident *id)
{
	if (id->kind == LOCK_KIND_VALUE)
		resp_write_bulk(out, id->key);
	else
		key_names_write_bulk(out, naming, KEY_NAME_OWNER, id->key);
}

void rewrite_renew(struct buf *out, enum script_id script, const struct lock_renewal *v,
                   size_t n, const struct rewrite_opts *opts)
{
	bool by_verb = script == SCRIPT_RENEW_VERB;

	script_call_begin(out, script, opts, 3 * n, (by_verb ? 4 : 2) * n);
	for (size_t i = 0; i < n; i++) {
		resp_write_bulk(out, v[i].id.key);
		key_names_write_bulk(out, opts->naming, KEY_NAME_FENCE, v[i].id.key);
		write_side(out, opts->naming, &v[i].id);
	}
	for (size_t i = 0; i < n; i++) {
		resp_write_bulk_int(out, v[i].lease_ms);
		resp_write_bulk(out, v[i].id.token);
		if (!by_verb)
			continue;
		resp_write_bulk_int(out, v[i].fence);
		resp_write_bulk(out, layout_of(v[i].id.kind)->type);
	}
}

/* Writes a PEXPIRE as rewrite_expire() does. */
enum script_id rewrite_end_in(struct buf *out, const struct lock_ident *id, int64_t ms,
                              const struct rewrite_opts *opts)
{
	script_call_begin(out, SCRIPT_EXPIRE, opts, 3, 7);
	resp_write_bulk(out, id->key);
	write_side(out, opts->naming, id);
	key_names_write_bulk(out, opts->naming, KEY_NAME_FENCE, id->key);
	resp_write_bulk(out, id->token);
	resp_write_bulk_int(out, ms);
	resp_write_bulk_int(out, LEASE_MAX_MS);
	resp_write_bulk(out, SLICE_LIT(""));
	resp_write_bulk(out, SLICE_LIT(""));
	resp_write_bulk_str(out, "PEXPIRE");
	resp_write_bulk_int(out, ms);
	return SCRIPT_EXPIRE;
}

static void begin_own(struct buf *out, enum script_id script, const struct lock_ident *id,
                      size_t nargs, const struct rewrite_opts *opts)
{
	script_call_begin(out, script, opts, SCRIPT_CALL_QUEUE_KEYS,
	                  SCRIPT_CALL_SECRET_ARGS + nargs);
	script_call_write_queue_keys(
		out, opts, id->key, id->kind != LOCK_KIND_VALUE && id->kind != LOCK_KIND_GUARD);
}

enum script_id rewrite_unlock(struct buf *out, const struct lock_ident *id, struct slice ticket,
                              const struct rewrite_opts *opts)
{
	begin_own(out, SCRIPT_UNLOCK, id, 3, opts);
	resp_write_bulk(out, id->token);
	resp_write_bulk(out, layout_of(id->kind)->type);
	resp_write_bulk(out, ticket);
	return SCRIPT_UNLOCK;
}

enum script_id rewrite_release(struct buf *out, const struct lock_ident *id,
                               struct slice ticket, int64_t most_ms,
                               const struct rewrite_opts *opts)
{
	begin_own(out, SCRIPT_RELEASE, id, 3, opts);
	resp_write_bulk(out, id->token);
	resp_write_bulk(out, ticket);
	resp_write_bulk_int(out, most_ms);
	return SCRIPT_RELEASE;
}

enum script_id rewrite_force(struct buf *out, const struct lock_ident *id,
                             const struct rewrite_opts *opts)
{
	char kind = (char)id->kind;

	begin_own(out, SCRIPT_FORCE, id, 1, opts);
	resp_write_bulk(out,
	                layout_of(id->kind)->by_verb ? SLICE_LIT("verb") : slice_of(&kind, 1));
	return SCRIPT_FORCE;
}

/* Writes ticket, place, kind, token, value. */
static void write_try(struct buf *out, const struct attempt *t)
{
	char kind = (char)t->id.kind;

	resp_write_bulk(out, t->ticket);
	if (t->place < 0)
		resp_write_bulk(out, SLICE_LIT(""));
	else
		resp_write_bulk_int(out, t->place);
	resp_write_bulk(out, slice_of(&kind, 1));
	resp_write_bulk(out, t->id.token);
	resp_write_bulk(out, t->value);
}

enum script_id rewrite_poll(struct buf *out, const struct attempt *t, int64_t lease_ms,
                            const struct rewrite_opts *opts)
{
	begin_own(out, SCRIPT_POLL, &t->id, 6, opts);
	write_try(out, t);
	if (lease_ms)
		resp_write_bulk_int(out, lease_ms);
	else
		resp_write_bulk(out, SLICE_LIT(""));
	return SCRIPT_POLL;
}

enum script_id rewrite_recheck(struct buf *out, const struct lock_place *v, size_t n,
                               const struct rewrite_opts *opts)
{
	size_t nlimits = v[0].limit ? n : 0;

	script_call_begin(out, SCRIPT_RECHECK, opts, 2 * n, n + nlimits);
	for (size_t i = 0; i < n; i++)
		resp_write_bulk(out, v[i].key);
	for (size_t i = 0; i < n; i++)
		key_names_write_bulk(out, opts->naming, KEY_NAME_QUEUE, v[i].key);
	for (size_t i = 0; i < n; i++)
		resp_write_bulk_int(out, v[i].place);
	for (size_t i = 0; i < nlimits; i++)
		resp_write_bulk_int(out, v[i].limit);
	return SCRIPT_RECHECK;
}

enum script_id rewrite_dequeue(struct buf *out, const struct attempt *t, bool undo,
                               const struct rewrite_opts *opts)
{
	begin_own(out, SCRIPT_DEQUEUE, &t->id, t->place < 0 ? 7 : 6, opts);
	write_try(out, t);
	resp_write_bulk_str(out, undo ? "undo" : "tell");
	return SCRIPT_DEQUEUE;
}
