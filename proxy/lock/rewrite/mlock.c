/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mlock: MLOCK and MUNLOCK as calls of their scripts. Scripts take the locks in the order of
 * the keys' bytes, whatever order the client names.
 */
#include <stdlib.h>
#include <string.h>

#include "lock/rewrite/rewrite_internal.h"

/* Number of KEYS for each lock. */
#define KEYS_PER_LOCK 4

static int key_order(const void *a, const void *b)
{
	return slice_order(*(const struct slice *)a, *(const struct slice *)b);
}

/* True if all keys are in one slot. */
static bool is_one_slot(const struct mlock_keys *keys, enum key_naming naming)
{
	for (size_t i = 1; i < keys->n; i++)
		if (key_names_slot(naming, keys->v[i]) != key_names_slot(naming, keys->v[0]))
			return false;
	return true;
}

/* Parses the keys. Returns false if they are wrong, after writing the error. */
static bool parse_keys(const struct verb_rewrite *v, struct mlock_keys *keys)
{
	const struct resp_view *req = v->req;
	int64_t n;

	if (!slice_integer(req->argv[1], &n) || n <= 0)
		return verb_refuse(v, "ERR numkeys should be greater than 0", false);
	if ((uint64_t)n > req->argc - 2)
		return verb_refuse(v, "ERR Number of keys can't be greater than number of args",
		                   false);
	if (n > MLOCK_KEYS_MAX)
		return verb_refuse(v, "ERR hasp: more than 64 locks cannot be taken at once",
		                   false);
	memcpy(keys->v, req->argv + 2, (size_t)n * sizeof(*keys->v));
	qsort(keys->v, (size_t)n, sizeof(*keys->v), key_order);
	for (int64_t i = 1; i < n; i++)
		if (slice_eq(keys->v[i - 1], keys->v[i]))
			return verb_refuse(v, "ERR the same key is named twice", false);
	keys->n = (size_t)n;
	return is_one_slot(keys, v->opts->naming) ||
	       verb_refuse(v, "CROSSSLOT Keys in request don't hash to the same slot", false);
}

int64_t rewrite_mlock_part_lease(int64_t lease_ms)
{
	return lease_ms > MLOCK_PART_LEASE_MS ? lease_ms : MLOCK_PART_LEASE_MS;
}

static void begin(struct buf *out, const struct mlock_keys *keys,
                  const struct rewrite_opts *opts, struct lock_call *call, size_t nargs)
{
	static const enum key_name names[] = { KEY_NAME_FENCE, KEY_NAME_QUEUE, KEY_NAME_OWNER };

	script_call_begin(out, call->script, opts, KEYS_PER_LOCK * keys->n + 1,
	                  SCRIPT_CALL_SECRET_ARGS + nargs);
	for (size_t i = 0; i < keys->n; i++) {
		resp_write_bulk(out, keys->v[i]);
		key_names_write_bulks(out, opts->naming, keys->v[i], names, 3);
	}
	key_names_write_bulk(out, opts->naming, KEY_NAME_COUNTER, keys->v[0]);
	resp_write_bulk(out, opts->secret);
	resp_write_bulk(out, call->owner);
}

/* Writes the arguments that follow the owner. */
static void write_step(struct buf *out, const struct rewrite_opts *opts, size_t place_of,
                       int64_t lease_ms, int64_t wait_ms, const char *layout)
{
	resp_write_bulk_int(out, lease_ms);
	script_call_write_wait(out, opts, wait_ms);
	resp_write_bulk_str(out, layout);
	resp_write_bulk_int(out, (long long)place_of);
	resp_write_bulk_int(out, rewrite_mlock_part_lease(lease_ms));
}

static void write_mlock(const struct verb_rewrite *v, const struct mlock_keys *keys,
                        size_t place_of)
{
	static const char *const layouts[] = {
		[REENTRANT_COUNT] = "count",
		[REENTRANT_REFRESH] = "refresh",
		[REENTRANT_NO] = "no",
	};
	struct lock_call *call = v->call;

	call->script = SCRIPT_MLOCK;
	call->kind = rewrite_verbs_kind(v->verbs);
	begin(v->out, keys, v->opts, call, 5 + SCRIPT_CALL_WAIT_ARGS + v->opts->nown);
	write_step(v->out, v->opts, place_of, call->lease_ms, call->wait_ms,
	           layouts[v->verbs->reentrant]);
	script_call_write_own(v->out, v->opts);
	call->effect = LOCK_EFFECT_TAKES;
	call->success = LOCK_IF_POSITIVE;
	call->value = call->owner;
	call->ticket = v->opts->ticket;
}

void rewrite_mlock_undo(struct buf *out, const struct slice *keys, size_t n,
                        const struct attempt *t, size_t place_of, int64_t age_ms,
                        const struct rewrite_opts *opts)
{
	struct lock_call call = { .script = SCRIPT_MLOCK, .owner = t->id.token };
	struct rewrite_opts of_try = *opts;
	struct mlock_keys all = { .n = n };

	memcpy(all.v, keys, n * sizeof(*keys));
	of_try.ticket = t->ticket;
	of_try.place = t->place;
	begin(out, &all, &of_try, &call, 5 + SCRIPT_CALL_WAIT_ARGS);
	write_step(out, &of_try, place_of, age_ms, -1,
	           t->id.kind == LOCK_KIND_COUNT ? "count" : "no");
}

static void write_munlock(const struct verb_rewrite *v, const struct mlock_keys *keys)
{
	struct lock_call *call = v->call;

	call->script = SCRIPT_MUNLOCK;
	begin(v->out, keys, v->opts, call, 2 + (call->shared_owner ? keys->n : 0));
	resp_write_bulk(v->out, layout_of(rewrite_verbs_kind(v->verbs))->type);
	for (size_t i = 0; i < keys->n && call->shared_owner; i++) {
		size_t named = 0;
		while (v->req->argv[2 + named].p != keys->v[i].p)
			named++;
		verb_write_given_back(v->out, v->opts, named);
	}
	call->effect = LOCK_EFFECT_DROPS;
	call->success = LOCK_IF_POSITIVE;
	call->hand_off = true;
	call->ticket = v->opts->given_back;
}

void rewrite_mlock(struct buf *out, enum verb verb, const struct resp_view *req,
                   const struct verbs *verbs, struct slice token,
                   const struct rewrite_opts *opts, size_t place_of, struct mlock_keys *keys,
                   struct lock_call *call)
{
	struct verb_rewrite v = { out, verb, req, verbs, opts, call, { .side = 0 } };

	if (!verb_begin(&v, token) || !parse_keys(&v, keys) ||
	    !verb_parse_options(&v, 2 + keys->n) ||
	    (verb == VERB_MLOCK && !(verb_lease(&v) && verb_wait(&v)))) {
		keys->n = 0;
		return;
	}
	call->key = keys->v[0];
	verb_owner(&v);
	if (verb == VERB_MUNLOCK)
		write_munlock(&v, keys);
	else
		write_mlock(&v, keys, place_of);
}
