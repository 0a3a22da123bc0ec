/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Replies have the same boundaries, and the same is told of them, however their bytes
 * arrive; and an aggregate is as long as its elements.
 */
#include "fuzz.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "resp/reply.h"

const struct slice fuzz_pieces[] = {
	SLICE_LIT("+OK\r\n"),
	SLICE_LIT("-ERR no\r\n"),
	SLICE_LIT(":7\r\n"),
	SLICE_LIT(":-1\r\n"),
	SLICE_LIT(":+1\r\n"),
	SLICE_LIT("$3\r\nabc\r\n"),
	SLICE_LIT("$0\r\n\r\n"),
	SLICE_LIT("$-1\r\n"),
	SLICE_LIT("$7\r\nmessage\r\n"),
	SLICE_LIT("$5\r\n\r\n+a\r\n"),
	SLICE_LIT("*0\r\n"),
	SLICE_LIT("*1\r\n"),
	SLICE_LIT("*2\r\n"),
	SLICE_LIT("*3\r\n"),
	SLICE_LIT("*-1\r\n"),
	SLICE_LIT("_\r\n"),
	SLICE_LIT("#t\r\n"),
	SLICE_LIT(",1.5\r\n"),
	SLICE_LIT("(123\r\n"),
	SLICE_LIT("=7\r\ntxt:abc\r\n"),
	SLICE_LIT("!3\r\nERR\r\n"),
	SLICE_LIT("%1\r\n"),
	SLICE_LIT("%2\r\n"),
	SLICE_LIT("~2\r\n"),
	SLICE_LIT(">2\r\n"),
	SLICE_LIT("|1\r\n"),
	SLICE_LIT("|0\r\n"),
	SLICE_LIT("+a\rb\r\n"),
	SLICE_LIT("+\r\r\n"),
	SLICE_LIT("\r"),
	SLICE_LIT("\n"),
	SLICE_LIT("\r\n"),
	SLICE_LIT("$2\r\nabc\r\n"),
	SLICE_LIT("*01\r\n"),
	SLICE_LIT("$-2\r\n"),
	SLICE_LIT("*9223372036854775807\r\n"),
	SLICE_LIT("$9223372036854775807\r\n"),
	SLICE_LIT(":-9223372036854775808\r\n"),
	SLICE_LIT(":9223372036854775808\r\n"),
	SLICE_LIT("-"),
	SLICE_LIT("+"),
	SLICE_LIT("*"),
	SLICE_LIT("1"),
	SLICE_LIT("\0"),
	SLICE_LIT("\xff"),
	SLICE_NONE,
};

/* What was made of a piece of the stream. */
struct event {
	size_t at;
	enum resp_result result;
	struct resp_reply reply;
	size_t nfirst;
	char first[REPLY_FIRST_MAX];
};

static void tell(struct buf *told, size_t at, enum resp_result result,
                 const struct reply_scan *scan)
{
	/* Byte for byte comparable, padding included. */
	struct event *e = memset(buf_reserve(told, sizeof(*e)), 0, sizeof(*e));

	e->at = at;
	e->result = result;
	if (result == RESP_OK) {
		struct slice first = reply_scan_first(scan);
		e->reply.type = scan->reply.type;
		e->reply.nil = scan->reply.nil;
		e->reply.integer = scan->reply.integer;
		e->nfirst = first.n;
		memcpy(e->first, first.p, first.n);
	}
	buf_added(told, sizeof(*e));
}

/* Scans the stream as it arrives; what is told ends with an error or with how far the last
 * reply came. Bytes are given in a block of their own, so that ASan sees a read past it. */
static struct buf scan_arriving(struct slice stream, uint32_t cuts)
{
	struct reply_scan scan = { 0 };
	struct buf told = BUF_INIT;
	size_t at = 0, upto = 0, used;
	enum resp_result r = RESP_OK;

	while (upto < stream.n && r != RESP_BAD) {
		upto += fuzz_arrive(&cuts, stream.n - upto);
		do {
			char *exact = memcpy(xmalloc(upto - at), stream.p + at, upto - at);
			r = reply_scan(&scan, exact, upto - at, &used);
			HASP_ASSERT(used > 0 && used <= upto - at);
			HASP_ASSERT(reply_scan_at_start(&scan) == (r == RESP_OK));
			free(exact);
			at += used;
			if (r != RESP_MORE)
				tell(&told, at, r, &scan);
		} while (r == RESP_OK && at < upto);
		HASP_ASSERT(r == RESP_BAD || at == upto);
	}
	if (r == RESP_MORE)
		tell(&told, at, r, &scan);
	return told;
}

/* A whole reply's elements are as many as its header says, and fill it. */
static void walk_elements(struct slice reply)
{
	struct slice elements = reply_elements(reply);
	struct resp_reply r;
	long count = 0;

	if (*reply.p != '*' && *reply.p != '~' && *reply.p != '>')
		HASP_ASSERT(elements.n == 0);
	if (elements.n == 0)
		return;
	while (reply_next(&elements, &r))
		count++;
	HASP_ASSERT(elements.n == 0);
	HASP_ASSERT(count == strtol(reply.p + 1, NULL, 10));
}

static void walk_all(struct slice stream, struct slice told)
{
	size_t from = 0;

	for (; told.n; told.p += sizeof(struct event), told.n -= sizeof(struct event)) {
		struct event e;
		memcpy(&e, told.p, sizeof(e));
		if (e.result == RESP_OK)
			walk_elements(slice_of(stream.p + from, e.at - from));
		from = e.at;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice stream;
	struct buf whole, cut;

	if (size < 2 || size > FUZZ_INPUT_MAX)
		return 0;
	stream = slice_of(data + 1, size - 1);
	whole = scan_arriving(stream, 0);
	cut = scan_arriving(stream, 1);
	HASP_ASSERT(slice_eq(buf_slice(&whole), buf_slice(&cut)));
	buf_release(&cut);
	cut = scan_arriving(stream, 2u + data[0]);
	HASP_ASSERT(slice_eq(buf_slice(&whole), buf_slice(&cut)));
	buf_release(&cut);
	walk_all(stream, buf_slice(&whole));
	buf_release(&whole);
	return 0;
}
