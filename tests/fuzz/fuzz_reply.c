/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fuzz_reply: replies must have the same boundaries and facts however their bytes arrive, and
 * an aggregate must be as long as its elements.
 */
#include "arriving.h"
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

struct event {
	struct arrival arrival;
	struct resp_reply reply;
	size_t nfirst;
	char first[REPLY_FIRST_MAX];
};

static enum resp_result scan(void *state, const char *p, size_t n, size_t *used)
{
	enum resp_result r = reply_scan(state, p, n, used);

	HASP_ASSERT(*used > 0 && (r != RESP_MORE || *used == n));
	HASP_ASSERT(reply_scan_at_start(state) == (r == RESP_OK));
	return r;
}

static void note(void *event, const void *state)
{
	const struct reply_scan *told = state;
	struct slice first = reply_scan_first(told);
	struct event *e = event;

	/* Copy the fields, not the whole: its padding may hold anything. */
	e->reply.type = told->reply.type;
	e->reply.nil = told->reply.nil;
	e->reply.integer = told->reply.integer;
	e->nfirst = first.n;
	memcpy(e->first, first.p, first.n);
}

/* A reply that is skipped at once is whole, and has no facts but its type. */
static void pass_over(struct slice reply, const struct event *e)
{
	size_t used, less;
	struct reply_alike last = { 0 };
	uint32_t count = reply_skip_simple(&last, reply.p, reply.n, 2, &used);

	HASP_ASSERT(count == 0 ? used == 0 : count == 1 && used == reply.n);
	if (count)
		HASP_ASSERT(e->reply.type == '+' || e->reply.type == ':' ||
		            e->reply.type == '$');
	for (less = 1; less < reply.n; less += 1 + less / 8) {
		char *exact = exact_copy(reply.p, less);
		HASP_ASSERT(reply_skip_simple(&last, exact, less, 2, &used) == 0 && used == 0);
		free(exact);
	}
}

/* A whole reply's elements are as many as its header says, and fill it. */
static void look(struct slice reply, const void *event)
{
	struct slice elements = reply_elements(reply);
	struct resp_reply r;
	long count = 0;

	pass_over(reply, event);
	if (*reply.p != '*' && *reply.p != '~' && *reply.p != '>')
		HASP_ASSERT(elements.n == 0);
	if (elements.n == 0)
		return;
	while (reply_next(&elements, &r))
		count++;
	HASP_ASSERT(elements.n == 0);
	HASP_ASSERT(count == strtol(reply.p + 1, NULL, 10));
}

/* Where the first reply ends; 0: it is not whole. */
static size_t end_of_first(const char *p, size_t n)
{
	struct reply_scan scan = { 0 };
	size_t used;

	return n && reply_scan(&scan, p, n, &used) == RESP_OK ? used : 0;
}

/* Skipped replies, some because they are like the last, end where scanned ones end. */
static void pass_over_all(struct slice stream, uint32_t cuts)
{
	struct reply_alike last = { 0 };
	size_t at = 0, upto = 0, used, len;
	uint32_t count;

	while (upto < stream.n) {
		upto += fuzz_arrive(&cuts, stream.n - upto);
		do {
			char *exact = exact_copy(stream.p + at, upto - at);
			count = reply_skip_simple(&last, exact, upto - at, 3, &used);
			for (len = 0; count; count--)
				len += end_of_first(exact + len, upto - at - len);
			HASP_ASSERT(len == used);
			if (used == 0)
				used = end_of_first(exact, upto - at);
			free(exact);
			at += used;
		} while (used && at < upto);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct scanner replies = {
		.state_size = sizeof(struct reply_scan),
		.scan = scan,
		.event_size = sizeof(struct event),
		.note = note,
		.look = look,
	};

	if (size > 1 && size <= FUZZ_INPUT_MAX)
		pass_over_all(slice_of(data + 1, size - 1), 2u + data[0]);
	return scan_all_ways(&replies, data, size);
}
