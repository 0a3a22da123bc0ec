/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A link on a real loop against a server on a unix socket that the test plays by hand:
 * each reply answers the request it belongs to, and reaches the owner as it was
 * asked for, however its bytes arrive.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/unit/surroundings.h"
#include "upstream/link.h"

#define DEADLINE_SECONDS 20.0

struct fixture {
	struct surroundings at;
	int server; /* the server's end; -1: not accepted, or closed */
	struct link *link; /* NULL: never was, or freed */
	struct link_user user;

	/* What the owner was told. */
	struct buf bytes;
	struct buf told; /* "reply TAG TYPE[ KEPT]", "asked TAG LINE", "frame TYPE" ... lines */
	unsigned ndrained;
	unsigned ndown;
	enum link_end end;
	size_t inflight;
	char reason[128];

	/* What the owner does. */
	bool drops_errors;
	bool takes_frames; /* that begin with "message", and pushes */
	bool closes_on_reply;
	bool turns_opaque_on_reply;
};

/* --- the owner -------------------------------------------------------------- */

static void on_bytes(void *owner, struct slice bytes)
{
	struct fixture *f = owner;

	assert_int_equal(f->ndown, 0);
	buf_append(&f->bytes, bytes);
}

static void on_reply(void *owner, void *tag, const struct resp_reply *r, struct slice captured)
{
	struct fixture *f = owner;

	buf_printf(&f->told, "reply %s %c%s%.*s\n", tag ? (char *)tag : "-", r->type,
	           captured.n ? " " : "", (int)captured.n, captured.n ? captured.p : "");
	if (f->closes_on_reply)
		link_close(f->link);
	if (f->turns_opaque_on_reply)
		link_make_opaque(f->link);
}

static void on_answered(void *owner, void *tag, const struct resp_reply *r)
{
	struct fixture *f = owner;

	buf_printf(&f->told, "answered %s %c%s\n", (char *)tag, r->type,
	           slice_starts(slice_of(buf_head(&f->bytes), buf_len(&f->bytes)),
	                        SLICE_LIT("+1\r\n:2"))
	                   ? " late"
	                   : "");
}

static bool on_line(void *owner, void *tag, struct slice line)
{
	struct fixture *f = owner;

	buf_printf(&f->told, "asked %s %.*s\n", (char *)tag, (int)line.n, line.p);
	return !f->drops_errors;
}

static bool on_frame(void *owner, const struct reply_scan *frame)
{
	struct fixture *f = owner;

	if (!f->takes_frames || (frame->reply.type != '>' &&
	                         !slice_eq(reply_scan_first(frame), SLICE_LIT("message"))))
		return false;
	buf_printf(&f->told, "frame %c\n", frame->reply.type);
	return true;
}

static void on_drained(void *owner)
{
	struct fixture *f = owner;

	f->ndrained++;
}

static void on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct fixture *f = owner;

	f->ndown++;
	f->end = end;
	f->inflight = inflight;
	snprintf(f->reason, sizeof(f->reason), "%s", reason);
}

static const struct link_ops ops = {
	.on_bytes = on_bytes,
	.on_reply = on_reply,
	.on_answered = on_answered,
	.on_line = on_line,
	.on_frame = on_frame,
	.on_drained = on_drained,
	.on_down = on_down,
};

/* --- set up ------------------------------------------------------------------- */

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	surroundings_init(&f->at, 64 * 1024);
	f->server = -1;
	*state = f;
	return 0;
}

static void hang_up(struct fixture *f)
{
	if (f->server >= 0)
		close(f->server);
	f->server = -1;
}

static void free_link(struct fixture *f)
{
	link_close(f->link);
	links_reap(&f->at.env);
	f->link = NULL;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	free_link(f);
	hang_up(f);
	surroundings_fini(&f->at);
	buf_release(&f->bytes);
	buf_release(&f->told);
	free(f);
	return 0;
}

/* Lets the loop do what is to be done now. */
static void settle(struct fixture *f)
{
	for (int i = 0; i < 4; i++)
		ev_run(f->at.loop, EVRUN_NOWAIT);
}

static void on_deadline(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
	fail_msg("nothing happened for %d seconds", (int)DEADLINE_SECONDS);
}

/* Runs the loop until something happened and fails when nothing does. */
static void tunnel_mode(struct fixture *f)
{
	struct ev_timer deadline;

	ev_timer_init(&deadline, on_deadline, DEADLINE_SECONDS, 0);
	ev_timer_start(f->at.loop, &deadline);
	ev_run(f->at.loop, EVRUN_ONCE);
	ev_timer_stop(f->at.loop, &deadline);
}

static void begin(struct fixture *f)
{
	link_user_init(&f->user, &ops, f);
	f->link = link_new(&f->at.env, false, NULL);
	link_join(f->link, &f->user);
}

/* Connected, and accepted by the server. */
static void connect_link(struct fixture *f)
{
	begin(f);
	f->server = accept(f->at.listener, NULL, NULL);
	assert_true(f->server >= 0);
	while (f->ndrained == 0 && f->ndown == 0)
		tunnel_mode(f);
	assert_int_equal(f->ndown, 0);
}

/* Once more from the start, as on the first day. */
static void connect_anew(struct fixture *f)
{
	free_link(f);
	hang_up(f);
	buf_clear(&f->bytes);
	buf_clear(&f->told);
	f->ndown = f->ndrained = 0;
	connect_link(f);
}

static void server_sends(struct fixture *f, struct slice bytes)
{
	assert_int_equal(send(f->server, bytes.p, bytes.n, MSG_NOSIGNAL), bytes.n);
	settle(f);
}

#define SERVER_SENDS(f, literal) server_sends(f, SLICE_LIT(literal))

/* Reads at most `n` bytes of what the link sent, as far as it is there. */
static size_t server_reads(struct fixture *f, char *p, size_t n)
{
	size_t got = 0;

	for (;;) {
		ssize_t r = recv(f->server, p + got, n - got, MSG_DONTWAIT);
		if (r <= 0)
			return got;
		got += (size_t)r;
	}
}

static void assert_buf(const struct buf *b, const char *expected)
{
	if (!slice_eq(buf_slice(b), slice_str(expected)))
		fail_msg("\"%.*s\" instead of \"%s\"", (int)buf_len(b), buf_head(b), expected);
}

static void assert_seen(struct fixture *f, const char *bytes, const char *told)
{
	assert_buf(&f->bytes, bytes);
	assert_buf(&f->told, told);
}

/* After `prepare` the server sends `stream`: whole, byte by byte and at every split the
 * owner must see the same. */
static void assert_sees(struct fixture *f, void (*prepare)(struct fixture *f),
                        struct slice stream, const char *bytes, const char *told)
{
	for (size_t cut = 0; cut <= stream.n; cut++) {
		connect_anew(f);
		prepare(f);
		for (size_t i = 0; cut == stream.n && i < stream.n; i++)
			server_sends(f, slice_of(stream.p + i, 1));
		if (cut < stream.n && cut)
			server_sends(f, slice_of(stream.p, cut));
		if (cut < stream.n)
			server_sends(f, slice_of(stream.p + cut, stream.n - cut));
		assert_seen(f, bytes, told);
		assert_int_equal(f->user.inflight, 0);
		assert_int_equal(f->ndown, 0);
	}
}

#define SEES(f, prepare, literal, bytes, told)                                                 \
	assert_sees(f, prepare, SLICE_LIT(literal), bytes, told)

static void expect(struct fixture *f, unsigned flags, const char *tag)
{
	link_expect(&f->user, flags, (void *)tag);
}

/* --- replies ---------------------------------------------------------------- */

static void expect_passed(struct fixture *f)
{
	for (int i = 0; i < 3; i++)
		expect(f, LINK_PASS, NULL);
}

static void replies_are_forwarded_as_they_are(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_passed, "+OK\r\n-ERR no\r\n*2\r\n$1\r\na\r\n$-1\r\n",
	     "+OK\r\n-ERR no\r\n*2\r\n$1\r\na\r\n$-1\r\n", "");
}

static void a_reply_is_forwarded_before_it_is_whole(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY, "a");
	SERVER_SENDS(f, "$1000\r\nabc");
	assert_seen(f, "$1000\r\nabc", "");
	assert_int_equal(f->user.inflight, 1);
}

static void expect_a_mix(struct fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY, "c");
}

static void each_reply_is_told_to_whom_it_answers(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_a_mix, "+1\r\n:2\r\n-3\r\n$1\r\n4\r\n*1\r\n:5\r\n_\r\n",
	     "+1\r\n:2\r\n-3\r\n$1\r\n4\r\n*1\r\n:5\r\n_\r\n",
	     "reply a -\nreply b $\nreply c _\n");
}

static void requests_in_flight_are_counted(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	assert_int_equal(f->user.inflight, 0);
	assert_null(link_head(&f->user));
	expect_a_mix(f);
	assert_int_equal(f->user.inflight, 6);
	assert_null(link_head(&f->user));
	SERVER_SENDS(f, "+1\r\n+2\r\n");
	assert_int_equal(f->user.inflight, 4);
	assert_string_equal(link_head(&f->user), "a");
	SERVER_SENDS(f, "+3\r\n+4");
	assert_int_equal(f->user.inflight, 3);
	assert_string_equal(link_head(&f->user), "b");
}

/* The ring of runs wraps and grows while it is in use, and shrinks when it is empty. */
static void the_order_holds_for_any_depth_of_pipeline(void **state)
{
	struct fixture *f = *state;
	char tags[500][8];
	struct buf expected = BUF_INIT;
	size_t sent = 0, answered = 0;
	unsigned seed = 7;

	connect_link(f);
	for (size_t i = 0; i < 500; i++)
		snprintf(tags[i], sizeof(tags[i]), "%zu", i);
	while (answered < 500) {
		seed = seed * 1103515245 + 12345;
		for (unsigned n = seed >> 16 & 31; n && sent < 500; n--, sent++)
			expect(f, sent % 5 < 2 ? LINK_PASS : LINK_NOTIFY, tags[sent]);
		for (unsigned n = seed >> 24 & 31; n && answered < sent; n--, answered++) {
			SERVER_SENDS(f, ":1\r\n");
			if (answered % 5 >= 2)
				buf_printf(&expected, "reply %s :\n", tags[answered]);
		}
		assert_int_equal(f->user.inflight, sent - answered);
	}
	buf_append(&expected, slice_of("", 1));
	assert_buf(&f->told, buf_head(&expected));
	buf_release(&expected);
}

static void expect_kept(struct fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_CAPTURE, "k");
	expect(f, LINK_NOTIFY, "t");
	expect(f, LINK_NOTIFY | LINK_CAPTURE, "l");
}

static void a_reply_to_be_kept_is_collected_and_forwarded(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_kept, "+1\r\n*2\r\n:1\r\n$2\r\nab\r\n+3\r\n-4\r\n",
	     "+1\r\n*2\r\n:1\r\n$2\r\nab\r\n+3\r\n-4\r\n",
	     "reply k * *2\r\n:1\r\n$2\r\nab\r\n\nreply t +\nreply l - -4\r\n\n");
}

static void expect_quiet(struct fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_DISCARD, NULL);
	expect(f, LINK_NOTIFY | LINK_DISCARD, "a");
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_DISCARD | LINK_CAPTURE, "b");
}

static void a_quiet_reply_is_not_forwarded(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_quiet, "+1\r\n$3\r\n222\r\n-3\r\n*1\r\n:4\r\n+5\r\n",
	     "+1\r\n*1\r\n:4\r\n", "reply a -\nreply b + +5\r\n\n");
}

static void expect_soon(struct fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_NOTIFY_EARLY, "a");
}

/* When all of it is there; else its beginning is. */
static void an_answer_is_told_of_before_it_is_forwarded(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect_soon(f);
	SERVER_SENDS(f, "+1\r\n:2\r\n");
	assert_buf(&f->bytes, "+1\r\n:2\r\n");
	assert_buf(&f->told, "answered a :\nreply a :\n");
}

static void a_reply_too_long_to_be_kept_is_forwarded_all_the_same(void **state)
{
	struct fixture *f = *state;
	size_t left = LINK_CAPTURE_MAX + 1, total;
	char block[32768], header[32];

	memset(block, 'x', sizeof(block));
	connect_link(f);
	expect(f, LINK_NOTIFY | LINK_CAPTURE, "long");
	expect(f, LINK_NOTIFY | LINK_CAPTURE, "short");
	total = left + (size_t)snprintf(header, sizeof(header), "$%zu\r\n", left) + 2;
	server_sends(f, slice_str(header));
	while (left) {
		size_t n = left < sizeof(block) ? left : sizeof(block);
		server_sends(f, slice_of(block, n));
		left -= n;
	}
	SERVER_SENDS(f, "\r\n+OK\r\n");
	assert_int_equal(buf_len(&f->bytes), total + 5);
	assert_buf(&f->told, "reply long $\nreply short + +OK\r\n\n");
}

/* --- errors held back -------------------------------------------------------- */

static void expect_asked(struct fixture *f)
{
	f->drops_errors = false;
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "a");
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "b");
	expect(f, LINK_PASS, NULL);
}

static void an_error_is_forwarded_when_the_owner_says_so(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_asked, "-1\r\n-ERR 2\r\n:3\r\n-4\r\n", "-1\r\n-ERR 2\r\n:3\r\n-4\r\n",
	     "asked a -ERR 2\r\n\nreply a -\nreply b :\n");
}

static void expect_dropped(struct fixture *f)
{
	expect_asked(f);
	f->drops_errors = true;
}

static void an_error_that_the_owner_drops_is_as_if_it_never_came(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_dropped, "-1\r\n-NOSCRIPT 2\r\n:3\r\n-4\r\n", "-1\r\n:3\r\n-4\r\n",
	     "asked a -NOSCRIPT 2\r\n\nreply b :\n");
}

static void an_error_is_held_until_it_is_whole(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "a");
	SERVER_SENDS(f, "-ERR a long");
	assert_seen(f, "", "");
	SERVER_SENDS(f, " story\r\n");
	assert_seen(f, "-ERR a long story\r\n", "asked a -ERR a long story\r\n\nreply a -\n");
}

static void what_is_no_error_is_not_held(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "a");
	SERVER_SENDS(f, "$9\r\nab");
	assert_seen(f, "$9\r\nab", "");
}

static void expect_status_asked(struct fixture *f)
{
	f->drops_errors = false;
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, "a");
	expect(f, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, "b");
	expect(f, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, "c");
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "d");
}

#define STATUSES "+1\r\n+QUEUED 2\r\n-ERR 3\r\n:4\r\n+5\r\n"

static void a_status_that_is_asked_about_is_forwarded_when_the_owner_says_so(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_status_asked, STATUSES, STATUSES,
	     "asked a +QUEUED 2\r\n\nreply a +\nasked b -ERR 3\r\n\nreply b -\n"
	     "reply c :\nreply d +\n");
}

static void expect_status_dropped(struct fixture *f)
{
	expect_status_asked(f);
	f->drops_errors = true;
}

static void a_status_that_the_owner_drops_is_as_if_it_never_came(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_status_dropped, STATUSES, "+1\r\n:4\r\n+5\r\n",
	     "asked a +QUEUED 2\r\n\nasked b -ERR 3\r\n\nreply c :\nreply d +\n");
}

/* --- frames that answer nothing ------------------------------------------------ */

static void expect_with_pushes(struct fixture *f)
{
	f->takes_frames = true;
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY | LINK_DISCARD, "b");
	expect(f, LINK_NOTIFY | LINK_CAPTURE, "c");
}

static void a_push_is_forwarded_and_answers_nothing(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_with_pushes,
	     ">1\r\n+p\r\n+1\r\n>1\r\n+q\r\n-2\r\n>1\r\n+r\r\n:3\r\n>1\r\n+s\r\n",
	     ">1\r\n+p\r\n+1\r\n>1\r\n+q\r\n>1\r\n+r\r\n:3\r\n>1\r\n+s\r\n",
	     "frame >\nreply a +\nframe >\nreply b -\nframe >\nreply c : :3\r\n\nframe >\n");
}

static void expect_watched(struct fixture *f)
{
	f->takes_frames = true;
	link_watch(f->link, true);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY | LINK_CAPTURE, "b");
}

static void a_published_message_answers_nothing_while_watched(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_watched,
	     "*1\r\n$7\r\nmessage\r\n*0\r\n*1\r\n$7\r\nmessage\r\n*1\r\n$1\r\nx\r\n",
	     "*1\r\n$7\r\nmessage\r\n*0\r\n*1\r\n$7\r\nmessage\r\n*1\r\n$1\r\nx\r\n",
	     "frame *\nreply a *\nframe *\nreply b * *1\r\n$1\r\nx\r\n\n");
}

static void nothing_but_pushes_is_asked_about_while_not_watched(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	f->takes_frames = true;
	link_watch(f->link, true);
	link_watch(f->link, false);
	expect(f, LINK_NOTIFY, "a");
	SERVER_SENDS(f, "*1\r\n$7\r\nmessage\r\n");
	assert_buf(&f->told, "reply a *\n");
}

/* An acknowledgement may be the last thing that a request waits for. */
static void the_oldest_request_can_be_taken_off(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	link_drop_head(f->link);
	assert_string_equal(link_head(&f->user), "b");
	SERVER_SENDS(f, "+1\r\n");
	assert_buf(&f->told, "reply b +\n");
}

/* --- the end ---------------------------------------------------------------- */

static void a_server_that_hangs_up_takes_the_link_down(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	assert_int_equal(send(f->server, "+1\r\n$5\r\nab", 10, MSG_NOSIGNAL), 10);
	hang_up(f);
	settle(f);
	assert_int_equal(f->ndown, 1);
	assert_int_equal(f->end, LINK_CUT);
	assert_string_equal(f->reason, "closed by the server");
	assert_seen(f, "+1\r\n$5\r\nab", "reply a +\n");
}

/* Something can be said in the place of the reply that is missing. */
static void a_link_that_goes_down_between_two_replies_has_cut_none(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	assert_int_equal(send(f->server, "+1\r\n", 4, MSG_NOSIGNAL), 4);
	hang_up(f);
	settle(f);
	assert_int_equal(f->ndown, 1);
	assert_int_equal(f->end, LINK_BROKEN);
	assert_int_equal(f->inflight, 1);
	assert_seen(f, "+1\r\n", "reply a +\n");
}

static void what_is_not_forwarded_is_not_cut(void **state)
{
	struct fixture *f = *state;
	static const struct {
		unsigned flags;
		const char *begun;
	} cases[] = {
		{ LINK_NOTIFY | LINK_DISCARD, "$5\r\nab" },
		{ LINK_NOTIFY | LINK_INTERCEPT, "-ERR" },
		{ LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, "+QUEUED 1" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t n = strlen(cases[i].begun);
		connect_anew(f);
		expect(f, cases[i].flags, "a");
		assert_int_equal(send(f->server, cases[i].begun, n, MSG_NOSIGNAL), n);
		hang_up(f);
		settle(f);
		assert_int_equal(f->ndown, 1);
		assert_int_equal(f->end, LINK_BROKEN);
		assert_seen(f, "", "");
	}
}

/* Nobody may take the half of it for the whole. */
static void an_error_held_back_goes_down_with_the_link(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "a");
	assert_int_equal(send(f->server, "-ERR", 4, MSG_NOSIGNAL), 4);
	hang_up(f);
	settle(f);
	assert_int_equal(f->ndown, 1);
	assert_seen(f, "", "");
}

static void a_connection_that_is_reset_says_so(void **state)
{
	struct fixture *f = *state;
	char block[65536] = { 0 };

	connect_link(f);
	/* Unread bytes make the peer's close a reset. */
	link_send(f->link, slice_of(block, sizeof(block)));
	settle(f);
	hang_up(f);
	settle(f);
	assert_int_equal(f->ndown, 1);
	assert_int_equal(f->end, LINK_BROKEN);
	assert_string_equal(f->reason, strerror(ECONNRESET));
}

static void garbage_takes_the_link_down_behind_the_last_good_reply(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	SERVER_SENDS(f, "+1\r\n*2\r\n+x\r\nHTTP/1.1 400 Bad Request\r\n");
	assert_int_equal(f->ndown, 1);
	assert_int_not_equal(f->end, LINK_UNREACHABLE);
	assert_string_equal(f->reason, "it sent bytes that are no RESP reply");
	assert_seen(f, "+1\r\n", "reply a +\n");
}

static void a_link_that_is_closed_tells_nothing_more(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	SERVER_SENDS(f, "+1");
	link_close(f->link);
	link_close(f->link);
	link_send(f->link, SLICE_LIT("PING\r\n"));
	assert_int_equal(send(f->server, "\r\n", 2, MSG_NOSIGNAL) < 0, 1);
	settle(f);
	assert_seen(f, "+1", "");
	assert_int_equal(f->ndown, 0);
}

static void a_link_can_be_closed_inside_its_callback(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	f->closes_on_reply = true;
	f->takes_frames = true;
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	SERVER_SENDS(f, "+1\r\n>1\r\n+p\r\n+2\r\n");
	assert_buf(&f->told, "reply a +\n");
	assert_int_equal(f->ndown, 0);
}

/* --- connecting ------------------------------------------------------------- */

static void assert_fails(struct fixture *f, const char *reason)
{
	begin(f);
	expect(f, LINK_NOTIFY, "a");
	link_send(f->link, SLICE_LIT("PING\r\n"));
	assert_int_equal(f->ndown, 0);
	while (f->ndown == 0)
		tunnel_mode(f);
	settle(f);
	assert_int_equal(f->ndown, 1);
	assert_int_equal(f->end, LINK_UNREACHABLE);
	assert_string_equal(f->reason, reason);
	assert_seen(f, "", "");
}

static void a_socket_that_is_missing_is_told(void **state)
{
	struct fixture *f = *state;

	strcat(f->at.env.address.host, "/no");
	assert_fails(f, strerror(ENOTDIR));
	free_link(f);
	f->ndown = 0;
	snprintf(f->at.env.address.host, sizeof(f->at.env.address.host), "%s/no", f->at.dir);
	assert_fails(f, strerror(ENOENT));
}

static void a_path_too_long_for_a_socket_is_told(void **state)
{
	struct fixture *f = *state;

	memset(f->at.env.address.host, 'x', 200);
	f->at.env.address.host[200] = '\0';
	assert_fails(f, strerror(ENAMETOOLONG));
}

static void a_socket_without_a_listener_is_told(void **state)
{
	struct fixture *f = *state;

	close(f->at.listener);
	f->at.listener = -1;
	assert_fails(f, strerror(ECONNREFUSED));
}

/* A port of the loopback that nobody listens at: one that was bound just now. */
static void a_port_without_a_listener_is_told(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	f->at.env.address = (struct address){ .host = "127.0.0.1" };
	snprintf(f->at.env.address.port, sizeof(f->at.env.address.port), "%d",
	         ntohs(sin.sin_port));
	assert_fails(f, strerror(ECONNREFUSED));
	close(fd);
}

/* Else who found it full while it was logging in would wait for ever. */
static void a_link_that_was_full_while_it_logged_in_says_when_it_is_not(void **state)
{
	struct fixture *f = *state;
	const struct link_login login = { .proto = 3 };
	char *block = calloc(1, STREAM_HIGH_WATER), got[64];

	link_user_init(&f->user, &ops, f);
	f->link = link_new(&f->at.env, false, &login);
	link_join(f->link, &f->user);
	f->server = accept(f->at.listener, NULL, NULL);
	while (server_reads(f, got, sizeof(got)) == 0)
		tunnel_mode(f);
	link_send(f->link, slice_of(block, STREAM_HIGH_WATER));
	assert_true(link_is_full(f->link));
	f->ndrained = 0;
	SERVER_SENDS(f, "%0\r\n");
	assert_int_equal(f->ndrained, 1);
	assert_false(link_is_full(f->link));
	free(block);
}

static void what_is_sent_before_the_connection_is_up_waits_for_it(void **state)
{
	struct fixture *f = *state;
	char got[32];

	begin(f);
	link_send(f->link, SLICE_LIT("one "));
	link_send(f->link, SLICE_LIT("two"));
	assert_int_equal(link_pending(f->link), 7);
	f->server = accept(f->at.listener, NULL, NULL);
	while (f->ndrained == 0)
		tunnel_mode(f);
	assert_int_equal(link_pending(f->link), 0);
	link_send(f->link, SLICE_LIT(" three"));
	assert_int_equal(server_reads(f, got, sizeof(got)), 13);
	assert_memory_equal(got, "one two three", 13);
}

static void a_link_can_be_closed_while_it_connects(void **state)
{
	struct fixture *f = *state;

	begin(f);
	link_send(f->link, SLICE_LIT("PING\r\n"));
	link_close(f->link);
	settle(f);
	assert_int_equal(f->ndown, 0);
	assert_int_equal(f->ndrained, 0);
}

/* --- sending ---------------------------------------------------------------- */

static void what_the_server_does_not_read_waits(void **state)
{
	struct fixture *f = *state;
	const size_t total = 4 * 1024 * 1024;
	char *block = calloc(1, total);
	size_t got = 0;

	connect_link(f);
	f->ndrained = 0;
	for (size_t i = 0; i < total; i++)
		block[i] = (char)(i * 7 + i / 256);
	link_send(f->link, slice_of(block, total));
	assert_true(link_pending(f->link) > total / 2);
	assert_true(link_is_full(f->link));
	settle(f);
	assert_int_equal(f->ndrained, 0);
	while (got < total) {
		char part[65536];
		size_t n = server_reads(f, part, sizeof(part));
		assert_memory_equal(part, block + got, n);
		got += n;
		settle(f);
	}
	assert_int_equal(f->ndrained, 1);
	assert_int_equal(link_pending(f->link), 0);
	free(block);
}

static void shutting_down_ends_what_is_sent_and_not_what_is_read(void **state)
{
	struct fixture *f = *state;
	char got[16];

	connect_link(f);
	expect(f, LINK_NOTIFY, "a");
	link_send(f->link, SLICE_LIT("PING\r\n"));
	link_shutdown(f->link);
	link_send(f->link, SLICE_LIT("more"));
	settle(f);
	assert_int_equal(server_reads(f, got, sizeof(got)), 6);
	assert_int_equal(recv(f->server, got, sizeof(got), MSG_DONTWAIT), 0);
	SERVER_SENDS(f, "+PONG\r\n");
	assert_seen(f, "+PONG\r\n", "reply a +\n");
	assert_int_equal(f->ndown, 0);
}

/* --- pausing ---------------------------------------------------------------- */

static void a_paused_link_reads_nothing(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY, "a");
	link_pause(f->link);
	SERVER_SENDS(f, "+1\r\n");
	assert_seen(f, "", "");
	link_resume(f->link);
	settle(f);
	assert_seen(f, "+1\r\n", "reply a +\n");
}

static void a_link_can_be_paused_before_it_is_up(void **state)
{
	struct fixture *f = *state;

	begin(f);
	link_pause(f->link);
	f->server = accept(f->at.listener, NULL, NULL);
	while (f->ndrained == 0)
		tunnel_mode(f);
	SERVER_SENDS(f, "+1\r\n");
	assert_seen(f, "", "");
	link_resume(f->link);
	settle(f);
	assert_seen(f, "+1\r\n", "");
}

/* --- shared links ------------------------------------------------------------- */

#define NGUESTS 3

/* One of several users of a link. */
struct guest {
	struct link_user user;
	struct buf bytes;
	struct buf told;
	const char *leaves_on; /* the tag whose reply makes it leave; NULL: stays */
	unsigned nidle;
	unsigned ndown;
	size_t inflight; /* when the link went down */
	enum link_end end;
	char reason[128];
};

struct guests {
	struct fixture *f;
	struct guest guest[NGUESTS];
};

static void guest_on_bytes(void *owner, struct slice bytes)
{
	struct guest *g = owner;

	buf_append(&g->bytes, bytes);
}

static void guest_on_reply(void *owner, void *tag, const struct resp_reply *r,
                           struct slice captured)
{
	struct guest *g = owner;

	(void)captured;
	buf_printf(&g->told, "%s %c\n", (char *)tag, r->type);
	if (g->leaves_on && strcmp(tag, g->leaves_on) == 0)
		link_leave(&g->user);
}

static bool guest_on_line(void *owner, void *tag, struct slice line)
{
	struct guest *g = owner;

	buf_printf(&g->told, "error %s %.*s", (char *)tag, (int)line.n, line.p);
	return true;
}

static void guest_on_drained(void *owner)
{
	(void)owner;
}

static void guest_on_idle(void *owner)
{
	struct guest *g = owner;

	g->nidle++;
	buf_printf(&g->told, "idle after %zu bytes\n", buf_len(&g->bytes));
}

static void guest_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct guest *g = owner;

	assert_null(g->user.link);
	g->ndown++;
	g->end = end;
	g->inflight = inflight;
	snprintf(g->reason, sizeof(g->reason), "%s", reason);
}

static const struct link_ops guest_ops = {
	.on_bytes = guest_on_bytes,
	.on_reply = guest_on_reply,
	.on_line = guest_on_line,
	.on_drained = guest_on_drained,
	.on_idle = guest_on_idle,
	.on_down = guest_on_down,
};

/* A shared link that the server has accepted, with all guests on it. */
static void invite(struct guests *all, struct fixture *f, const struct link_login *login)
{
	*all = (struct guests){ .f = f };
	free_link(f);
	hang_up(f);
	f->link = link_new(&f->at.env, true, login);
	for (size_t i = 0; i < NGUESTS; i++) {
		link_user_init(&all->guest[i].user, &guest_ops, &all->guest[i]);
		link_join(f->link, &all->guest[i].user);
	}
	f->server = accept(f->at.listener, NULL, NULL);
	assert_true(f->server >= 0);
	settle(f);
}

static void see_off(struct guests *all)
{
	free_link(all->f);
	for (size_t i = 0; i < NGUESTS; i++) {
		assert_null(all->guest[i].user.link);
		buf_release(&all->guest[i].bytes);
		buf_release(&all->guest[i].told);
	}
}

static void ask(struct guests *all, size_t client_label, unsigned flags, const char *tag)
{
	link_expect(&all->guest[client_label].user, flags, (void *)tag);
}

static void assert_guest(const struct guest *g, const char *bytes, const char *told)
{
	assert_buf(&g->bytes, bytes);
	assert_buf(&g->told, told);
}

/* The server's answer in every two parts, and byte by byte. */
#define AT_EVERY_SPLIT(stream, cut) for (size_t cut = 0; cut <= sizeof(stream) - 1; cut++)

static void server_sends_split(struct fixture *f, struct slice stream, size_t cut)
{
	for (size_t i = 0; cut == stream.n && i < stream.n; i++)
		server_sends(f, slice_of(stream.p + i, 1));
	if (cut < stream.n && cut)
		server_sends(f, slice_of(stream.p, cut));
	if (cut < stream.n)
		server_sends(f, slice_of(stream.p + cut, stream.n - cut));
}

static void each_user_gets_the_replies_to_its_own_requests(void **state)
{
	static const char stream[] =
		"+a1\r\n$2\r\nb1\r\n+c1\r\n+c2\r\n*1\r\n:1\r\n-ERR b3\r\n+a3\r\n";
	struct fixture *f = *state;
	struct guests all;

	AT_EVERY_SPLIT(stream, cut)
	{
		invite(&all, f, NULL);
		ask(&all, 0, LINK_PASS, NULL);
		ask(&all, 1, LINK_NOTIFY, "b1");
		ask(&all, 2, LINK_PASS, NULL);
		ask(&all, 2, LINK_PASS, NULL);
		ask(&all, 0, LINK_NOTIFY, "a2");
		ask(&all, 1, LINK_NOTIFY | LINK_INTERCEPT, "b3");
		ask(&all, 0, LINK_PASS, NULL);
		server_sends_split(f, SLICE_LIT(stream), cut);
		assert_guest(&all.guest[0], "+a1\r\n*1\r\n:1\r\n+a3\r\n", "a2 *\n");
		assert_guest(&all.guest[1], "$2\r\nb1\r\n-ERR b3\r\n",
		             "b1 $\nerror b3 -ERR b3\r\nb3 -\n");
		assert_guest(&all.guest[2], "+c1\r\n+c2\r\n", "");
		for (size_t i = 0; i < NGUESTS; i++)
			assert_int_equal(all.guest[i].user.inflight, 0);
		see_off(&all);
	}
}

static void reply_that_is_hushed_is_swallowed(void **state)
{
	static const char stream[] = "*2\r\n$2\r\na2\r\n+x\r\n+b1\r\n:3\r\n";
	struct fixture *f = *state;
	struct guests all;

	AT_EVERY_SPLIT(stream, cut)
	{
		invite(&all, f, NULL);
		ask(&all, 0, LINK_DISCARD | LINK_NOTIFY, "a1");
		ask(&all, 0, LINK_NOTIFY, "a2");
		ask(&all, 1, LINK_PASS, NULL);
		ask(&all, 0, LINK_NOTIFY, "a3");
		server_sends(f, SLICE_LIT("$-1\r\n"));
		link_discard_head(&all.guest[0].user);
		server_sends_split(f, SLICE_LIT(stream), cut);
		assert_guest(&all.guest[0], ":3\r\n", "a1 $\na3 :\n");
		assert_guest(&all.guest[1], "+b1\r\n", "");
		assert_int_equal(all.guest[0].user.inflight, 0);
		see_off(&all);
	}
}

static void replies_to_who_has_left_are_swallowed(void **state)
{
	static const char stream[] = "+a1\r\n+b1\r\n$2\r\nb2\r\n-ERR b3\r\n+c1\r\n+a2\r\n";
	struct fixture *f = *state;
	struct guests all;

	AT_EVERY_SPLIT(stream, cut)
	{
		invite(&all, f, NULL);
		ask(&all, 0, LINK_PASS, NULL);
		ask(&all, 1, LINK_PASS, NULL);
		ask(&all, 1, LINK_NOTIFY | LINK_CAPTURE, "b2");
		ask(&all, 1, LINK_NOTIFY | LINK_INTERCEPT, "b3");
		ask(&all, 2, LINK_NOTIFY, "c1");
		ask(&all, 0, LINK_PASS, NULL);
		link_leave(&all.guest[1].user);
		link_leave(&all.guest[1].user);
		assert_int_equal(link_users(f->link), NGUESTS - 1);
		server_sends_split(f, SLICE_LIT(stream), cut);
		assert_guest(&all.guest[0], "+a1\r\n+a2\r\n", "");
		assert_guest(&all.guest[1], "", "");
		assert_guest(&all.guest[2], "+c1\r\n", "c1 +\n");
		see_off(&all);
	}
}

/* What has arrived of the reply was its own; not a byte of the rest is anybody else's. */
static void who_leaves_in_the_middle_of_a_reply_hears_no_more_of_it(void **state)
{
	static const char reply[] = "*2\r\n$5\r\nhello\r\n$5\r\nworld\r\n";
	struct fixture *f = *state;
	struct guests all;

	for (size_t cut = 1; cut < sizeof(reply) - 1; cut++) {
		invite(&all, f, NULL);
		ask(&all, 0, LINK_NOTIFY, "a1");
		ask(&all, 0, LINK_PASS, NULL);
		ask(&all, 1, LINK_PASS, NULL);
		server_sends(f, slice_of(reply, cut));
		assert_int_equal(buf_len(&all.guest[0].bytes), cut);
		link_leave(&all.guest[0].user);
		server_sends(f, slice_of(reply + cut, sizeof(reply) - 1 - cut));
		SERVER_SENDS(f, "+a2\r\n+b1\r\n");
		assert_int_equal(buf_len(&all.guest[0].bytes), cut);
		assert_buf(&all.guest[0].told, "");
		assert_guest(&all.guest[1], "+b1\r\n", "");
		see_off(&all);
	}
}

static void a_user_can_leave_in_its_callback(void **state)
{
	struct fixture *f = *state;
	struct guests all;

	invite(&all, f, NULL);
	all.guest[0].leaves_on = "a1";
	ask(&all, 0, LINK_NOTIFY, "a1");
	ask(&all, 0, LINK_PASS, NULL);
	ask(&all, 1, LINK_PASS, NULL);
	SERVER_SENDS(f, "+a1\r\n+a2\r\n+b1\r\n");
	assert_guest(&all.guest[0], "+a1\r\n", "a1 +\n");
	assert_guest(&all.guest[1], "+b1\r\n", "");
	see_off(&all);
}

/* Who comes back is another user, as far as its old requests are concerned. */
static void who_comes_back_does_not_get_the_replies_of_before(void **state)
{
	struct fixture *f = *state;
	struct guests all;

	invite(&all, f, NULL);
	ask(&all, 0, LINK_PASS, NULL);
	link_leave(&all.guest[0].user);
	link_join(f->link, &all.guest[0].user);
	ask(&all, 0, LINK_PASS, NULL);
	assert_int_equal(all.guest[0].user.inflight, 1);
	SERVER_SENDS(f, "+before\r\n+now\r\n");
	assert_guest(&all.guest[0], "+now\r\n", "");
	see_off(&all);
}

static void pushes_on_a_shared_link_are_nobodys(void **state)
{
	struct fixture *f = *state;
	struct guests all;

	invite(&all, f, NULL);
	ask(&all, 0, LINK_PASS, NULL);
	ask(&all, 1, LINK_PASS, NULL);
	SERVER_SENDS(f, ">1\r\n+p\r\n+a1\r\n>1\r\n+q\r\n+b1\r\n");
	assert_guest(&all.guest[0], "+a1\r\n", "");
	assert_guest(&all.guest[1], "+b1\r\n", "");
	see_off(&all);
}

static void who_waits_for_idle_is_told_behind_its_last_byte(void **state)
{
	static const char stream[] = "+a1\r\n+b1\r\n+a2\r\n+b2\r\n";
	struct fixture *f = *state;
	struct guests all;

	AT_EVERY_SPLIT(stream, cut)
	{
		invite(&all, f, NULL);
		ask(&all, 0, LINK_PASS, NULL);
		ask(&all, 1, LINK_PASS, NULL);
		ask(&all, 0, LINK_PASS, NULL);
		ask(&all, 1, LINK_PASS, NULL);
		all.guest[0].user.await_idle = true;
		server_sends_split(f, SLICE_LIT(stream), cut);
		assert_guest(&all.guest[0], "+a1\r\n+a2\r\n", "idle after 10 bytes\n");
		assert_guest(&all.guest[1], "+b1\r\n+b2\r\n", "");
		/* Once only. */
		ask(&all, 0, LINK_PASS, NULL);
		SERVER_SENDS(f, "+a3\r\n");
		assert_int_equal(all.guest[0].nidle, 1);
		see_off(&all);
	}
}

static void a_link_that_breaks_tells_each_user_what_it_had_in_flight(void **state)
{
	struct fixture *f = *state;
	struct guests all;

	invite(&all, f, NULL);
	ask(&all, 0, LINK_PASS, NULL);
	ask(&all, 0, LINK_PASS, NULL);
	ask(&all, 1, LINK_NOTIFY, "b1");
	ask(&all, 0, LINK_NOTIFY, "a3");
	assert_int_equal(send(f->server, "+a1\r\n+a", 7, MSG_NOSIGNAL), 7);
	hang_up(f);
	settle(f);
	assert_guest(&all.guest[0], "+a1\r\n+a", "");
	for (size_t i = 0; i < NGUESTS; i++) {
		assert_int_equal(all.guest[i].ndown, 1);
		/* The one whose reply it was, and nobody else. */
		assert_int_equal(all.guest[i].end, i == 0 ? LINK_CUT : LINK_BROKEN);
	}
	assert_int_equal(all.guest[0].inflight, 2);
	assert_int_equal(all.guest[1].inflight, 1);
	assert_int_equal(all.guest[2].inflight, 0);
	see_off(&all);
}

/* --- what is queued ----------------------------------------------------------- */

static size_t count_server_reads(struct fixture *f)
{
	char got[8192];

	return server_reads(f, got, sizeof(got));
}

static void what_is_queued_leaves_at_the_turns_end(void **state)
{
	struct fixture *f = *state;
	char bytes[4096] = "";

	connect_link(f);
	link_queue(f->link, slice_of(bytes, sizeof(bytes)));
	assert_int_equal(count_server_reads(f), 0);
	settle(f);
	assert_int_equal(count_server_reads(f), sizeof(bytes));
}

static void a_few_calls_do_not_wait_for_the_turns_end(void **state)
{
	struct fixture *f = *state;
	char call[256] = "";

	connect_link(f);
	for (int i = 0; i < 15; i++)
		link_queue_call(f->link, slice_of(call, sizeof(call)));
	assert_int_equal(count_server_reads(f), 0);
	link_queue_call(f->link, slice_of(call, sizeof(call)));
	assert_int_equal(count_server_reads(f), 16 * sizeof(call));
	link_queue_call(f->link, slice_of(call, sizeof(call)));
	assert_int_equal(count_server_reads(f), 0);
	settle(f);
	assert_int_equal(count_server_reads(f), sizeof(call));
}

/* --- logging in --------------------------------------------------------------- */

static const struct link_login alice = {
	.db = 3,
	.proto = 2,
	.user = "alice",
	.password = "wonder",
	.name = "app",
};

#define ALICE                                                                                  \
	"*3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$6\r\nwonder\r\n"                                  \
	"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$3\r\napp\r\n*2\r\n$6\r\nSELECT\r\n$"          \
	"1\r\n3\r\n"

static void assert_server_reads(struct fixture *f, const char *expected)
{
	char got[512];
	size_t n;

	settle(f);
	n = server_reads(f, got, sizeof(got));
	if (!slice_eq(slice_of(got, n), slice_str(expected)))
		fail_msg("\"%.*s\" was sent instead of \"%s\"", (int)n, got, expected);
}

static void nothing_is_sent_before_the_login_is_accepted(void **state)
{
	struct fixture *f = *state;
	struct guests all;

	invite(&all, f, &alice);
	link_queue(f->link, SLICE_LIT("GET a\r\n"));
	ask(&all, 0, LINK_PASS, NULL);
	link_send(f->link, SLICE_LIT("GET b\r\n"));
	ask(&all, 1, LINK_PASS, NULL);
	assert_server_reads(f, ALICE);
	SERVER_SENDS(f, "+OK\r\n+OK\r\n");
	assert_server_reads(f, "");
	SERVER_SENDS(f, "+OK\r\n");
	assert_server_reads(f, "GET a\r\nGET b\r\n");
	link_send(f->link, SLICE_LIT("GET c\r\n"));
	ask(&all, 0, LINK_PASS, NULL);
	assert_server_reads(f, "GET c\r\n");
	SERVER_SENDS(f, "+1\r\n+2\r\n+3\r\n");
	assert_guest(&all.guest[0], "+1\r\n+3\r\n", "");
	assert_guest(&all.guest[1], "+2\r\n", "");
	see_off(&all);
}

static void a_login_that_is_refused_is_told_and_nothing_is_sent(void **state)
{
	struct fixture *f = *state;
	struct guests all;

	for (int accepted = 0; accepted < 3; accepted++) {
		invite(&all, f, &alice);
		link_send(f->link, SLICE_LIT("FLUSHALL\r\n"));
		ask(&all, 0, LINK_PASS, NULL);
		for (int i = 0; i < accepted; i++)
			SERVER_SENDS(f, "+OK\r\n");
		SERVER_SENDS(f, "-WRONGPASS invalid pair\r\n");
		assert_server_reads(f, ALICE);
		for (size_t i = 0; i < NGUESTS; i++) {
			assert_int_equal(all.guest[i].ndown, 1);
			assert_int_equal(all.guest[i].end, LINK_REFUSED);
			assert_string_equal(all.guest[i].reason, "WRONGPASS invalid pair");
			assert_guest(&all.guest[i], "", "");
		}
		assert_int_equal(all.guest[0].inflight, 1);
		assert_int_equal(all.guest[1].inflight, 0);
		see_off(&all);
	}
}

static void who_leaves_before_the_login_is_accepted_hears_nothing(void **state)
{
	struct fixture *f = *state;
	struct guests all;

	invite(&all, f, &alice);
	link_send(f->link, SLICE_LIT("GET a\r\nGET b\r\n"));
	ask(&all, 0, LINK_PASS, NULL);
	ask(&all, 1, LINK_PASS, NULL);
	link_leave(&all.guest[0].user);
	SERVER_SENDS(f, "+OK\r\n+OK\r\n+OK\r\n+1\r\n+2\r\n");
	assert_guest(&all.guest[0], "", "");
	assert_guest(&all.guest[1], "+2\r\n", "");
	see_off(&all);
}

static void each_login_is_said_as_redis_knows_it(void **state)
{
	static const struct {
		struct link_login login;
		const char *sent;
	} cases[] = {
		{ { .proto = 2, .password = "pw" }, "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n" },
		{ { .proto = 2, .user = "u", .password = "" },
		  "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$0\r\n\r\n" },
		{ { .proto = 3 }, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" },
		/* HELLO sets the name of those, too, whom CLIENT is forbidden. */
		{ { .proto = 3, .password = "pw", .name = "n" },
		  "*7\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$2\r\npw\r\n"
		  "$7\r\nSETNAME\r\n$1\r\nn\r\n" },
		{ { .proto = 2, .db = 15 }, "*2\r\n$6\r\nSELECT\r\n$2\r\n15\r\n" },
	};
	struct fixture *f = *state;
	struct guests all;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		invite(&all, f, &cases[i].login);
		assert_server_reads(f, cases[i].sent);
		see_off(&all);
	}
}

static void a_half_close_waits_for_what_the_login_holds_back(void **state)
{
	struct fixture *f = *state;
	struct guests all;
	char got[16];

	invite(&all, f, &alice);
	link_send(f->link, SLICE_LIT("GET a\r\n"));
	ask(&all, 0, LINK_PASS, NULL);
	link_shutdown(f->link);
	assert_server_reads(f, ALICE);
	SERVER_SENDS(f, "+OK\r\n+OK\r\n+OK\r\n");
	assert_server_reads(f, "GET a\r\n");
	assert_int_equal(recv(f->server, got, sizeof(got), MSG_DONTWAIT), 0);
	SERVER_SENDS(f, "+1\r\n");
	assert_guest(&all.guest[0], "+1\r\n", "");
	see_off(&all);
}

/* --- opaque ----------------------------------------------------------------- */

static void an_opaque_link_forwards_what_it_does_not_understand(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_DISCARD, NULL);
	link_make_opaque(f->link);
	assert_int_equal(f->user.inflight, 0);
	expect(f, LINK_NOTIFY, "b");
	assert_int_equal(f->user.inflight, 0);
	SERVER_SENDS(f, "+1\r\n\n\n$EOF:not RESP");
	assert_seen(f, "+1\r\n\n\n$EOF:not RESP", "");
	assert_int_equal(f->ndown, 0);
}

static void touch_and_turn(struct fixture *f)
{
	link_ping(f->link);
	expect(f, LINK_NOTIFY, "a");
	link_make_opaque(f->link);
}

/* Its owner must not see the answer to what it did not ask. */
static void a_link_turns_opaque_behind_its_own_requests(void **state)
{
	struct fixture *f = *state;

	SEES(f, touch_and_turn, "+PONG\r\n+OK\r\nno RESP\r\n", "+OK\r\nno RESP\r\n", "");
}

static void hush_and_turn(struct fixture *f)
{
	expect(f, LINK_DISCARD, NULL);
	expect(f, LINK_DISCARD, NULL);
	expect(f, LINK_NOTIFY, "a");
	link_make_opaque(f->link);
}

static void a_link_turns_opaque_behind_what_nobody_is_to_see(void **state)
{
	struct fixture *f = *state;

	SEES(f, hush_and_turn, ":0\r\n:1\r\n+OK\r\nno RESP\r\n", "+OK\r\nno RESP\r\n", "");
	assert_int_equal(f->user.inflight, 0);
}

static void expect_the_turn(struct fixture *f)
{
	f->turns_opaque_on_reply = true;
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_DISCARD | LINK_NOTIFY, "b");
}

static void a_link_can_turn_opaque_inside_its_callback(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_the_turn, "+1\r\n+2\r\nno RESP\r\n", "+1\r\n+2\r\nno RESP\r\n",
	     "reply a +\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(replies_are_forwarded_as_they_are),
		TEST(a_reply_is_forwarded_before_it_is_whole),
		TEST(each_reply_is_told_to_whom_it_answers),
		TEST(requests_in_flight_are_counted),
		TEST(the_order_holds_for_any_depth_of_pipeline),
		TEST(a_reply_to_be_kept_is_collected_and_forwarded),
		TEST(a_quiet_reply_is_not_forwarded),
		TEST(an_answer_is_told_of_before_it_is_forwarded),
		TEST(a_reply_too_long_to_be_kept_is_forwarded_all_the_same),
		TEST(an_error_is_forwarded_when_the_owner_says_so),
		TEST(an_error_that_the_owner_drops_is_as_if_it_never_came),
		TEST(an_error_is_held_until_it_is_whole),
		TEST(what_is_no_error_is_not_held),
		TEST(a_status_that_is_asked_about_is_forwarded_when_the_owner_says_so),
		TEST(a_status_that_the_owner_drops_is_as_if_it_never_came),
		TEST(a_push_is_forwarded_and_answers_nothing),
		TEST(a_published_message_answers_nothing_while_watched),
		TEST(nothing_but_pushes_is_asked_about_while_not_watched),
		TEST(the_oldest_request_can_be_taken_off),
		TEST(a_server_that_hangs_up_takes_the_link_down),
		TEST(a_link_that_goes_down_between_two_replies_has_cut_none),
		TEST(what_is_not_forwarded_is_not_cut),
		TEST(an_error_held_back_goes_down_with_the_link),
		TEST(a_connection_that_is_reset_says_so),
		TEST(garbage_takes_the_link_down_behind_the_last_good_reply),
		TEST(a_link_that_is_closed_tells_nothing_more),
		TEST(a_link_can_be_closed_inside_its_callback),
		TEST(a_socket_that_is_missing_is_told),
		TEST(a_path_too_long_for_a_socket_is_told),
		TEST(a_socket_without_a_listener_is_told),
		TEST(a_port_without_a_listener_is_told),
		TEST(a_link_that_was_full_while_it_logged_in_says_when_it_is_not),
		TEST(what_is_sent_before_the_connection_is_up_waits_for_it),
		TEST(a_link_can_be_closed_while_it_connects),
		TEST(what_the_server_does_not_read_waits),
		TEST(shutting_down_ends_what_is_sent_and_not_what_is_read),
		TEST(a_paused_link_reads_nothing),
		TEST(a_link_can_be_paused_before_it_is_up),
		TEST(each_user_gets_the_replies_to_its_own_requests),
		TEST(reply_that_is_hushed_is_swallowed),
		TEST(replies_to_who_has_left_are_swallowed),
		TEST(who_leaves_in_the_middle_of_a_reply_hears_no_more_of_it),
		TEST(a_user_can_leave_in_its_callback),
		TEST(who_comes_back_does_not_get_the_replies_of_before),
		TEST(pushes_on_a_shared_link_are_nobodys),
		TEST(who_waits_for_idle_is_told_behind_its_last_byte),
		TEST(a_link_that_breaks_tells_each_user_what_it_had_in_flight),
		TEST(what_is_queued_leaves_at_the_turns_end),
		TEST(a_few_calls_do_not_wait_for_the_turns_end),
		TEST(nothing_is_sent_before_the_login_is_accepted),
		TEST(a_login_that_is_refused_is_told_and_nothing_is_sent),
		TEST(who_leaves_before_the_login_is_accepted_hears_nothing),
		TEST(each_login_is_said_as_redis_knows_it),
		TEST(a_half_close_waits_for_what_the_login_holds_back),
		TEST(an_opaque_link_forwards_what_it_does_not_understand),
		TEST(a_link_can_turn_opaque_inside_its_callback),
		TEST(a_link_turns_opaque_behind_its_own_requests),
		TEST(a_link_turns_opaque_behind_what_nobody_is_to_see),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
