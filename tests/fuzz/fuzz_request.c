/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fuzz_request: requests must have the same boundaries however their bytes arrive, and the same
 * arguments whichever way they are read.
 */
#include "arriving.h"

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

struct event {
	struct arrival arrival;
	bool empty;
};

static enum resp_result scan(void *state, const char *p, size_t n, size_t *used)
{
	return request_scan(state, p, n, used, NULL);
}

static void note(void *event, const void *state)
{
	((struct event *)event)->empty = ((const struct request_scan *)state)->empty;
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
	size_t used, rest;
	bool whole;

	HASP_ASSERT(request_scan(&scan, request.p, request.n, &used, others) == RESP_OK);
	HASP_ASSERT(used == request.n && scan.empty == empty);
	view = request_view(args, request.p, request.n, &whole);
	HASP_ASSERT(whole && (view.argc > 0) == !empty);
	same_args(view, others);
	/* The short ways, if they succeed, find the same arguments. */
	used = request_scan_simple(request.p, request.n, others);
	HASP_ASSERT(used == 0 || (used == request.n && !empty));
	same_args(view, others);
	rest = used ? (size_t)(view.argv[0].p - request.p) + view.argv[0].n + 2 : request.n + 1;
	used = request_scan_rest(request.p, request.n, rest, view.argc, others);
	HASP_ASSERT(used == (rest <= request.n ? request.n : 0));
	same_args(view, others);
	/* Of its beginning, as many as are there. */
	for (size_t n = 1; n < request.n; n += 1 + n / 8) {
		char *exact = exact_copy(request.p, n);
		view = request_view(args, exact, n, &whole);
		HASP_ASSERT(view.argc <= others->argc);
		for (size_t i = 0; i < view.argc; i++)
			HASP_ASSERT(slice_eq(view.argv[i], others->argv[i]));
		HASP_ASSERT(request_scan_simple(exact, n, args) == 0);
		HASP_ASSERT(request_scan_rest(exact, n, rest, others->argc, args) == 0);
		free(exact);
	}
}

static void look(struct slice request, const void *event)
{
	struct request_args args = { 0 }, others = { 0 };

	read_args(request, ((const struct event *)event)->empty, &args, &others);
	request_args_fini(&args);
	request_args_fini(&others);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct scanner requests = {
		.state_size = sizeof(struct request_scan),
		.scan = scan,
		.event_size = sizeof(struct event),
		.note = note,
		.look = look,
	};

	return scan_all_ways(&requests, data, size);
}
