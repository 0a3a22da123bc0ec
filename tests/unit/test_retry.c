/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the delay before a connection is tried again: none, short or long, depending on how
 * it ended. The test sets the clock.
 */
#include <stdlib.h>

#include "tests/unit/surroundings.h"
#include "tests/unit/testing.h"
#include "upstream/own_conn.h"

#define SOON 0.02

static void pass(double seconds)
{
	now_s += seconds;
}

struct fixture {
	struct link_env env;
	struct own_conn conn;
	int ntries;
};

static void on_try(void *arg)
{
	struct fixture *f = arg;

	f->ntries++;
}

static void on_down(void *arg, enum link_end end, const char *reason)
{
	(void)arg;
	(void)end;
	(void)reason;
}

static const struct own_conn_ops ops = { .on_down = on_down, .connect = on_try };

static void setup(struct fixture *f)
{
	links_init(&f->env);
	f->env.dialer.loop = ev_loop_new(EVFLAG_AUTO);
	use_test_clock(&f->env);
	own_conn_init(&f->conn, &f->env, SOON, &ops, f);
}

static void teardown(struct fixture *f)
{
	own_conn_close(&f->conn);
	ev_loop_destroy(f->env.dialer.loop);
}

STRUCT_FIXTURE(setup, teardown);

static void assert_next_in(struct fixture *f, double seconds)
{
	double left = ev_timer_remaining(f->env.dialer.loop, &f->conn.retry.watcher);

	assert_true(loop_timer_is_running(&f->conn.retry));
	assert_int_equal((int)(left * 1000 + 0.5), (int)(seconds * 1000 + 0.5));
}

static void assert_again_in(struct fixture *f, enum link_end end, double seconds)
{
	own_conn_fail(&f->conn, end, "");
	assert_next_in(f, seconds);
}

TEST(what_had_worked_for_a_while_is_tried_at_once)
{
	own_conn_worked(&f->conn);
	pass(2 * SOON);
	assert_again_in(f, LINK_BROKEN, 0);
}

TEST(what_fails_again_at_once_waits)
{
	own_conn_worked(&f->conn);
	pass(2 * SOON);
	own_conn_fail(&f->conn, LINK_BROKEN, "");
	assert_again_in(f, LINK_UNREACHABLE, SOON);
	assert_again_in(f, LINK_UNREACHABLE, 2 * SOON);
}

TEST(a_server_that_closes_each_time_is_not_tried_without_a_pause)
{
	for (int i = 0; i < 3; i++) {
		own_conn_worked(&f->conn);
		pass(SOON / 2);
		assert_again_in(f, LINK_BROKEN, SOON);
	}
}

TEST(what_never_worked_waits)
{
	pass(2 * SOON);
	assert_again_in(f, LINK_BROKEN, SOON);
}

TEST(a_server_that_is_away_is_tried_every_second)
{
	for (int i = 0; i < 20; i++)
		own_conn_fail(&f->conn, LINK_UNREACHABLE, "");
	assert_again_in(f, LINK_UNREACHABLE, 1);
	assert_again_in(f, LINK_BROKEN, 1);
}

TEST(a_server_that_refuses_is_tried_every_five_seconds)
{
	for (int i = 0; i < 20; i++)
		own_conn_fail(&f->conn, LINK_REFUSED, "");
	assert_again_in(f, LINK_REFUSED, 5);
}

TEST(another_address_is_tried_at_once_and_soon_again)
{
	for (int i = 0; i < 20; i++)
		own_conn_fail(&f->conn, LINK_UNREACHABLE, "");
	own_conn_reconnect(&f->conn, NULL);
	assert_next_in(f, 0);
	assert_again_in(f, LINK_UNREACHABLE, SOON);
}

TEST(only_a_server_that_was_away_is_tried_at_once_when_it_is_there)
{
	own_conn_fail(&f->conn, LINK_REFUSED, "");
	own_conns_retry_now(&f->env);
	assert_next_in(f, SOON);
	own_conn_fail(&f->conn, LINK_UNREACHABLE, "");
	own_conns_retry_now(&f->env);
	assert_next_in(f, 0);
}

TEST(a_try_that_is_due_is_made_once)
{
	own_conn_reconnect(&f->conn, NULL);
	own_conn_reconnect(&f->conn, NULL);
	assert_int_equal(f->ntries, 0);
	for (int i = 0; i < 3; i++)
		ev_run(f->env.dialer.loop, EVRUN_NOWAIT);
	assert_int_equal(f->ntries, 1);
}

TEST(a_try_that_was_stopped_is_not_made)
{
	own_conn_fail(&f->conn, LINK_UNREACHABLE, "");
	own_conn_close(&f->conn);
	assert_false(loop_timer_is_running(&f->conn.retry));
	/* The news that the server is back does not start it either. */
	own_conns_retry_now(&f->env);
	assert_false(loop_timer_is_running(&f->conn.retry));
}
