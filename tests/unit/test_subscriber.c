/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of hasp's subscribed connection, with a server that the test plays.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "tests/unit/heap.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/played_server.h"
#include "tests/unit/testing.h"
#include "upstream/decode.h"
#include "upstream/subscriber.h"

#define PING "PING\r\n"
#define SUBSCRIBE_OWN "*2\r\n$9\r\nSUBSCRIBE\r\n$3\r\nown\r\n"
#define SUBSCRIBED_OWN "*3\r\n$9\r\nsubscribe\r\n$3\r\nown\r\n:1\r\n"

struct fixture {
	struct surroundings at;
	struct played_server server;
	struct subscriber *subscriber;
	struct buf heard; /* "up ", "failed ", "subscribed CHANNEL ", "CHANNEL: MESSAGE " */
};

static void on_up(void *arg)
{
	buf_puts(&((struct fixture *)arg)->heard, "up ");
}

static void on_failed(void *arg)
{
	buf_puts(&((struct fixture *)arg)->heard, "failed ");
}

static void on_subscribed(void *arg, struct slice channel)
{
	struct fixture *f = arg;

	buf_printf(&f->heard, "subscribed %.*s ", (int)channel.n, channel.p);
}

static void on_message(void *arg, struct slice channel, struct slice message)
{
	struct fixture *f = arg;

	buf_printf(&f->heard, "%.*s: %.*s ", (int)channel.n, channel.p, (int)message.n,
	           message.p);
}

static void assert_heard(struct fixture *f, const char *expected)
{
	if (!slice_eq(buf_slice(&f->heard), slice_str(expected)))
		fail_msg("\"%.*s\" instead of \"%s\"", (int)buf_len(&f->heard),
		         buf_head(&f->heard), expected);
}

static void set_up(struct fixture *f)
{
	log_set_level(LOG_SEV_ERROR);
	surroundings_init(&f->at, 4096);
	use_test_clock(&f->at.env);
	played_server_init(&f->server, &f->at);
	f->subscriber = subscriber_new(&(struct subscriber_opts){
		.env = &f->at.env,
		.channel = "own",
		.on_up = on_up,
		.on_failed = on_failed,
		.on_subscribed = on_subscribed,
		.on_message = on_message,
		.arg = f,
	});
}

static void tear_down(struct fixture *f)
{
	subscriber_free(f->subscriber);
	played_server_fini(&f->server);
	surroundings_fini(&f->at);
	buf_release(&f->heard);
}

STRUCT_FIXTURE(set_up, tear_down);

static void begin(struct fixture *f)
{
	subscriber_open(f->subscriber);
	played_server_accept(&f->server);
}

static void come_up(struct fixture *f)
{
	begin(f);
	played_server_expect(&f->server, SUBSCRIBE_OWN);
	played_server_send(&f->server, SUBSCRIBED_OWN);
	assert_true(subscriber_is_up(f->subscriber));
	assert_heard(f, "up ");
	buf_clear(&f->heard);
}

/* covers: subscriber_down, subscriber_up */
TEST(a_server_that_comes_and_goes_is_logged_three_times)
{
	log_fixture_open();
	log_set_level(LOG_SEV_INFO);
	for (int i = 0; i < 5; i++) {
		come_up(f);
		if (i < 4)
			assert_logged("subscriber_up address=there");
		played_server_close(&f->server);
		if (i < 3)
			assert_logged("subscriber_down address=there");
	}
	assert_nothing_logged();
	now_s += 11;
	come_up(f);
	played_server_close(&f->server);
	assert_logged("suppressed=2");
	log_fixture_close();
}

TEST(it_does_not_connect_before_it_is_opened)
{
	played_server_settle(&f->server);
	assert_false(played_server_is_dialled(&f->server));
}

TEST(it_is_up_when_its_own_channel_is_subscribed)
{
	begin(f);
	played_server_expect(&f->server, SUBSCRIBE_OWN);
	assert_false(subscriber_is_up(f->subscriber));
	played_server_send(&f->server, SUBSCRIBED_OWN);
	assert_true(subscriber_is_up(f->subscriber));
	assert_heard(f, "up ");
}

TEST(to_open_it_again_changes_nothing)
{
	come_up(f);
	subscriber_open(f->subscriber);
	played_server_settle(&f->server);
	assert_true(subscriber_is_up(f->subscriber));
	assert_false(played_server_is_dialled(&f->server));
}

TEST(it_subscribes_when_its_login_is_accepted)
{
	f->at.env.password = "pw";
	begin(f);
	played_server_expect(&f->server, "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n");
	played_server_send(&f->server, "+OK\r\n");
	played_server_expect(&f->server, SUBSCRIBE_OWN);
}

TEST(messages_come_however_they_are_cut)
{
	static const char message[] = "*3\r\n$7\r\nmessage\r\n$3\r\nown\r\n$2\r\nhi\r\n";

	come_up(f);
	for (size_t i = 0; message[i]; i++)
		played_server_send(&f->server, (char[]){ message[i], '\0' });
	assert_heard(f, "own: hi ");
	played_server_send(&f->server, message);
	assert_heard(f, "own: hi own: hi ");
}

TEST(other_channels_come_and_go)
{
	come_up(f);
	subscriber_call(f->subscriber, "SUBSCRIBE", SLICE_LIT("x"));
	played_server_expect(&f->server, "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nx\r\n");
	played_server_send(&f->server, "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:2\r\n");
	played_server_send(&f->server, "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$2\r\nhi\r\n");
	assert_heard(f, "subscribed x x: hi ");
	subscriber_call(f->subscriber, "UNSUBSCRIBE", SLICE_LIT("x"));
	played_server_expect(&f->server, "*2\r\n$11\r\nUNSUBSCRIBE\r\n$1\r\nx\r\n");
}

TEST(other_channels_are_not_subscribed_while_it_is_not_up)
{
	subscriber_call(f->subscriber, "SUBSCRIBE", SLICE_LIT("x"));
	begin(f);
	subscriber_call(f->subscriber, "SUBSCRIBE", SLICE_LIT("x"));
	played_server_expect(&f->server, SUBSCRIBE_OWN);
	played_server_send(&f->server, SUBSCRIBED_OWN);
	subscriber_call(f->subscriber, "UNSUBSCRIBE", SLICE_LIT("y"));
	played_server_expect(&f->server, "*2\r\n$11\r\nUNSUBSCRIBE\r\n$1\r\ny\r\n");
}

TEST(a_refusal_is_kept_until_it_works)
{
	assert_null(subscriber_refusal(f->subscriber));
	begin(f);
	played_server_expect(&f->server, SUBSCRIBE_OWN);
	played_server_send(&f->server, "-NOPERM this channel\r\n");
	assert_heard(f, "failed ");
	assert_string_equal(subscriber_refusal(f->subscriber), "NOPERM this channel");
	played_server_close(&f->server);
	buf_clear(&f->heard);
	come_up(f);
	assert_null(subscriber_refusal(f->subscriber));
}

/* Redis itself reports it to clients, which may wait again as soon as Redis can serve them. */
TEST(that_redis_cannot_at_the_moment_is_no_refusal)
{
	begin(f);
	played_server_expect(&f->server, SUBSCRIBE_OWN);
	played_server_send(&f->server, "-BUSY Redis is busy running a script.\r\n");
	assert_heard(f, "failed ");
	assert_null(subscriber_refusal(f->subscriber));
}

TEST(another_channel_that_is_refused_does_not_end_it)
{
	come_up(f);
	played_server_send(&f->server, "-NOPERM this channel\r\n");
	assert_true(subscriber_is_up(f->subscriber));
	assert_heard(f, "");
}

TEST(what_is_no_reply_ends_the_connection)
{
	come_up(f);
	played_server_send(&f->server, "what?\r\n");
	assert_false(subscriber_is_up(f->subscriber));
	played_server_close(&f->server);
	come_up(f);
}

TEST(a_message_that_is_too_long_ends_the_connection)
{
	char piece[4096];

	come_up(f);
	memset(piece, 'x', sizeof(piece) - 1);
	piece[sizeof(piece) - 1] = '\0';
	played_server_send(&f->server, "*3\r\n$7\r\nmessage\r\n$3\r\nown\r\n$9000000\r\n");
	for (int i = 0; i < 512 && subscriber_is_up(f->subscriber); i++)
		played_server_send(&f->server, piece);
	assert_false(subscriber_is_up(f->subscriber));
	/* The next connection starts with an empty buffer. */
	played_server_close(&f->server);
	come_up(f);
}

TEST(lengths_that_are_announced_take_no_memory)
{
	static const char *const announced[] = {
		"*100000000\r\n$7\r\nmessage\r\n",
		"*3\r\n$7\r\nmessage\r\n*2147483647\r\n$1\r\na\r\n",
		"*3\r\n$7\r\nmessage\r\n$3\r\nown\r\n$500000000\r\nx",
	};

	for (size_t i = 0; i < sizeof(announced) / sizeof(*announced); i++) {
		size_t before;
		come_up(f);
		before = heap_nbytes();
		played_server_send(&f->server, announced[i]);
		assert_true(subscriber_is_up(f->subscriber));
		assert_true(heap_nbytes() <= before + 1024 * 1024);
		subscriber_reconnect(f->subscriber, "anew");
		played_server_close(&f->server);
	}
}

TEST(an_answer_of_too_many_elements_is_not_decoded)
{
	struct buf frame = BUF_INIT;
	redisReply *reply;

	buf_puts(&frame, "*400000\r\n");
	for (int i = 0; i < 400000; i++)
		buf_puts(&frame, ":1\r\n");
	reply = reply_decode(buf_slice(&frame));
	assert_non_null(reply);
	freeReplyObject(reply);
	buf_clear(&frame);
	buf_puts(&frame, "*4000000\r\n");
	for (int i = 0; i < 4000000; i++)
		buf_puts(&frame, ":1\r\n");
	assert_null(reply_decode(buf_slice(&frame)));
	buf_release(&frame);
}

/* The loop runs without waiting, so a connection that needed a timer would fail the test. */
TEST(what_has_worked_for_a_while_is_connected_anew_at_once)
{
	come_up(f);
	now_s += 3600;
	played_server_close(&f->server);
	assert_false(subscriber_is_up(f->subscriber));
	assert_true(played_server_is_dialled(&f->server));
	come_up(f);
}

TEST(after_a_change_it_connects_anew)
{
	come_up(f);
	subscriber_reconnect(f->subscriber, "anew");
	assert_false(subscriber_is_up(f->subscriber));
	played_server_close(&f->server);
	come_up(f);
}

TEST(a_change_does_not_open_it)
{
	subscriber_reconnect(f->subscriber, "anew");
	played_server_settle(&f->server);
	assert_false(played_server_is_dialled(&f->server));
}

TEST(one_on_which_nothing_comes_is_connected_anew)
{
	come_up(f);
	subscriber_set_check(f->subscriber, 1, 3);
	played_server_expect(&f->server, PING PING PING);
	while (subscriber_is_up(f->subscriber))
		played_server_step(&f->server);
	subscriber_set_check(f->subscriber, 0, 0);
	played_server_close(&f->server);
	come_up(f);
}

/* A server that has several addresses may take connect_timeout to connect. */
TEST(one_that_is_not_connected_yet_has_time_until_connect_timeout)
{
	struct sockaddr_un at;
	socklen_t len = sizeof(at);

	/* The backlog is full, so the subscriber cannot connect. */
	f->server.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(listen(f->at.listener, 0), 0);
	assert_int_equal(getsockname(f->at.listener, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(f->server.fd, (struct sockaddr *)&at, len), 0);
	log_fixture_open();
	log_set_level(LOG_SEV_INFO);
	subscriber_open(f->subscriber);
	subscriber_set_check(f->subscriber, 1, 3);
	for (int i = 0; i < 20; i++)
		played_server_step(&f->server);
	assert_nothing_logged();
	log_fixture_close();
	subscriber_set_check(f->subscriber, 0, 0);
	played_server_close(&f->server);
	close(accept(f->at.listener, NULL, NULL));
	come_up(f);
}

TEST(one_whose_first_channel_is_not_answered_is_connected_anew)
{
	begin(f);
	subscriber_set_check(f->subscriber, 1, 3);
	for (int i = 0; i < 2000 && !played_server_is_dialled(&f->server); i++)
		played_server_step(&f->server);
	subscriber_set_check(f->subscriber, 0, 0);
	played_server_close(&f->server);
	come_up(f);
}

TEST(without_a_time_out_it_is_waited_for)
{
	come_up(f);
	subscriber_set_check(f->subscriber, 1, 0);
	played_server_expect(&f->server, PING PING PING PING PING PING PING PING);
	assert_true(subscriber_is_up(f->subscriber));
}

TEST(it_has_a_name_among_redis_clients)
{
	f->at.env.own_name = "hasp-7";
	begin(f);
	played_server_expect(&f->server, "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n"
	                                 "$17\r\nhasp-7-subscriber\r\n");
	played_server_send(&f->server, "+OK\r\n");
	played_server_expect(&f->server, SUBSCRIBE_OWN);
}
