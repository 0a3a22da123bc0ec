/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of hasp's own connection, with a server that the test plays: when it is up, what
 * happens to the requests on it, and that it connects again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/played_server.h"
#include "tests/unit/testing.h"
#include "upstream/control.h"

#define PING "*1\r\n$4\r\nPING\r\n"
#define HELLO "*1\r\n$5\r\nHELLO\r\n"
#define MEMORY "*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n"
#define COMMAND "*1\r\n$4\r\nROLE\r\n" MEMORY "*1\r\n$7\r\nCOMMAND\r\n"
#define CHECK PING "*1\r\n$4\r\nROLE\r\n"
#define MASTER "*1\r\n$6\r\nmaster\r\n"
#define SELECT_0 "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"
#define SELECT_3 "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
/* Answers to INFO memory and COMMAND. */
#define NO_MEMORY "$0\r\n\r\n"
#define NO_COMMANDS NO_MEMORY "*0\r\n"
/* A server before Redis 6 answers this to HELLO. */
#define UNKNOWN "-ERR unknown command\r\n"

struct fixture {
	struct surroundings at;
	struct played_server server;
	struct control *control;
	unsigned nup;
	struct buf roles; /* "ROLE " for each role that was reported */
	struct buf replies; /* "TAG=TEXT " for each reply */
};

struct call {
	struct fixture *f;
	const char *tag;
};

static void on_up(void *arg)
{
	struct fixture *f = arg;

	f->nup++;
}

static void on_role(void *arg, enum server_role role)
{
	struct fixture *f = arg;

	buf_printf(&f->roles, "%s ", role_name(role));
}

static void on_reply(void *arg, const redisReply *reply)
{
	const struct call *call = arg;

	buf_printf(&call->f->replies, "%s=%s ", call->tag, reply ? reply->str : "NULL");
}

static void assert_replies(struct fixture *f, const char *expected)
{
	if (!slice_eq(buf_slice(&f->replies), slice_str(expected)))
		fail_msg("\"%.*s\" instead of \"%s\"", (int)buf_len(&f->replies),
		         buf_head(&f->replies), expected);
}

static size_t on_commands(void *arg, const redisReply *reply)
{
	struct fixture *f = arg;

	(void)reply;
	/* When this is called, health already shows that the server answers. */
	assert_int_not_equal(control_health(f->control), CONTROL_CONNECTING);
	return 1;
}

static void set_up(struct fixture *f)
{
	log_set_level(LOG_SEV_ERROR);
	surroundings_init(&f->at, 4096);
	use_test_clock(&f->at.env);
	played_server_init(&f->server, &f->at);
	f->control = control_new(&(struct control_opts){
		.env = &f->at.env,
		.on_commands = on_commands,
		.on_up = on_up,
		.on_role = on_role,
		.arg = f,
	});
}

static void tear_down(struct fixture *f)
{
	control_free(f->control);
	played_server_fini(&f->server);
	surroundings_fini(&f->at);
	buf_release(&f->replies);
	buf_release(&f->roles);
}

STRUCT_FIXTURE(set_up, tear_down);

static void come_up(struct fixture *f)
{
	played_server_accept(&f->server);
	played_server_expect(&f->server, PING HELLO COMMAND);
	played_server_send(&f->server, "+PONG\r\n" UNKNOWN MASTER NO_COMMANDS);
	assert_true(control_is_up(f->control));
}

TEST(it_is_up_when_command_is_answered)
{
	played_server_accept(&f->server);
	played_server_expect(&f->server, PING HELLO COMMAND);
	played_server_send(&f->server, "+PONG\r\n" UNKNOWN MASTER);
	assert_false(control_is_up(f->control));
	assert_int_equal(f->nup, 0);
	played_server_send(&f->server, NO_COMMANDS);
	assert_true(control_is_up(f->control));
	assert_int_equal(f->nup, 1);
	assert_false(f->at.env.login_required);
}

TEST(it_logs_in_before_it_asks_for_command)
{
	f->at.env.user = "u";
	f->at.env.password = "pw";
	played_server_accept(&f->server);
	/* Redis would not answer a failing AUTH before it has written its answer to PING. */
	played_server_expect(&f->server, PING);
	played_server_send(&f->server, "-NOAUTH Authentication required.\r\n");
	played_server_expect(&f->server, "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$2\r\npw\r\n");
	played_server_send(&f->server, "+OK\r\n");
	played_server_expect(&f->server, HELLO COMMAND);
}

TEST(a_ping_that_is_refused_shows_that_a_login_is_required)
{
	played_server_accept(&f->server);
	played_server_send(&f->server, "-NOAUTH Authentication required.\r\n");
	assert_true(f->at.env.login_required);
}

TEST(it_tries_again_when_command_is_refused)
{
	played_server_accept(&f->server);
	played_server_send(&f->server,
	                   "+PONG\r\n" UNKNOWN MASTER NO_MEMORY "-NOPERM no permission\r\n");
	assert_false(control_is_up(f->control));
	played_server_close(&f->server);
	come_up(f);
}

TEST(a_server_says_that_it_is_a_node_of_a_cluster)
{
	played_server_accept(&f->server);
	played_server_send(&f->server,
	                   "+PONG\r\n"
	                   "*6\r\n$5\r\nproto\r\n:2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n"
	                   "$7\r\nmodules\r\n*0\r\n" MASTER NO_COMMANDS);
	assert_true(control_is_in_cluster(f->control));
	played_server_close(&f->server);
	played_server_accept(&f->server);
	played_server_send(&f->server,
	                   "+PONG\r\n"
	                   "*2\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n" MASTER NO_COMMANDS);
	assert_false(control_is_in_cluster(f->control));
}

TEST(nothing_is_sent_while_it_is_down)
{
	struct call a = { f, "a" };

	assert_int_equal(control_call(f->control, 0, SLICE_LIT("A\r\n"), on_reply, &a), -1);
	played_server_accept(&f->server);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("A\r\n"), on_reply, &a), -1);
	played_server_expect(&f->server, PING HELLO COMMAND);
	assert_replies(f, "");
}

TEST(each_call_gets_its_reply)
{
	struct call a = { f, "a" }, b = { f, "b" };

	come_up(f);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("A\r\n"), on_reply, &a), 0);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("-\r\n"), NULL, NULL), 0);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("B\r\n"), on_reply, &b), 0);
	assert_int_equal(control_inflight(f->control), 3);
	played_server_expect(&f->server, "A\r\n-\r\nB\r\n");
	played_server_send(&f->server, "+1\r\n+2\r\n-3\r\n");
	assert_replies(f, "a=1 b=3 ");
	assert_int_equal(control_inflight(f->control), 0);
}

TEST(another_database_is_selected_once)
{
	come_up(f);
	for (int i = 0; i < 2; i++)
		assert_int_equal(control_call(f->control, 3, SLICE_LIT("A\r\n"), NULL, NULL),
		                 0);
	played_server_expect(&f->server, SELECT_3);
	played_server_send(&f->server, "+OK\r\n");
	played_server_expect(&f->server, "A\r\nA\r\n");
	assert_int_equal(control_call(f->control, 3, SLICE_LIT("B\r\n"), NULL, NULL), 0);
	played_server_expect(&f->server, "B\r\n");
}

TEST(calls_are_sent_in_their_order_each_in_its_database)
{
	come_up(f);
	assert_int_equal(control_call(f->control, 3, SLICE_LIT("A\r\n"), NULL, NULL), 0);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("B\r\n"), NULL, NULL), 0);
	assert_int_equal(control_call(f->control, 3, SLICE_LIT("C\r\n"), NULL, NULL), 0);
	assert_int_equal(control_inflight(f->control), 4);
	played_server_expect(&f->server, SELECT_3);
	played_server_send(&f->server, "+OK\r\n");
	played_server_expect(&f->server, "A\r\n" SELECT_0);
	played_server_send(&f->server, ":1\r\n+OK\r\n");
	played_server_expect(&f->server, "B\r\n" SELECT_3);
	played_server_send(&f->server, ":2\r\n+OK\r\n");
	played_server_expect(&f->server, "C\r\n");
}

TEST(nothing_is_done_in_a_database_that_redis_refuses)
{
	struct call a = { f, "a" }, b = { f, "b" }, c = { f, "c" };

	come_up(f);
	assert_int_equal(control_call(f->control, 3, SLICE_LIT("A\r\n"), on_reply, &a), 0);
	assert_int_equal(control_call(f->control, 3, SLICE_LIT("B\r\n"), on_reply, &b), 0);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("C\r\n"), on_reply, &c), 0);
	played_server_expect(&f->server, SELECT_3);
	played_server_send(&f->server, "-NOPERM\r\n");
	assert_replies(f, "a=NOPERM b=NOPERM ");
	played_server_expect(&f->server, "C\r\n");
	played_server_send(&f->server, "+3\r\n");
	assert_replies(f, "a=NOPERM b=NOPERM c=3 ");
}

TEST(calls_that_wait_for_their_database_get_null_when_the_connection_breaks)
{
	struct call a = { f, "a" }, b = { f, "b" };

	come_up(f);
	assert_int_equal(control_call(f->control, 3, SLICE_LIT("A\r\n"), on_reply, &a), 0);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("B\r\n"), on_reply, &b), 0);
	played_server_close(&f->server);
	assert_replies(f, "a=NULL b=NULL ");
	come_up(f);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("C\r\n"), NULL, NULL), 0);
	played_server_expect(&f->server, "C\r\n");
}

TEST(a_new_connection_is_in_database_0)
{
	come_up(f);
	assert_int_equal(control_call(f->control, 3, SLICE_LIT("A\r\n"), NULL, NULL), 0);
	played_server_close(&f->server);
	come_up(f);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("A\r\n"), NULL, NULL), 0);
	played_server_expect(&f->server, "A\r\n");
}

TEST(calls_in_flight_get_null_when_the_connection_breaks)
{
	struct call a = { f, "a" }, b = { f, "b" };

	come_up(f);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("A\r\n"), on_reply, &a), 0);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("B\r\n"), on_reply, &b), 0);
	played_server_send(&f->server, "+1\r\n");
	played_server_close(&f->server);
	assert_replies(f, "a=1 b=NULL ");
	assert_false(control_is_up(f->control));
}

/* The loop runs without waiting, so a connection that needed a timer would fail the test. */
TEST(what_has_worked_for_a_while_is_connected_anew_at_once)
{
	come_up(f);
	now_s += 3600;
	played_server_close(&f->server);
	assert_true(played_server_is_dialled(&f->server));
	come_up(f);
	assert_int_equal(f->nup, 2);
}

TEST(after_a_change_it_connects_anew)
{
	struct call a = { f, "a" };

	come_up(f);
	assert_int_equal(control_call(f->control, 0, SLICE_LIT("A\r\n"), on_reply, &a), 0);
	control_reconnect(f->control, "anew");
	assert_replies(f, "a=NULL ");
	assert_false(control_is_up(f->control));
	played_server_close(&f->server);
	come_up(f);
}

TEST(checks_ask_whether_it_answers_and_for_its_role)
{
	come_up(f);
	assert_int_equal(control_role(f->control), ROLE_MASTER);
	assert_true(control_is_answering(f->control));
	control_set_check_delay(f->control, 1);
	played_server_expect(&f->server, CHECK);
	assert_false(control_is_answering(f->control));
	/* hasp sends no second check before the first is answered. */
	ev_sleep(0.01);
	played_server_settle(&f->server);
	assert_int_equal(control_inflight(f->control), 2);
	control_set_check_delay(f->control, 0);
	played_server_send(&f->server, "+PONG\r\n*1\r\n$5\r\nslave\r\n");
	assert_true(control_is_answering(f->control));
	assert_int_equal(control_role(f->control), ROLE_REPLICA);
	assert_true(slice_eq(buf_slice(&f->roles), slice_str("master replica ")));
}

/* covers: upstream_role */
TEST(a_change_of_the_role_is_logged)
{
	log_fixture_open();
	log_set_level(LOG_SEV_WARNING);
	come_up(f);
	assert_nothing_logged();
	control_set_check_delay(f->control, 1);
	played_server_expect(&f->server, CHECK);
	played_server_send(&f->server, "+PONG\r\n*1\r\n$5\r\nslave\r\n");
	assert_logged("upstream_role address=");
	log_fixture_close();
}

TEST(it_is_silent_when_an_answer_is_due_for_a_second)
{
	assert_false(control_is_silent(f->control));
	now_s += 1.1;
	assert_true(control_is_silent(f->control));
	come_up(f);
	assert_false(control_is_silent(f->control));
	control_check(f->control);
	assert_false(control_is_silent(f->control));
	now_s += 1.1;
	assert_true(control_is_silent(f->control));
	played_server_expect(&f->server, CHECK);
	played_server_send(&f->server, "+PONG\r\n*1\r\n$6\r\nmaster\r\n");
	assert_false(control_is_silent(f->control));
	played_server_close(&f->server);
	played_server_settle(&f->server);
	assert_true(control_is_silent(f->control));
}

/* Runs the loop, whose timers follow the real clock, until health is as expected. */
static void until_health(struct fixture *f, enum control_health health)
{
	for (int i = 0; i < 1000 && control_health(f->control) != health; i++) {
		ev_sleep(0.01);
		played_server_settle(&f->server);
	}
	assert_int_equal(control_health(f->control), health);
}

/* covers: upstream_silent, upstream_answers */
TEST(a_server_that_stops_to_answer_and_goes_on_is_logged_once)
{
	come_up(f);
	assert_int_equal(control_health(f->control), CONTROL_WORKS);
	log_fixture_open();
	log_set_level(LOG_SEV_INFO);
	control_check(f->control);
	played_server_expect(&f->server, CHECK);
	until_health(f, CONTROL_SILENT);
	assert_logged("upstream_silent address=there seconds=2");
	played_server_send(&f->server, "+PONG\r\n" MASTER);
	assert_int_equal(control_health(f->control), CONTROL_WORKS);
	assert_logged("upstream_answers address=there");
	log_fixture_close();
}

/* covers: upstream_busy */
TEST(a_server_that_loads_its_data_works_when_it_has)
{
	log_fixture_open();
	log_set_level(LOG_SEV_WARNING);
	played_server_accept(&f->server);
	played_server_send(&f->server,
	                   "-LOADING Redis is loading\r\n" UNKNOWN MASTER NO_COMMANDS);
	assert_true(control_is_up(f->control));
	assert_int_equal(control_health(f->control), CONTROL_BUSY);
	control_check(f->control);
	played_server_send(&f->server, "+PONG\r\n" MASTER);
	assert_int_equal(control_health(f->control), CONTROL_WORKS);
	assert_nothing_logged();
	control_check(f->control);
	played_server_send(&f->server, "-BUSY a script\r\n" MASTER);
	assert_int_equal(control_health(f->control), CONTROL_BUSY);
	assert_logged("upstream_busy address=there error=\"BUSY a script\"");
	log_fixture_close();
}

/* covers: upstream_down, upstream_up */
TEST(a_server_that_comes_and_goes_is_logged_three_times)
{
	log_fixture_open();
	log_set_level(LOG_SEV_INFO);
	for (int i = 0; i < 5; i++) {
		come_up(f);
		if (i < 4)
			assert_logged("upstream_up address=there");
		played_server_close(&f->server);
		if (i < 3)
			assert_logged("upstream_down address=there");
	}
	assert_nothing_logged();
	now_s += 11;
	come_up(f);
	played_server_close(&f->server);
	assert_logged("suppressed=2");
	log_fixture_close();
}

TEST(a_login_that_is_refused_after_the_server_was_away_is_logged_once)
{
	come_up(f);
	log_fixture_open();
	log_set_level(LOG_SEV_WARNING);
	played_server_close(&f->server);
	assert_logged("upstream_down address=there");
	for (int i = 0; i < 2; i++) {
		played_server_accept(&f->server);
		played_server_send(&f->server, "-NOAUTH login\r\n" UNKNOWN
		                               "-NOAUTH login\r\n-NOAUTH login\r\n"
		                               "-NOAUTH login\r\n");
		assert_int_equal(control_health(f->control), CONTROL_REFUSES);
		if (i == 0)
			assert_logged("upstream_refused address=there error=\"NOAUTH login\"");
		else
			assert_nothing_logged();
		played_server_close(&f->server);
	}
	log_fixture_close();
}

TEST(a_server_that_is_too_old_is_refused)
{
	log_fixture_open();
	log_set_level(LOG_SEV_WARNING);
	played_server_accept(&f->server);
	played_server_send(&f->server,
	                   "+PONG\r\n"
	                   "*4\r\n$7\r\nversion\r\n$6\r\n6.0.16\r\n$5\r\nproto\r\n:2\r\n" MASTER
	                           NO_COMMANDS);
	assert_false(control_is_up(f->control));
	assert_int_equal(control_health(f->control), CONTROL_REFUSES);
	assert_logged("upstream_refused address=there error=\"version 6.0.16 is too old: "
	              "hasp needs Redis 6.2 or Valkey 7.2\"");
	log_fixture_close();
	played_server_close(&f->server);
	/* Another server has taken the address. */
	played_server_accept(&f->server);
	played_server_send(&f->server,
	                   "+PONG\r\n"
	                   "*4\r\n$7\r\nversion\r\n$6\r\n6.2.16\r\n$5\r\nproto\r\n:2\r\n" MASTER
	                           NO_COMMANDS);
	assert_true(control_is_up(f->control));
}

TEST(a_version_is_too_old_before_6_2)
{
	assert_true(version_is_too_old("6.0.16"));
	assert_true(version_is_too_old("5.0.14"));
	assert_false(version_is_too_old("6.2.0"));
	assert_false(version_is_too_old("7.2.4"));
	assert_false(version_is_too_old("10.0"));
	assert_false(version_is_too_old("df-v1.2"));
	assert_false(version_is_too_old(""));
}

TEST(an_answer_that_hasp_was_too_busy_to_read_is_no_silence)
{
	come_up(f);
	control_check(f->control);
	played_server_expect(&f->server, CHECK);
	now_s += 1.1;
	assert_true(control_is_silent(f->control));
	assert_int_equal(write(f->server.fd, "+PONG\r\n", 7), 7);
	assert_false(control_is_silent(f->control));
	played_server_settle(&f->server);
	assert_true(control_is_silent(f->control));
}

TEST(an_error_is_an_answer_to_a_check)
{
	come_up(f);
	control_set_check_delay(f->control, 1);
	played_server_expect(&f->server, CHECK);
	control_set_check_delay(f->control, 0);
	played_server_send(&f->server, "-NOPERM\r\n-NOPERM\r\n");
	assert_true(control_is_answering(f->control));
	assert_int_equal(control_role(f->control), ROLE_MASTER);
}

TEST(a_check_that_was_in_flight_does_not_keep_from_the_next)
{
	come_up(f);
	control_set_check_delay(f->control, 1);
	played_server_expect(&f->server, CHECK);
	played_server_close(&f->server);
	come_up(f);
	played_server_expect(&f->server, CHECK);
}

static void says_memory(struct fixture *f, const char *max, const char *policy)
{
	char text[128], reply[160];

	snprintf(text, sizeof(text), "# Memory\r\nmaxmemory:%s\r\nmaxmemory_policy:%s\r\n", max,
	         policy);
	snprintf(reply, sizeof(reply), "$%zu\r\n%s\r\n", strlen(text), text);
	played_server_send(&f->server, reply);
}

static void checks_again(struct fixture *f, double seconds, const char *asks)
{
	now_s += seconds;
	control_check(f->control);
	played_server_expect(&f->server, asks);
	played_server_send(&f->server, "+PONG\r\n" MASTER);
}

/* covers: upstream_noeviction */
TEST(a_server_that_evicts_is_logged_once_and_asked_each_minute)
{
	log_set_level(LOG_SEV_INFO);
	played_server_accept(&f->server);
	played_server_expect(&f->server, PING HELLO COMMAND);
	log_fixture_open();
	played_server_send(&f->server, "+PONG\r\n" UNKNOWN MASTER);
	says_memory(f, "1000", "volatile-ttl");
	assert_logged("upstream_evicts address=there policy=\"volatile-ttl\"");
	assert_string_equal(control_evicts(f->control), "volatile-ttl");
	played_server_send(&f->server, "*0\r\n");
	assert_logged("upstream_up");

	checks_again(f, 59, CHECK);
	checks_again(f, 1.1, CHECK MEMORY);
	says_memory(f, "1000", "volatile-ttl");
	assert_nothing_logged();
	/* A reply without maxmemory changes nothing. */
	checks_again(f, 60, CHECK MEMORY);
	played_server_send(&f->server, "$30\r\nmaxmemory_policy:volatile-ttl\n\r\n");
	assert_nothing_logged();
	assert_string_equal(control_evicts(f->control), "volatile-ttl");
	checks_again(f, 60, CHECK MEMORY);
	says_memory(f, "1000", "noeviction");
	assert_logged("upstream_noeviction address=there effect=\"Redis does not evict keys "
	              "any more\"");
	assert_string_equal(control_evicts(f->control), "");
	checks_again(f, 60, CHECK MEMORY);
	/* Without maxmemory, Redis evicts nothing. */
	says_memory(f, "0", "allkeys-lru");
	assert_nothing_logged();
	log_fixture_close();
	log_set_level(LOG_SEV_ERROR);
}

TEST(it_has_a_name_among_redis_clients)
{
	f->at.env.own_name = "hasp-7";
	played_server_accept(&f->server);
	played_server_expect(&f->server, PING HELLO "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n"
	                                            "$14\r\nhasp-7-control\r\n" COMMAND);
}
