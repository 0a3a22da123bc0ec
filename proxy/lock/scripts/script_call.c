/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/scripts/script_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "resp/write.h"

const struct script *script_get(enum script_id id)
{
	HASP_ASSERT((unsigned)id < SCRIPT_COUNT);
	return &script_table[id];
}

static void write_eval(struct buf *out, const struct script *s)
{
	resp_write_bulk_str(out, "EVAL");
	resp_write_bulk(out, s->text);
}

char *script_call_open(struct buf *out, enum script_id id, const struct rewrite_opts *opts,
                       size_t nkeys, size_t nargs, size_t space)
{
	const struct script *s = script_get(id);
	char *p;

	if (opts->eval) {
		resp_write_array(out, 3 + nkeys + nargs);
		write_eval(out, s);
		return resp_put_bulk_int(buf_reserve(out, RESP_BULK_INT_SPACE + space),
		                         (long long)nkeys);
	}
	HASP_ASSERT(s->evalsha.n == SCRIPT_EVALSHA_LEN);
	space += RESP_HEADER_SPACE + SCRIPT_EVALSHA_LEN + RESP_BULK_INT_SPACE;
	p = resp_put_header(buf_reserve(out, space), '*', 3 + nkeys + nargs);
	memcpy(p, s->evalsha.p, SCRIPT_EVALSHA_LEN);
	return resp_put_bulk_int(p + SCRIPT_EVALSHA_LEN, (long long)nkeys);
}

void script_call_begin(struct buf *out, enum script_id id, const struct rewrite_opts *opts,
                       size_t nkeys, size_t nargs)
{
	buf_added_to(out, script_call_open(out, id, opts, nkeys, nargs, 0));
}

char *script_call_put_lock_keys(char *p, const struct rewrite_opts *opts, struct slice key,
                                size_t nkeys)
{
	static const enum key_name names[] = { KEY_NAME_FENCE, KEY_NAME_QUEUE, KEY_NAME_COUNTER,
		                               KEY_NAME_OWNER };

	return key_names_put_bulks(resp_put_bulk(p, key), opts->naming, key, names, nkeys - 1);
}

void script_call_write_queue_keys(struct buf *out, const struct rewrite_opts *opts,
                                  struct slice key, bool has_sidecar)
{
	size_t space = key_names_space(key, SCRIPT_CALL_QUEUE_KEYS) + RESP_BULK_SPACE;
	char *p = buf_reserve(out, space + opts->secret.n);

	p = script_call_put_lock_keys(p, opts, key, SCRIPT_CALL_LOCK_KEYS + has_sidecar);
	if (!has_sidecar)
		p = resp_put_bulk(p, key);
	buf_added_to(out, resp_put_bulk(p, opts->secret));
}

void script_call_write_wait(struct buf *out, const struct rewrite_opts *opts, int64_t wait_ms)
{
	resp_write_bulk(out, opts->ticket);
	resp_write_bulk_int(out, wait_ms);
	script_call_write_place(out, opts);
}

void script_call_write_place(struct buf *out, const struct rewrite_opts *opts)
{
	if (opts->place)
		resp_write_bulk_int(out, opts->place);
	else
		buf_append(out, SLICE_LIT("$0\r\n\r\n"));
}

void script_call_write_own(struct buf *out, const struct rewrite_opts *opts)
{
	for (size_t i = 0; i < opts->nown; i++)
		resp_write_bulk(out, opts->own[i]);
}

/* Returns the offset in `evalsha` at which the number of keys stands. */
static size_t skip_script(const struct script *s, struct slice evalsha)
{
	const char *header_end = memchr(evalsha.p, '\n', evalsha.n);

	HASP_ASSERT(header_end);
	return (size_t)(header_end + 1 - evalsha.p) + s->evalsha.n;
}

/* Takes a bulk from the head of *rest. */
static struct slice cut_bulk(struct slice *rest)
{
	char *end;
	size_t n = strtoul(rest->p + 1, &end, 10);
	struct slice bulk = slice_of(end + 2, n);

	HASP_ASSERT(bulk.p + n + 2 <= rest->p + rest->n);
	*rest = slice_of(bulk.p + n + 2, (size_t)(rest->p + rest->n - bulk.p) - n - 2);
	return bulk;
}

struct slice script_call_key(enum script_id id, struct slice evalsha)
{
	size_t skip = skip_script(script_get(id), evalsha);
	struct slice rest = slice_of(evalsha.p + skip, evalsha.n - skip);

	(void)cut_bulk(&rest);
	return rest.n ? cut_bulk(&rest) : SLICE_NONE;
}

void script_call_write_as_eval(struct buf *out, enum script_id id, struct slice evalsha)
{
	const struct script *s = script_get(id);
	size_t skip = skip_script(s, evalsha);

	HASP_ASSERT(skip < evalsha.n);
	buf_append(out, slice_of(evalsha.p, skip - s->evalsha.n));
	write_eval(out, s);
	buf_append(out, slice_of(evalsha.p + skip, evalsha.n - skip));
}
