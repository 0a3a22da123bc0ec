/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/mode.h"

#include "resp/write.h"

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

/* The first of the table's texts in `text`. NULL: there is none. */
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

/* Appends `text` with each of the table's texts replaced. */
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

/* A string, which has its length before it; in RESP3 it says that it is a text. */
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

void mode_hide(struct slice reply, struct buf *out)
{
	if (reply.n && (*reply.p == '$' || *reply.p == '='))
		replace_in_string(reply, out);
	else
		replace_all(reply, of_hello, out);
}
