/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of upstream/liveness.c: which links are dead, with and without replies due. The test
 * checks as often as the timer would.
 */
#include <stdlib.h>

#include "base/log.h"
#include "tests/unit/link_fixture.h"
#include "tests/unit/played_server.h"
#include "tests/unit/testing.h"
#include "upstream/liveness.h"

#undef TEST_FIXTURE
#define TEST_FIXTURE struct fixture *f

#define HOUR_MS (3600 * 1000)
#define LOOKS_IN_AN_HOUR 7200

struct fixture {
	struct link_fixture *links;
	struct played_server server; /* the server's end of hasp's own connection */
	struct control *control;
	struct liveness *liveness;
};

static size_t on_commands(void *arg, const redisReply *reply)
{
	(void)arg;
	(void)reply;
	return 1;
}

static void on_up(void *arg)
{
	(void)arg;
}

/* Opens a link, and hasp's own connection. */
static int set_up_live(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	void *links;

	log_set_level(LOG_SEV_ERROR);
	assert_int_equal(set_up_connected(&links), 0);
	f->links = links;
	use_test_clock(&f->links->at.env);
	played_server_init(&f->server, &f->links->at);
	f->control = control_new(&(struct control_opts){
		.env = &f->links->at.env,
		.on_commands = on_commands,
		.on_up = on_up,
	});
	f->liveness = liveness_new(&f->links->at.env, f->control);
	liveness_set_timeout(f->liveness, HOUR_MS);
	played_server_accept(&f->server);
	played_server_send(&f->server, "+PONG\r\n-ERR unknown\r\n*0\r\n$0\r\n\r\n*0\r\n");
	assert_true(control_is_answering(f->control));
	*state = f;
	return 0;
}

static int tear_down_live(void **state)
{
	struct fixture *f = *state;
	void *links = f->links;

	liveness_free(f->liveness);
	control_free(f->control);
	played_server_fini(&f->server);
	assert_int_equal(tear_down(&links), 0);
	free(f);
	return 0;
}

FIXTURE(set_up_live, tear_down_live);

/* Expects hasp's question whether the server executes writes, and answers `reply`. */
static void answer_write_check(struct fixture *f, const char *reply)
{
	struct played_server writes;

	played_server_init(&writes, &f->links->at);
	played_server_accept(&writes);
	played_server_expect(&writes, "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 0\r\n$1\r\n0\r\n");
	played_server_send(&writes, reply);
	played_server_fini(&writes);
}

static void look(struct fixture *f, int n)
{
	while (n--)
		liveness_look(f->liveness);
}

/* Leaves the next check without an answer. */
static void stop_answering(struct fixture *f)
{
	control_set_check_delay(f->control, 1);
	while (control_is_answering(f->control))
		played_server_step(&f->server);
	control_set_check_delay(f->control, 0);
}

TEST(a_link_ends_when_a_reply_is_due_and_nothing_comes)
{
	expect(f->links, LINK_NOTIFY, "a");
	look(f, LOOKS_IN_AN_HOUR / 2);
	assert_int_equal(f->links->ndown, 0);
	look(f, LOOKS_IN_AN_HOUR);
	answer_write_check(f, ":0\r\n");
	/* The reply may be on its way. */
	look(f, 2);
	assert_int_equal(f->links->ndown, 0);
	look(f, 10);
	assert_down(f->links, LINK_BROKEN);
	assert_string_equal(f->links->reason, "no reply came for 3600 s");
	assert_true(control_is_up(f->control));
}

TEST(a_link_does_not_end_while_the_server_holds_writes_back)
{
	expect(f->links, LINK_NOTIFY, "a");
	look(f, 10 * LOOKS_IN_AN_HOUR);
	answer_write_check(f, ":0\r\n");
	/* The server has just resumed its clients: the reply may take some checks longer. */
	look(f, 3);
	assert_int_equal(f->links->ndown, 0);
	SERVER_SENDS(f->links, "+1\r\n");
	look(f, 10);
	/* hasp checks the next silence, too. */
	expect(f->links, LINK_NOTIFY, "b");
	look(f, 10 * LOOKS_IN_AN_HOUR);
	assert_int_equal(f->links->ndown, 0);
	answer_write_check(f, "-NOAUTH Authentication required.\r\n");
	look(f, 10);
	assert_down(f->links, LINK_BROKEN);
}

TEST(a_link_ends_when_the_server_cannot_be_asked_about_writes)
{
	struct played_server writes;

	expect(f->links, LINK_NOTIFY, "a");
	look(f, 2 * LOOKS_IN_AN_HOUR);
	played_server_init(&writes, &f->links->at);
	played_server_accept(&writes);
	played_server_close(&writes);
	played_server_fini(&writes);
	look(f, 10);
	assert_down(f->links, LINK_BROKEN);
}

TEST(each_byte_of_a_reply_counts)
{
	expect(f->links, LINK_NOTIFY, "a");
	for (int i = 0; i < 4; i++) {
		look(f, LOOKS_IN_AN_HOUR / 2);
		server_sends(f->links, slice_of(&"$100"[i], 1));
	}
	assert_int_equal(f->links->ndown, 0);
}

TEST(a_request_that_is_sent_later_has_its_own_time)
{
	look(f, 2 * LOOKS_IN_AN_HOUR);
	expect(f->links, LINK_NOTIFY, "a");
	look(f, LOOKS_IN_AN_HOUR / 2);
	assert_int_equal(f->links->ndown, 0);
	SERVER_SENDS(f->links, "+1\r\n");
	look(f, 2 * LOOKS_IN_AN_HOUR);
	assert_int_equal(f->links->ndown, 0);
}

TEST(a_reply_may_be_long_in_coming_while_the_server_answers_checks)
{
	expect(f->links, LINK_NOTIFY, "get");
	expect(f->links, LINK_NOTIFY | LINK_PATIENT, "eval");
	expect(f->links, LINK_NOTIFY, "get");
	look(f, 2 * LOOKS_IN_AN_HOUR);
	assert_int_equal(f->links->ndown, 0);
	SERVER_SENDS(f->links, "+1\r\n+2\r\n");
	look(f, 2 * LOOKS_IN_AN_HOUR);
	answer_write_check(f, ":0\r\n");
	look(f, 10);
	assert_down(f->links, LINK_BROKEN);
}

TEST(a_link_that_is_not_read_does_not_end)
{
	expect(f->links, LINK_NOTIFY, "a");
	link_pause(f->links->link);
	look(f, 2 * LOOKS_IN_AN_HOUR);
	assert_int_equal(f->links->ndown, 0);
	link_resume(f->links->link);
	look(f, 2 * LOOKS_IN_AN_HOUR);
	answer_write_check(f, ":0\r\n");
	look(f, 10);
	assert_down(f->links, LINK_BROKEN);
}

TEST(what_has_come_and_is_not_read_yet_counts)
{
	expect(f->links, LINK_NOTIFY, "a");
	assert_int_equal(send(f->links->server, "+1\r\n", 4, 0), 4);
	look(f, 2 * LOOKS_IN_AN_HOUR);
	assert_int_equal(f->links->ndown, 0);
}

TEST(all_links_end_when_a_check_is_not_answered_and_nothing_else_comes)
{
	expect(f->links, LINK_NOTIFY | LINK_PATIENT, "blpop");
	stop_answering(f);
	look(f, LOOKS_IN_AN_HOUR / 3);
	assert_int_equal(f->links->ndown, 0);
	look(f, LOOKS_IN_AN_HOUR);
	assert_down(f->links, LINK_BROKEN);
	assert_string_equal(f->links->reason,
	                    "the server answered neither PING nor anything else for 3600 s");
	assert_false(control_is_up(f->control));
}

TEST(a_server_that_sends_on_another_link_is_not_dead)
{
	expect(f->links, LINK_NOTIFY | LINK_PATIENT, "blpop");
	stop_answering(f);
	for (int i = 0; i < 4; i++) {
		look(f, LOOKS_IN_AN_HOUR / 2);
		server_sends(f->links, slice_of(&"$100"[i], 1));
	}
	assert_int_equal(f->links->ndown, 0);
	/* hasp's own connection has ended. */
	assert_false(control_is_up(f->control));
}

TEST(links_end_while_hasps_own_connection_cannot_be_had)
{
	expect(f->links, LINK_NOTIFY | LINK_PATIENT, "blpop");
	played_server_close(&f->server);
	assert_false(control_is_up(f->control));
	look(f, 2 * LOOKS_IN_AN_HOUR);
	assert_down(f->links, LINK_BROKEN);
}

TEST(without_a_time_out_nothing_ends)
{
	struct stream_flusher *flusher = f->links->at.env.flusher;

	expect(f->links, LINK_NOTIFY, "a");
	liveness_set_timeout(f->liveness, 1);
	liveness_set_timeout(f->liveness, 0);
	ev_sleep(0.01);
	ev_run(flusher->loop, EVRUN_NOWAIT);
	assert_int_equal(f->links->ndown, 0);
	played_server_close(&f->server);
	liveness_set_timeout(f->liveness, 1);
	while (f->links->ndown == 0)
		await_event(f->links);
	assert_down(f->links, LINK_BROKEN);
}
