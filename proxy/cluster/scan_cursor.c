/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/scan_cursor.h"

#include "resp/reply.h"
#include "resp/write.h"
#include "upstream/slot.h"

#define SLOT_BITS 14
#define MARK_BITS 6
#define AT_BITS 43

uint8_t scan_cursor_mark(struct slice name)
{
	return (uint8_t)(slot_of_key(name) % ((1 << MARK_BITS) - 1) + 1);
}

/* Reads a cursor as Redis does, by strtoul(): it may have a sign, and may be empty. */
static bool read_as_redis(struct slice text, uint64_t *v)
{
	bool has_sign, negative;

	text.n = strnlen(text.p, text.n);
	*v = 0;
	if (text.n == 0)
		return true;
	negative = *text.p == '-';
	has_sign = negative || *text.p == '+';
	if (!slice_number(slice_of(text.p + has_sign, text.n - has_sign), v))
		return false;
	if (negative)
		*v = 0 - *v;
	return true;
}

bool scan_cursor_read(struct slice text, struct scan_cursor *c)
{
	uint64_t v;

	if (!read_as_redis(text, &v))
		return false;
	c->slot = v & (SLOTS - 1);
	c->mark = v >> SLOT_BITS & ((1 << MARK_BITS) - 1);
	c->at = v >> (SLOT_BITS + MARK_BITS) & (((uint64_t)1 << AT_BITS) - 1);
	return true;
}

void scan_cursor_request(const struct resp_view *req, const struct scan_cursor *c,
                         struct buf *out)
{
	resp_write_array(out, req->argc);
	resp_write_bulk(out, req->argv[0]);
	resp_write_bulk_int(out, (long long)c->at);
	for (size_t i = 2; i < req->argc; i++)
		resp_write_bulk(out, req->argv[i]);
}

/* Finds the cursor's digits in a reply to SCAN, and the array of keys after them. */
static bool take_cursor(struct slice reply, struct slice *digits, struct slice *keys)
{
	struct resp_reply r;
	const char *lf;

	if (!slice_starts(reply, SLICE_LIT("*2\r\n$")))
		return false;
	*keys = reply_elements(reply);
	lf = memchr(keys->p, '\n', keys->n);
	if (!lf || !reply_next(keys, &r) || r.nil)
		return false;
	/* The line end after the digits has two bytes. */
	*digits = slice_of(lf + 1, (size_t)(keys->p - lf) - 3);
	return true;
}

bool scan_cursor_of_reply(struct slice reply, uint64_t *at)
{
	struct slice digits, keys;

	return take_cursor(reply, &digits, &keys) && slice_number(digits, at);
}

void scan_cursor_reply(struct slice reply, const struct scan_cursor *c, struct buf *out)
{
	struct slice digits, keys;
	uint64_t v = 0;

	if (!take_cursor(reply, &digits, &keys)) {
		buf_append(out, reply);
		return;
	}
	if (c && c->at >> AT_BITS) {
		buf_puts(out, "-ERR hasp: a node of the cluster returned a cursor that is too "
		              "large\r\n");
		return;
	}
	if (c)
		v = c->at << (SLOT_BITS + MARK_BITS) | (uint64_t)c->mark << SLOT_BITS | c->slot;
	resp_write_array(out, 2);
	resp_write_bulk_int(out, (long long)v);
	buf_append(out, keys);
}
