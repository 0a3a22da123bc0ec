/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/session_internal.h"

#include <inttypes.h>
#include <string.h>

struct replacement {
	struct slice from, to;
};

static const struct replacement of_hello[] = {
	{ SLICE_LIT("$4\r\nmode\r\n$7\r\ncluster\r\n"),
	  SLICE_LIT("$4\r\nmode\r\n$10\r\nstandalone\r\n") },
	{ SLICE_NONE, SLICE_NONE },
};
static const struct replacement of_info[] = {
	{ SLICE_LIT("\nredis_mode:cluster\r"), SLICE_LIT("\nredis_mode:standalone\r") },
	{ SLICE_LIT("\nserver_mode:cluster\r"), SLICE_LIT("\nserver_mode:standalone\r") },
	{ SLICE_LIT("\ncluster_enabled:1\r"), SLICE_LIT("\ncluster_enabled:0\r") },
	{ SLICE_NONE, SLICE_NONE },
};

/* Returns the table's entry whose `from` occurs first in `text`; NULL: no entry occurs
 * there. */
static const struct replacement *find_first(struct slice text, const struct replacement *table,
                                            size_t *at)
{
	const struct replacement *found = NULL;

	for (; table->from.p; table++) {
		const char *p = text.n ? memmem(text.p, text.n, table->from.p, table->from.n)
		                       : NULL;
		if (p && (!found || (size_t)(p - text.p) < *at)) {
			found = table;
			*at = (size_t)(p - text.p);
		}
	}
	return found;
}

/* Appends `text`, and replaces each `from` of the table by its `to`. */
static void replace_all(struct slice text, const struct replacement *table, struct buf *out)
{
	const struct replacement *r;
	size_t at;

	while ((r = find_first(text, table, &at))) {
		buf_append(out, slice_of(text.p, at));
		buf_append(out, r->to);
		text = slice_of(text.p + at + r->from.n, text.n - at - r->from.n);
	}
	buf_append(out, text);
}

/* Returns the digits of the connection's id; SLICE_NONE: there are none. `text`: the content of
 * a bulk string; else a whole reply. `type`: the first byte of the reply. */
static struct slice find_id(char type, struct slice text)
{
	static const struct slice field = SLICE_LIT("$2\r\nid\r\n:"), info = SLICE_LIT("id=");
	const char *p;
	size_t n = 0;

	switch (type) {
	case ':':
		(void)slice_take(&text, 1);
		break;
	case '*':
	case '%':
		p = memmem(text.p, text.n, field.p, field.n);
		if (!p)
			return SLICE_NONE;
		(void)slice_take(&text, (size_t)(p - text.p) + field.n);
		break;
	case '=':
		/* In RESP3 `txt:` precedes the text. */
		(void)slice_take(&text, text.n < 4 ? text.n : 4);
		/* fall through */
	case '$':
		if (!slice_starts(text, info))
			return SLICE_NONE;
		(void)slice_take(&text, info.n);
		break;
	default:
		return SLICE_NONE;
	}
	while (n < text.n && text.p[n] >= '0' && text.p[n] <= '9')
		n++;
	return slice_of(text.p, n);
}

void hide_cluster_mode(struct slice reply, uint64_t id, struct buf *out)
{
	char type = reply.n ? *reply.p : 0;
	bool is_string = type == '$' || type == '=';
	const struct replacement *table = is_string ? of_info : of_hello;
	struct slice text = reply, head, old;
	struct buf changed = BUF_INIT;

	if (is_string && slice_cut(&text, '\n', &head) && text.n < 2) {
		/* The string is nil. */
		buf_append(out, reply);
		return;
	}
	text.n -= is_string ? 2 : 0;
	old = find_id(type, text);
	if (old.n) {
		replace_all(slice_take(&text, (size_t)(old.p - text.p)), table, &changed);
		buf_printf(&changed, "%" PRIu64, id);
		(void)slice_take(&text, old.n);
	}
	replace_all(text, table, &changed);
	if (is_string)
		buf_printf(out, "%c%zu\r\n", type, buf_len(&changed));
	buf_append(out, buf_slice(&changed));
	buf_puts(out, is_string ? "\r\n" : "");
	buf_release(&changed);
}
