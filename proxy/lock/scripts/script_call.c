/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/scripts/script_call.h"

#include <string.h>

#include "base/fatal.h"
#include "resp/write.h"

static void write_eval(struct buf *out, const struct script *s)
{
	resp_write_bulk_str(out, "EVAL");
	resp_write_bulk(out, s->text);
}

void script_call_begin(struct buf *out, enum script_id id, struct rewrite_how how, size_t nkeys,
                       size_t nargs)
{
	const struct script *s = script_get(id);

	resp_write_array(out, 3 + nkeys + nargs);
	if (how.eval)
		write_eval(out, s);
	else
		buf_append(out, s->evalsha);
	resp_write_bulk_int(out, (long long)nkeys);
}

void script_call_write_queue_keys(struct buf *out, struct rewrite_how how, struct slice key,
                                  bool has_sidecar)
{
	static const enum key_name names[] = { KEY_NAME_FENCE, KEY_NAME_QUEUE, KEY_NAME_OWNER };

	resp_write_bulk(out, key);
	key_names_write_bulks(out, how.naming, key, names, has_sidecar ? 3 : 2);
	if (!has_sidecar)
		resp_write_bulk(out, key);
	key_names_write_counter_bulk(out, how.naming, key);
	resp_write_bulk(out, how.secret);
}

void script_call_write_wait(struct buf *out, struct rewrite_how how, int64_t wait_ms)
{
	resp_write_bulk(out, how.ticket);
	resp_write_bulk_int(out, wait_ms);
	if (how.place)
		resp_write_bulk_int(out, how.place);
	else
		buf_append(out, SLICE_LIT("$0\r\n\r\n"));
}

void script_call_write_as_eval(struct buf *out, enum script_id id, struct slice evalsha)
{
	const struct script *s = script_get(id);
	const char *header_end = memchr(evalsha.p, '\n', evalsha.n);
	size_t header, skip;

	HASP_ASSERT(header_end);
	header = (size_t)(header_end + 1 - evalsha.p);
	skip = header + s->evalsha.n;
	HASP_ASSERT(skip < evalsha.n);
	buf_append(out, slice_of(evalsha.p, header));
	write_eval(out, s);
	buf_append(out, slice_of(evalsha.p + skip, evalsha.n - skip));
}
