/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a query: it runs until its owner gets the answer, or the reason for which there is
 * none.
 */

#include "tests/unit/surroundings.h"
#include "tests/unit/testing.h"
#include "upstream/own_conn.h"

static struct surroundings around;
static struct query query;
static int ndone, nlooks;

static void on_done(void *arg, redisReply *const *replies, const char *why)
{
	(void)arg;
	assert_null(replies);
	assert_string_equal(why, "it does not answer in time");
	assert_false(query_is_running(&query));
	ndone++;
}

static void look(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	(void)loop;
	(void)t;
	(void)revents;
	nlooks++;
	assert_int_equal(query_is_running(&query), !ndone);
}

/* The order of the loop's calls does not matter: one of the looks comes before the query's
 * timer. */
TEST(a_query_that_is_late_is_running_until_its_end_is_reported)
{
	struct ev_timer before, after;

	surroundings_init(&around, 1024);
	query_init(&query, &around.env, on_done, NULL);
	assert_false(query_is_running(&query));
	ev_timer_init(&before, look, 0, 0);
	ev_timer_init(&after, look, 0, 0);
	ev_timer_start(around.loop, &before);
	query_start(&query, &around.env.address, NULL, NULL, SLICE_LIT("PING\r\n"), 1, 0);
	ev_timer_start(around.loop, &after);
	while (ndone + nlooks < 3)
		ev_run(around.loop, EVRUN_ONCE);
	assert_int_equal(ndone, 1);
	links_reap(&around.env);
	surroundings_fini(&around);
}
