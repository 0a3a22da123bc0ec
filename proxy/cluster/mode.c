/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/session_internal.h"

#include <inttypes.h>
#include <stdio.h>
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

/* Replaces the texts of `of_info` in a bulk string, and corrects its length. */
static void replace_in_string(struct slice reply, struct buf *out)
{
	const char *lf = memchr(reply.p, '\n', reply.n);
	struct buf text = BUF_INIT;
	size_t head;

	if (!lf || reply.n < (size_t)(lf - reply.p) + 3) {
		buf_append(out, reply);
		return;
	}
	head = (size_t)(lf - reply.p) + 1;
	replace_all(slice_of(reply.p + head, reply.n - head - 2), of_info, &text);
	buf_printf(out, "%c%zu\r\n", *reply.p, buf_len(&text));
	buf_append(out, buf_slice(&text));
	buf_puts(out, "\r\n");
	buf_release(&text);
}

void hide_cluster_mode(struct slice reply, struct buf *out)
{
	if (reply.n && (*reply.p == '$' || *reply.p == '='))
		replace_in_string(reply, out);
	else
		replace_all(reply, of_hello, out);
}

/* --- ids ---------------------------------------------------------------------------------- */

/* Returns the length of a reply's first line, with its line end. */
static size_t line_length(struct slice reply)
{
	const char *lf = memchr(reply.p, '\n', reply.n);

	return lf ? (size_t)(lf - reply.p) + 1 : reply.n;
}

/* Returns the digits of the connection's id in the reply; SLICE_NONE: it has none. */
static struct slice find_id(struct slice reply)
{
	static const struct slice field = SLICE_LIT("$2\r\nid\r\n:"), info = SLICE_LIT("id=");
	size_t at = 1, n = 0;
	const char *p;

	switch (reply.n ? *reply.p : 0) {
	case ':':
		break;
	case '*':
	case '%':
		p = memmem(reply.p, reply.n, field.p, field.n);
		if (!p)
			return SLICE_NONE;
		at = (size_t)(p - reply.p) + field.n;
		break;
	case '$':
	case '=':
		/* In RESP3 `txt:` precedes the text. */
		at = line_length(reply) + (*reply.p == '=' ? 4 : 0);
		if (at >= reply.n || !slice_starts(slice_of(reply.p + at, reply.n - at), info))
			return SLICE_NONE;
		at += info.n;
		break;
	default:
		return SLICE_NONE;
	}
	while (at + n < reply.n && reply.p[at + n] >= '0' && reply.p[at + n] <= '9')
		n++;
	return slice_of(reply.p + at, n);
}

void mode_replace_id(struct slice reply, uint64_t id, struct buf *out)
{
	struct slice old = find_id(reply);
	size_t begin = 0, head;
	char text[24];
	int n = snprintf(text, sizeof(text), "%" PRIu64, id);

	if (old.n == 0) {
		buf_append(out, reply);
		return;
	}
	if (*reply.p == '$' || *reply.p == '=') {
		begin = head = line_length(reply);
		buf_printf(out, "%c%zu\r\n", *reply.p, reply.n - head - 2 - old.n + (size_t)n);
	}
	buf_append(out, slice_of(reply.p + begin, (size_t)(old.p - reply.p) - begin));
	buf_append(out, slice_of(text, (size_t)n));
	buf_append(out, slice_of(old.p + old.n, (size_t)(reply.p + reply.n - old.p) - old.n));
}
