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
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "upstream/link.h"

#define DEADLINE_SECONDS 20.0

struct fixture {
	struct ev_loop *loop;
	struct stream_flusher flusher;
	struct link_env env;
	char dir[64];
	int listener;
	int server; /* the server's end; -1: not accepted, or closed */
	struct link *link; /* NULL: never was, or freed */
	struct link_user user;

	/* What the owner was told. */
	struct buf bytes;
	struct buf told; /* "reply TAG TYPE[ KEPT]", "error TAG LINE", "frame TYPE" ... lines */
	unsigned ndrained;
	unsigned ndown;
	bool was_up;
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

static void on_reply(void *owner, void *tag, const struct resp_reply *r, struct slice kept)
{
	struct fixture *f = owner;

	buf_printf(&f->told, "reply %s %c%s%.*s\n", tag ? (char *)tag : "-", r->type,
	           kept.n ? " " : "", (int)kept.n, kept.n ? kept.p : "");
	if (f->closes_on_reply)
		link_close(f->link);
	if (f->turns_opaque_on_reply)
		link_make_opaque(f->link);
}

static bool on_error(void *owner, void *tag, struct slice line)
{
	struct fixture *f = owner;

	buf_printf(&f->told, "error %s %.*s\n", (char *)tag, (int)line.n, line.p);
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
	f->was_up = end == LINK_BROKEN;
	f->inflight = inflight;
	snprintf(f->reason, sizeof(f->reason), "%s", reason);
}

static const struct link_ops ops = {
	.on_bytes = on_bytes,
	.on_reply = on_reply,
	.on_error = on_error,
	.on_frame = on_frame,
	.on_drained = on_drained,
	.on_down = on_down,
};

/* --- set up ------------------------------------------------------------------- */

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	f->loop = ev_loop_new(EVFLAG_AUTO);
	stream_flusher_init(&f->flusher, f->loop);
	strcpy(f->dir, "/tmp/hasp-link-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/s", f->dir);
	f->server = -1;
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(f->listener, 8), 0);
	list_init(&f->env.dead);
	f->env.flusher = &f->flusher;
	f->env.dialer = (struct dialer){ .loop = f->loop, .timeout_ms = 10000 };
	f->env.address.local = true;
	strcpy(f->env.address.host, sun.sun_path);
	f->env.scratch_size = 64 * 1024;
	f->env.scratch = malloc(f->env.scratch_size);
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
	links_reap(&f->env);
	f->link = NULL;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char path[128];

	free_link(f);
	hang_up(f);
	close(f->listener);
	snprintf(path, sizeof(path), "%s/s", f->dir);
	unlink(path);
	rmdir(f->dir);
	stream_flusher_fini(&f->flusher);
	ev_loop_destroy(f->loop);
	buf_release(&f->bytes);
	buf_release(&f->told);
	free(f->env.scratch);
	free(f);
	return 0;
}

/* Lets the loop do what is to be done now. */
static void settle(struct fixture *f)
{
	for (int i = 0; i < 4; i++)
		ev_run(f->loop, EVRUN_NOWAIT);
}

static void on_deadline(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
	fail_msg("nothing happened for %d seconds", (int)DEADLINE_SECONDS);
}

/* Runs the loop until something happened and fails when nothing does. */
static void turn(struct fixture *f)
{
	struct ev_timer deadline;

	ev_timer_init(&deadline, on_deadline, DEADLINE_SECONDS, 0);
	ev_timer_start(f->loop, &deadline);
	ev_run(f->loop, EVRUN_ONCE);
	ev_timer_stop(f->loop, &deadline);
}

static void begin(struct fixture *f)
{
	link_user_init(&f->user, &ops, f);
	f->link = link_new(&f->env, false, NULL);
	link_join(f->link, &f->user);
}

/* Connected, and accepted by the server. */
static void connect_link(struct fixture *f)
{
	begin(f);
	f->server = accept(f->listener, NULL, NULL);
	assert_true(f->server >= 0);
	while (f->ndrained == 0 && f->ndown == 0)
		turn(f);
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
		fail_msg("\"%.*s\" instead of \"%s\"", (int)buf_len(b), b->data, expected);
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
	expect(f, LINK_TELL, "a");
	SERVER_SENDS(f, "$1000\r\nabc");
	assert_seen(f, "$1000\r\nabc", "");
	assert_int_equal(f->user.inflight, 1);
}

static void expect_a_mix(struct fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_TELL, "a");
	expect(f, LINK_TELL, "b");
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_TELL, "c");
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
			expect(f, sent % 5 < 2 ? LINK_PASS : LINK_TELL, tags[sent]);
		for (unsigned n = seed >> 24 & 31; n && answered < sent; n--, answered++) {
			SERVER_SENDS(f, ":1\r\n");
			if (answered % 5 >= 2)
				buf_printf(&expected, "reply %s :\n", tags[answered]);
		}
		assert_int_equal(f->user.inflight, sent - answered);
	}
	buf_append(&expected, slice_of("", 1));
	assert_buf(&f->told, expected.data);
	buf_release(&expected);
}

static void expect_kept(struct fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_TELL | LINK_KEEP, "k");
	expect(f, LINK_TELL, "t");
	expect(f, LINK_TELL | LINK_KEEP, "l");
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
	expect(f, LINK_QUIET, NULL);
	expect(f, LINK_TELL | LINK_QUIET, "a");
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_TELL | LINK_QUIET | LINK_KEEP, "b");
}

static void a_quiet_reply_is_not_forwarded(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_quiet, "+1\r\n$3\r\n222\r\n-3\r\n*1\r\n:4\r\n+5\r\n",
	     "+1\r\n*1\r\n:4\r\n", "reply a -\nreply b + +5\r\n\n");
}

static void a_reply_too_long_to_be_kept_is_forwarded_all_the_same(void **state)
{
	struct fixture *f = *state;
	size_t left = LINK_KEEP_MAX + 1, total;
	char block[32768], header[32];

	memset(block, 'x', sizeof(block));
	connect_link(f);
	expect(f, LINK_TELL | LINK_KEEP, "long");
	expect(f, LINK_TELL | LINK_KEEP, "short");
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
	expect(f, LINK_TELL | LINK_ASK, "a");
	expect(f, LINK_TELL | LINK_ASK, "b");
	expect(f, LINK_PASS, NULL);
}

static void an_error_is_forwarded_when_the_owner_says_so(void **state)
{
	struct fixture *f = *state;

	SEES(f, expect_asked, "-1\r\n-ERR 2\r\n:3\r\n-4\r\n", "-1\r\n-ERR 2\r\n:3\r\n-4\r\n",
	     "error a -ERR 2\r\n\nreply a -\nreply b :\n");
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
	     "error a -NOSCRIPT 2\r\n\nreply b :\n");
}

static void an_error_is_held_until_it_is_whole(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_TELL | LINK_ASK, "a");
	SERVER_SENDS(f, "-ERR a long");
	assert_seen(f, "", "");
	SERVER_SENDS(f, " story\r\n");
	assert_seen(f, "-ERR a long story\r\n", "error a -ERR a long story\r\n\nreply a -\n");
}

static void what_is_no_error_is_not_held(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_TELL | LINK_ASK, "a");
	SERVER_SENDS(f, "$9\r\nab");
	assert_seen(f, "$9\r\nab", "");
}

/* --- frames that answer nothing ------------------------------------------------ */

static void expect_with_pushes(struct fixture *f)
{
	f->takes_frames = true;
	expect(f, LINK_TELL, "a");
	expect(f, LINK_TELL | LINK_QUIET, "b");
	expect(f, LINK_TELL | LINK_KEEP, "c");
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
	expect(f, LINK_TELL, "a");
	expect(f, LINK_TELL | LINK_KEEP, "b");
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
	expect(f, LINK_TELL, "a");
	SERVER_SENDS(f, "*1\r\n$7\r\nmessage\r\n");
	assert_buf(&f->told, "reply a *\n");
}

/* An acknowledgement may be the last thing that a request waits for. */
static void the_oldest_request_can_be_taken_off(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_TELL, "a");
	expect(f, LINK_TELL, "b");
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
	expect(f, LINK_TELL, "a");
	expect(f, LINK_TELL, "b");
	assert_int_equal(send(f->server, "+1\r\n$5\r\nab", 10, MSG_NOSIGNAL), 10);
	hang_up(f);
	settle(f);
	assert_int_equal(f->ndown, 1);
	assert_true(f->was_up);
	assert_string_equal(f->reason, "closed by the server");
	assert_seen(f, "+1\r\n$5\r\nab", "reply a +\n");
}

/* Nobody may take the half of it for the whole. */
static void an_error_held_back_goes_down_with_the_link(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_TELL | LINK_ASK, "a");
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
	assert_true(f->was_up);
	assert_string_equal(f->reason, strerror(ECONNRESET));
}

static void garbage_takes_the_link_down_behind_the_last_good_reply(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_TELL, "a");
	expect(f, LINK_TELL, "b");
	SERVER_SENDS(f, "+1\r\n*2\r\n+x\r\nHTTP/1.1 400 Bad Request\r\n");
	assert_int_equal(f->ndown, 1);
	assert_true(f->was_up);
	assert_string_equal(f->reason, "it sent bytes that are no RESP reply");
	assert_seen(f, "+1\r\n", "reply a +\n");
}

static void a_link_that_is_closed_tells_nothing_more(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_TELL, "a");
	expect(f, LINK_TELL, "b");
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
	expect(f, LINK_TELL, "a");
	expect(f, LINK_TELL, "b");
	SERVER_SENDS(f, "+1\r\n>1\r\n+p\r\n+2\r\n");
	assert_buf(&f->told, "reply a +\n");
	assert_int_equal(f->ndown, 0);
}

/* --- connecting ------------------------------------------------------------- */

static void assert_fails(struct fixture *f, const char *reason)
{
	begin(f);
	expect(f, LINK_TELL, "a");
	link_send(f->link, SLICE_LIT("PING\r\n"));
	assert_int_equal(f->ndown, 0);
	while (f->ndown == 0)
		turn(f);
	settle(f);
	assert_int_equal(f->ndown, 1);
	assert_false(f->was_up);
	assert_string_equal(f->reason, reason);
	assert_seen(f, "", "");
}

static void a_socket_that_is_missing_is_told(void **state)
{
	struct fixture *f = *state;

	strcat(f->env.address.host, "/no");
	assert_fails(f, strerror(ENOTDIR));
	free_link(f);
	f->ndown = 0;
	snprintf(f->env.address.host, sizeof(f->env.address.host), "%s/no", f->dir);
	assert_fails(f, strerror(ENOENT));
}

static void a_path_too_long_for_a_socket_is_told(void **state)
{
	struct fixture *f = *state;

	memset(f->env.address.host, 'x', 200);
	f->env.address.host[200] = '\0';
	assert_fails(f, strerror(ENAMETOOLONG));
}

static void a_socket_without_a_listener_is_told(void **state)
{
	struct fixture *f = *state;

	close(f->listener);
	f->listener = -1;
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
	f->env.address = (struct address){ .host = "127.0.0.1" };
	snprintf(f->env.address.port, sizeof(f->env.address.port), "%d", ntohs(sin.sin_port));
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
	f->link = link_new(&f->env, false, &login);
	link_join(f->link, &f->user);
	f->server = accept(f->listener, NULL, NULL);
	while (server_reads(f, got, sizeof(got)) == 0)
		turn(f);
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
	f->server = accept(f->listener, NULL, NULL);
	while (f->ndrained == 0)
		turn(f);
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
	expect(f, LINK_TELL, "a");
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
	expect(f, LINK_TELL, "a");
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
	f->server = accept(f->listener, NULL, NULL);
	while (f->ndrained == 0)
		turn(f);
	SERVER_SENDS(f, "+1\r\n");
	assert_seen(f, "", "");
	link_resume(f->link);
	settle(f);
	assert_seen(f, "+1\r\n", "");
}

/* --- opaque ----------------------------------------------------------------- */

static void an_opaque_link_forwards_what_it_does_not_understand(void **state)
{
	struct fixture *f = *state;

	connect_link(f);
	expect(f, LINK_TELL, "a");
	expect(f, LINK_QUIET, NULL);
	link_make_opaque(f->link);
	assert_int_equal(f->user.inflight, 0);
	expect(f, LINK_TELL, "b");
	assert_int_equal(f->user.inflight, 0);
	SERVER_SENDS(f, "+1\r\n\n\n$EOF:not RESP");
	assert_seen(f, "+1\r\n\n\n$EOF:not RESP", "");
	assert_int_equal(f->ndown, 0);
}

static void expect_the_turn(struct fixture *f)
{
	f->turns_opaque_on_reply = true;
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_TELL, "a");
	expect(f, LINK_QUIET | LINK_TELL, "b");
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
		TEST(a_reply_too_long_to_be_kept_is_forwarded_all_the_same),
		TEST(an_error_is_forwarded_when_the_owner_says_so),
		TEST(an_error_that_the_owner_drops_is_as_if_it_never_came),
		TEST(an_error_is_held_until_it_is_whole),
		TEST(what_is_no_error_is_not_held),
		TEST(a_push_is_forwarded_and_answers_nothing),
		TEST(a_published_message_answers_nothing_while_watched),
		TEST(nothing_but_pushes_is_asked_about_while_not_watched),
		TEST(the_oldest_request_can_be_taken_off),
		TEST(a_server_that_hangs_up_takes_the_link_down),
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
		TEST(an_opaque_link_forwards_what_it_does_not_understand),
		TEST(a_link_can_turn_opaque_inside_its_callback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
