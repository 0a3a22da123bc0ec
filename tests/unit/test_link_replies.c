/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a link's replies: each answers the request that it belongs to, and reaches the owner
 * in the form that the owner chose, however its bytes arrive.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/link_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(set_up, tear_down);

/* --- replies ---------------------------------------------------------------- */

static void expect_passed(struct link_fixture *f)
{
	for (int i = 0; i < 3; i++)
		expect(f, LINK_PASS, NULL);
}

TEST(replies_are_forwarded_as_they_are)
{
	SEES(f, expect_passed, "+OK\r\n-ERR no\r\n*2\r\n$1\r\na\r\n$-1\r\n",
	     "+OK\r\n-ERR no\r\n*2\r\n$1\r\na\r\n$-1\r\n", "");
}

TEST_CONNECTED(a_reply_is_forwarded_before_it_is_whole)
{
	expect(f, LINK_NOTIFY, "a");
	SERVER_SENDS(f, "$1000\r\nabc");
	assert_seen(f, "$1000\r\nabc", "");
	assert_int_equal(f->user.inflight, 1);
}

static void expect_a_transaction(struct link_fixture *f)
{
	expect(f, LINK_NOTIFY | LINK_NOTIFY_FIRST, "multi");
	expect(f, LINK_INTERCEPT, "queued");
	expect(f, LINK_INTERCEPT, "refused");
	expect(f, LINK_NOTIFY, "exec");
}

#define TRANSACTION "+OK\r\n+QUEUED\r\n-ERR no\r\n-EXECABORT\r\n"

TEST_CONNECTED(a_reply_that_calls_back_first_leaves_with_the_next)
{
	SEES(f, expect_a_transaction, TRANSACTION, TRANSACTION,
	     "reply multi +\nasked refused -ERR no\r\n\nreply exec -\n");
	expect(f, LINK_NOTIFY | LINK_NOTIFY_FIRST, "multi");
	expect(f, LINK_INTERCEPT, NULL);
	expect(f, LINK_NOTIFY, "exec");
	f->npieces = 0;
	SERVER_SENDS(f, "+OK\r\n+QUEUED\r\n*0\r\n");
	assert_int_equal(f->npieces, 1);
}

static void expect_a_mix(struct link_fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY, "c");
}

TEST(each_reply_is_told_to_whom_it_answers)
{
	SEES(f, expect_a_mix, "+1\r\n:2\r\n-3\r\n$1\r\n4\r\n*1\r\n:5\r\n_\r\n",
	     "+1\r\n:2\r\n-3\r\n$1\r\n4\r\n*1\r\n:5\r\n_\r\n",
	     "reply a -\nreply b $\nreply c _\n");
}

TEST_CONNECTED(requests_in_flight_are_counted)
{
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
TEST_CONNECTED(the_order_holds_for_any_depth_of_pipeline)
{
	char tags[500][8];
	struct buf expected = BUF_INIT;
	size_t sent = 0, answered = 0;
	unsigned seed = 7;

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

static void expect_kept(struct link_fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_CAPTURE, "k");
	expect(f, LINK_NOTIFY, "t");
	expect(f, LINK_NOTIFY | LINK_CAPTURE, "l");
}

TEST(a_reply_to_be_kept_is_collected_and_forwarded)
{
	SEES(f, expect_kept, "+1\r\n*2\r\n:1\r\n$2\r\nab\r\n+3\r\n-4\r\n",
	     "+1\r\n*2\r\n:1\r\n$2\r\nab\r\n+3\r\n-4\r\n",
	     "reply k * *2\r\n:1\r\n$2\r\nab\r\n\nreply t +\nreply l - -4\r\n\n");
}

static void expect_quiet(struct link_fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_DISCARD, NULL);
	expect(f, LINK_NOTIFY | LINK_DISCARD, "a");
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_DISCARD | LINK_CAPTURE, "b");
}

TEST(a_quiet_reply_is_not_forwarded)
{
	SEES(f, expect_quiet, "+1\r\n$3\r\n222\r\n-3\r\n*1\r\n:4\r\n+5\r\n",
	     "+1\r\n*1\r\n:4\r\n", "reply a -\nreply b + +5\r\n\n");
}

static void expect_soon(struct link_fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_NOTIFY_EARLY, "a");
}

/* A reply is reported when it is complete; its bytes are forwarded as they arrive. */
TEST_CONNECTED(an_answer_is_told_of_before_it_is_forwarded)
{
	expect_soon(f);
	SERVER_SENDS(f, "+1\r\n:2\r\n");
	assert_buf(&f->bytes, "+1\r\n:2\r\n");
	assert_buf(&f->told, "answered a :\nreply a :\n");
}

TEST(a_reply_too_long_to_be_kept_is_forwarded_all_the_same)
{
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

static void expect_asked(struct link_fixture *f)
{
	f->drops_errors = false;
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "a");
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "b");
	expect(f, LINK_PASS, NULL);
}

TEST(an_error_is_forwarded_when_the_owner_says_so)
{
	SEES(f, expect_asked, "-1\r\n-ERR 2\r\n:3\r\n-4\r\n", "-1\r\n-ERR 2\r\n:3\r\n-4\r\n",
	     "asked a -ERR 2\r\n\nreply a -\nreply b :\n");
}

static void expect_dropped(struct link_fixture *f)
{
	expect_asked(f);
	f->drops_errors = true;
}

TEST(an_error_that_the_owner_drops_is_as_if_it_never_came)
{
	SEES(f, expect_dropped, "-1\r\n-NOSCRIPT 2\r\n:3\r\n-4\r\n", "-1\r\n:3\r\n-4\r\n",
	     "asked a -NOSCRIPT 2\r\n\nreply b :\n");
}

TEST_CONNECTED(an_error_is_held_until_it_is_whole)
{
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "a");
	SERVER_SENDS(f, "-ERR a long");
	assert_seen(f, "", "");
	SERVER_SENDS(f, " story\r\n");
	assert_seen(f, "-ERR a long story\r\n", "asked a -ERR a long story\r\n\nreply a -\n");
}

TEST_CONNECTED(an_intercepted_error_that_is_too_long_to_keep_ends_the_link)
{
	char block[32768];

	memset(block, 'x', sizeof(block));
	f->drops_errors = false;
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "a");
	SERVER_SENDS(f, "-ERR ");
	for (size_t n = 0; f->user.link && n <= LINK_CAPTURE_MAX; n += sizeof(block))
		server_sends(f, slice_of(block, sizeof(block)));
	assert_null(f->user.link);
	assert_seen(f, "", "");
	assert_int_equal(f->inflight, 1);
}

TEST_CONNECTED(what_is_no_error_is_not_held)
{
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "a");
	SERVER_SENDS(f, "$9\r\nab");
	assert_seen(f, "$9\r\nab", "");
}

static void expect_status_asked(struct link_fixture *f)
{
	f->drops_errors = false;
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, "a");
	expect(f, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, "b");
	expect(f, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, "c");
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "d");
}

#define STATUSES "+1\r\n+QUEUED 2\r\n-ERR 3\r\n:4\r\n+5\r\n"

TEST(a_status_that_is_asked_about_is_forwarded_when_the_owner_says_so)
{
	SEES(f, expect_status_asked, STATUSES, STATUSES,
	     "asked a +QUEUED 2\r\n\nreply a +\nasked b -ERR 3\r\n\nreply b -\n"
	     "reply c :\nreply d +\n");
}

static void expect_late(struct link_fixture *f)
{
	f->is_late = true;
	f->drops_errors = false;
	for (const char *const *tag = (const char *const[]){ "a", "b", "c", "d", NULL }; *tag;
	     tag++)
		expect(f, LINK_NOTIFY | LINK_INTERCEPT_LATE, *tag);
}

#define ANSWERS ":1\r\n$-1\r\n$2\r\nab\r\n*1\r\n+c\r\n"

TEST(any_reply_that_comes_late_is_asked_about)
{
	SEES(f, expect_late, ANSWERS, ANSWERS,
	     "asked a :1\r\n\nreply a :\nasked b $-1\r\n\nreply b $\n"
	     "asked c $2\r\nab\r\n\nreply c $\nasked d *1\r\n+c\r\n\nreply d *\n");
}

static void expect_late_dropped(struct link_fixture *f)
{
	expect_late(f);
	f->drops_errors = true;
	expect(f, LINK_PASS, NULL);
}

TEST(a_late_reply_that_the_owner_drops_is_as_if_it_never_came)
{
	SEES(f, expect_late_dropped, ANSWERS "+e\r\n", "+e\r\n",
	     "asked a :1\r\n\nasked b $-1\r\n\nasked c $2\r\nab\r\n\n"
	     "asked d *1\r\n+c\r\n\n");
}

TEST_CONNECTED(a_reply_in_time_is_not_asked_about_unless_its_line_may_end_late)
{
	expect(f, LINK_NOTIFY | LINK_INTERCEPT_LATE, "a");
	expect(f, LINK_NOTIFY | LINK_INTERCEPT_LATE, "b");
	SERVER_SENDS(f, ":1\r\n:2");
	assert_seen(f, ":1\r\n", "reply a :\n");
	SERVER_SENDS(f, "5\r\n");
	assert_seen(f, ":1\r\n:25\r\n", "reply a :\nasked b :25\r\n\nreply b :\n");
}

static void expect_status_dropped(struct link_fixture *f)
{
	expect_status_asked(f);
	f->drops_errors = true;
}

TEST(a_status_that_the_owner_drops_is_as_if_it_never_came)
{
	SEES(f, expect_status_dropped, STATUSES, "+1\r\n:4\r\n+5\r\n",
	     "asked a +QUEUED 2\r\n\nasked b -ERR 3\r\n\nreply c :\nreply d +\n");
}

/* --- frames that answer nothing ------------------------------------------------ */

static void expect_with_pushes(struct link_fixture *f)
{
	f->takes_frames = true;
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY | LINK_DISCARD, "b");
	expect(f, LINK_NOTIFY | LINK_CAPTURE, "c");
}

TEST(a_push_is_forwarded_and_answers_nothing)
{
	SEES(f, expect_with_pushes,
	     ">1\r\n+p\r\n+1\r\n>1\r\n+q\r\n-2\r\n>1\r\n+r\r\n:3\r\n>1\r\n+s\r\n",
	     ">1\r\n+p\r\n+1\r\n>1\r\n+q\r\n>1\r\n+r\r\n:3\r\n>1\r\n+s\r\n",
	     "frame >\nreply a +\nframe >\nreply b -\nframe >\nreply c : :3\r\n\nframe >\n");
}

static void expect_watched(struct link_fixture *f)
{
	f->takes_frames = true;
	link_watch(f->link, true);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY | LINK_CAPTURE, "b");
}

TEST(a_published_message_answers_nothing_while_watched)
{
	SEES(f, expect_watched,
	     "*1\r\n$7\r\nmessage\r\n*0\r\n*1\r\n$7\r\nmessage\r\n*1\r\n$1\r\nx\r\n",
	     "*1\r\n$7\r\nmessage\r\n*0\r\n*1\r\n$7\r\nmessage\r\n*1\r\n$1\r\nx\r\n",
	     "frame *\nreply a *\nframe *\nreply b * *1\r\n$1\r\nx\r\n\n");
}

TEST_CONNECTED(nothing_but_pushes_is_asked_about_while_not_watched)
{
	f->takes_frames = true;
	link_watch(f->link, true);
	link_watch(f->link, false);
	expect(f, LINK_NOTIFY, "a");
	SERVER_SENDS(f, "*1\r\n$7\r\nmessage\r\n");
	assert_buf(&f->told, "reply a *\n");
}

/* An acknowledgement may be the last thing that a request waits for. */
TEST_CONNECTED(the_oldest_request_can_be_taken_off)
{
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	link_drop_head(f->link);
	assert_string_equal(link_head(&f->user), "b");
	SERVER_SENDS(f, "+1\r\n");
	assert_buf(&f->told, "reply b +\n");
}

/* --- opaque ----------------------------------------------------------------- */

TEST_CONNECTED(an_opaque_link_forwards_what_it_does_not_understand)
{
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

static void touch_and_turn(struct link_fixture *f)
{
	link_ping(f->link);
	expect(f, LINK_NOTIFY, "a");
	link_make_opaque(f->link);
}

/* The owner must not see the answer to a request that it did not send. */
TEST(a_link_turns_opaque_behind_its_own_requests)
{
	SEES(f, touch_and_turn, "+PONG\r\n+OK\r\nno RESP\r\n", "+OK\r\nno RESP\r\n", "");
}

static void hush_and_turn(struct link_fixture *f)
{
	expect(f, LINK_DISCARD, NULL);
	expect(f, LINK_DISCARD, NULL);
	expect(f, LINK_NOTIFY, "a");
	link_make_opaque(f->link);
}

TEST(a_link_turns_opaque_behind_what_nobody_is_to_see)
{
	SEES(f, hush_and_turn, ":0\r\n:1\r\n+OK\r\nno RESP\r\n", "+OK\r\nno RESP\r\n", "");
	assert_int_equal(f->user.inflight, 0);
}

static void expect_the_turn(struct link_fixture *f)
{
	f->turns_opaque_on_reply = true;
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_DISCARD | LINK_NOTIFY, "b");
}

TEST(a_link_can_turn_opaque_inside_its_callback)
{
	SEES(f, expect_the_turn, "+1\r\n+2\r\nno RESP\r\n", "+1\r\n+2\r\nno RESP\r\n",
	     "reply a +\n");
}

static void expect_a_stream(struct link_fixture *f)
{
	expect(f, LINK_PASS, NULL);
	expect(f, LINK_NOTIFY | LINK_BEGINS_STREAM, "a");
}

TEST(a_stream_begins_where_the_server_begins_it)
{
	SEES(f, expect_a_stream, "+1\r\n+FULLRESYNC a 1\r\n$3\r\n-no",
	     "+1\r\n+FULLRESYNC a 1\r\n$3\r\n-no", "stream a\n");
	SEES(f, expect_a_stream, "+1\r\n\n\n$3\r\nRDB*", "+1\r\n\n\n$3\r\nRDB*", "stream a\n");
	assert_int_equal(f->user.inflight, 0);
}

TEST(a_stream_that_is_refused_does_not_begin)
{
	SEES(f, expect_a_stream, "+1\r\n-NOPERM +x\r\n", "+1\r\n-NOPERM +x\r\n", "reply a -\n");
	expect(f, LINK_NOTIFY, "b");
	SERVER_SENDS(f, "+2\r\n");
	assert_buf(&f->bytes, "+1\r\n-NOPERM +x\r\n+2\r\n");
}

/* --- the owner closes it when it gets bytes ---------------------------------- */

/* The connection closes when both replies have arrived; the first one answers the request
 * before that with `flags`. */
static void close_before(struct link_fixture *f, unsigned flags, const char *second)
{
	char replies[64];

	f->closes_on_bytes = true;
	expect(f, LINK_PASS, NULL);
	expect(f, flags, "a");
	snprintf(replies, sizeof(replies), "+1\r\n%s", second);
	server_sends(f, slice_str(replies));
	assert_seen(f, "+1\r\n", "");
	assert_false(link_is_ready(f->link));
}

TEST_CONNECTED(no_stream_begins_on_a_link_that_is_closed_by_what_comes_before)
{
	close_before(*state, LINK_NOTIFY | LINK_BEGINS_STREAM, "+OK\r\nno RESP\r\n");
}

TEST_CONNECTED(no_reply_is_told_of_on_a_link_that_is_closed_by_what_comes_before)
{
	close_before(*state, LINK_NOTIFY | LINK_DISCARD, ":2\r\n");
}

TEST_CONNECTED(no_error_is_asked_about_on_a_link_that_is_closed_by_what_comes_before)
{
	close_before(*state, LINK_NOTIFY | LINK_INTERCEPT, "-ERR\r\n");
}

TEST_CONNECTED(a_link_that_is_closed_by_what_comes_before_reads_no_bytes_that_are_no_reply)
{
	close_before(*state, LINK_PASS, "no RESP\r\n");
}
