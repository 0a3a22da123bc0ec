/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Requests have the same boundaries however their bytes arrive, and the same arguments
 * whichever way they are read.
 */
#include "fuzz.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "resp/request.h"

const struct slice fuzz_pieces[] = {
	SLICE_LIT("*1\r\n"),
	SLICE_LIT("*2\r\n"),
	SLICE_LIT("*3\r\n"),
	SLICE_LIT("*12\r\n"),
	SLICE_LIT("$1\r\na\r\n"),
	SLICE_LIT("$1\r\nb\r\n"),
	SLICE_LIT("$3\r\nabc\r\n"),
	SLICE_LIT("$0\r\n\r\n"),
	SLICE_LIT("$11\r\n*1\r\n$1\r\nx\r\n\r\n"),
	SLICE_LIT("*1\r\n$4\r\nPING\r\n"),
	SLICE_LIT("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
	SLICE_LIT("PING\r\n"),
	SLICE_LIT("get key\n"),
	SLICE_LIT("\"a b\" 'c d'\r\n"),
	SLICE_LIT("*0\r\n"),
	SLICE_LIT("*-1\r\n"),
	SLICE_LIT("*-5\r\n"),
	SLICE_LIT("\r\n"),
	SLICE_LIT("\n"),
	SLICE_LIT(" "),
	SLICE_LIT("\t"),
	SLICE_LIT("\v"),
	SLICE_LIT("\""),
	SLICE_LIT("'"),
	SLICE_LIT("\\"),
	SLICE_LIT("\\x41"),
	SLICE_LIT("\\\""),
	SLICE_LIT("\0"),
	SLICE_LIT("\r"),
	SLICE_LIT("\r1\r\n"),
	SLICE_LIT("*"),
	SLICE_LIT("$"),
	SLICE_LIT("*1\rX"),
	SLICE_LIT("$1\rXaYZ"),
	SLICE_LIT("*01\r\n"),
	SLICE_LIT("$+1\r\n"),
	SLICE_LIT("$-1\r\n"),
	SLICE_LIT("*2147483648\r\n"),
	SLICE_LIT("$9223372036854775807\r\n"),
	SLICE_LIT("*2147483647\r\n"),
	SLICE_LIT("-"),
	SLICE_LIT("1"),
	SLICE_LIT("\xff"),
	SLICE_NONE,
};

/* What was made of a piece of the stream. */
struct event {
	size_t at;
	enum resp_result result;
	bool empty;
};

static void tell(struct buf *told, size_t at, enum resp_result result, bool empty)
{
	/* Byte for byte comparable, padding included. */
	struct event *e = memset(buf_reserve(told, sizeof(*e)), 0, sizeof(*e));

	e->at = at;
	e->result = result;
	e->empty = empty;
	buf_added(told, sizeof(*e));
}

/* A block of its own, so that ASan sees a read past its end. */
static char *exact_copy(const char *p, size_t n)
{
	return memcpy(xmalloc(n), p, n);
}

/* Scans the stream as it arrives; what is told ends with an error or with how far the last
 * request came. */
static struct buf scan_arriving(struct slice stream, uint32_t cuts)
{
	struct request_scan scan = { 0 };
	struct buf told = BUF_INIT;
	size_t at = 0, upto = 0, used;
	enum resp_result r = RESP_OK;

	while (upto < stream.n && r != RESP_BAD) {
		upto += fuzz_arrive(&cuts, stream.n - upto);
		do {
			char *exact = exact_copy(stream.p + at, upto - at);
			r = request_scan(&scan, exact, upto - at, &used);
			HASP_ASSERT(used <= upto - at);
			free(exact);
			at += used;
			if (r != RESP_MORE)
				tell(&told, at, r, r == RESP_OK && scan.empty);
		} while (r == RESP_OK && at < upto);
	}
	if (r == RESP_MORE)
		tell(&told, at, r, false);
	return told;
}

static void same_args(struct resp_view view, const struct request_args *args)
{
	HASP_ASSERT(view.argc == args->argc);
	for (size_t i = 0; i < view.argc; i++)
		HASP_ASSERT(slice_eq(view.argv[i], args->argv[i]));
}

/* One request, whole. */
static void read_args(struct slice request, bool empty, struct request_args *args,
                      struct request_args *others)
{
	struct request_scan scan = { 0 };
	struct resp_view view;
	size_t used;
	bool whole;

	HASP_ASSERT(request_scan_args(&scan, request.p, request.n, &used, others) == RESP_OK);
	HASP_ASSERT(used == request.n && scan.empty == empty);
	view = request_view(args, request.p, request.n, &whole);
	HASP_ASSERT(whole && (view.argc > 0) == !empty);
	same_args(view, others);
	/* Of its beginning, as many as are there. */
	for (size_t n = 1; n < request.n; n += 1 + n / 8) {
		char *exact = exact_copy(request.p, n);
		view = request_view(args, exact, n, &whole);
		HASP_ASSERT(view.argc <= others->argc);
		for (size_t i = 0; i < view.argc; i++)
			HASP_ASSERT(slice_eq(view.argv[i], others->argv[i]));
		free(exact);
	}
}

static void read_all_args(struct slice stream, struct slice told)
{
	struct request_args args = { 0 }, others = { 0 };
	size_t from = 0;

	for (; told.n; told.p += sizeof(struct event), told.n -= sizeof(struct event)) {
		struct event e;
		memcpy(&e, told.p, sizeof(e));
		if (e.result == RESP_OK)
			read_args(slice_of(stream.p + from, e.at - from), e.empty, &args,
			          &others);
		from = e.at;
	}
	request_args_fini(&args);
	request_args_fini(&others);
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
	read_all_args(stream, buf_slice(&whole));
	buf_release(&whole);
	return 0;
}
