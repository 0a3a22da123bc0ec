/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transactions in front of a cluster, on the wire.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(cluster_set_up, cluster_tear_down);

#define MULTI "*1\r\n$5\r\nMULTI\r\n"
#define EXEC "*1\r\n$4\r\nEXEC\r\n"
#define DISCARD "*1\r\n$7\r\nDISCARD\r\n"
#define UNWATCH "*1\r\n$7\r\nUNWATCH\r\n"
#define WATCH_FOO "*2\r\n$5\r\nWATCH\r\n$3\r\nfoo\r\n"
#define WATCH_BAR "*2\r\n$5\r\nWATCH\r\n$3\r\nbar\r\n"
#define MOVED "-MOVED 12182 127.0.0.1:7002\r\n"
#define ASK "-ASK 12182 127.0.0.1:7002\r\n"
#define CROSSSLOT "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
#define EXECABORT "-EXECABORT Transaction discarded because of previous errors.\r\n"
#define EXEC_X "*2\r\n$4\r\nEXEC\r\n$1\r\nx\r\n"
#define REFUSED_EXEC                                                                           \
	"-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' "   \
	"command\r\n"
#define OK "+OK\r\n"
#define QUEUED "+QUEUED\r\n"

TEST(multi_is_sent_with_the_first_key)
{
	client_sends(f, MULTI, 1);
	assert_client_got(f, OK);
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, MULTI GET_FOO);
	node_sends(f, 1, OK QUEUED);
	assert_client_got(f, QUEUED);
	client_sends(f, GET_FOO EXEC GET_BAR, 3);
	assert_node_got(f, 1, GET_FOO EXEC);
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 1, QUEUED "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
	node_sends(f, 0, "$1\r\n3\r\n");
	assert_client_got(f, QUEUED "*2\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
}

TEST(errors_inside_are_redis_own)
{
	assert_passes(f, 1, MULTI GET_FOO EXEC, 3, OK "-OOM no\r\n" EXECABORT);
}

TEST(an_exec_that_redis_refuses_ends_it)
{
	client_sends(f, MULTI EXEC_X WATCH_FOO, 3);
	assert_node_got(f, 0, EXEC_X);
	assert_node_got(f, 1, WATCH_FOO);
	node_sends(f, 0, REFUSED_EXEC);
	node_sends(f, 1, OK);
	assert_client_got(f, OK REFUSED_EXEC OK);
	/* WATCH has the same effect on the EXEC after it without a transaction. */
	assert_passes(f, 1, EXEC_X, 1, REFUSED_EXEC);
	client_sends(f, MULTI GET_FOO EXEC_X MULTI GET_BAR EXEC, 6);
	assert_node_got(f, 1, MULTI GET_FOO EXEC_X);
	assert_node_got(f, 0, MULTI GET_BAR EXEC);
	node_sends(f, 1, OK QUEUED REFUSED_EXEC);
	node_sends(f, 0, OK QUEUED "*1\r\n:1\r\n");
	assert_client_got(f, OK QUEUED REFUSED_EXEC OK QUEUED "*1\r\n:1\r\n");
}

TEST(keys_of_other_slots_abort_it_at_its_node)
{
	client_sends(f, MULTI GET_FOO GET_BAR EXEC, 4);
	assert_node_got(f, 1, MULTI GET_FOO DISCARD);
	node_sends(f, 1, OK QUEUED OK);
	assert_client_got(f, OK QUEUED CROSSSLOT EXECABORT);
	assert_node_got_nothing(f, 0);
}

TEST(one_without_keys_is_the_default_node_nodes)
{
	assert_passes(f, 0, MULTI EXEC, 2, OK "*0\r\n");
}

TEST(one_that_begins_with_an_error_goes_to_its_key_all_the_same)
{
	client_sends(f, MULTI "*1\r\n$3\r\nGET\r\n" GET_FOO EXEC, 4);
	assert_node_got(f, 0, MULTI "*1\r\n$3\r\nGET\r\n");
	node_sends(f, 0, OK "-ERR arguments\r\n");
	assert_node_got(f, 1, MULTI "*1\r\n$3\r\nGET\r\n" GET_FOO EXEC);
	node_sends(f, 1, OK "-ERR arguments\r\n" QUEUED EXECABORT);
	assert_client_got(f, OK "-ERR arguments\r\n" QUEUED EXECABORT);
}

TEST(watched_keys_decide_the_node)
{
	client_sends(f, WATCH_FOO WATCH_BAR MULTI GET_FOO EXEC, 5);
	assert_node_got(f, 1, WATCH_FOO MULTI GET_FOO EXEC);
	node_sends(f, 1, OK OK QUEUED "*-1\r\n");
	assert_client_got(f, OK CROSSSLOT OK QUEUED "*-1\r\n");
	assert_node_got_nothing(f, 0);
}

/* Node 1 redirects a transaction's first command, so hasp discards the transaction there. */
static void transaction_is_redirected(struct cluster_fixture *f)
{
	client_sends(f, MULTI GET_FOO, 2);
	assert_node_got(f, 1, MULTI GET_FOO);
	node_sends(f, 1, OK MOVED);
	assert_client_got(f, OK QUEUED);
	assert_node_got(f, 1, DISCARD);
}

TEST(a_command_that_was_redirected_is_queued_elsewhere)
{
	transaction_is_redirected(f);
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 2, MULTI GET_FOO GET_FOO);
	node_sends(f, 2, OK QUEUED QUEUED);
	assert_client_got(f, QUEUED);
	assert_passes(f, 2, EXEC, 1, "*2\r\n:1\r\n:2\r\n");
}

TEST(one_whose_exec_is_on_its_way_begins_anew)
{
	client_sends(f, MULTI GET_FOO GET_FOO EXEC GET_FOO, 5);
	assert_node_got(f, 1, MULTI GET_FOO GET_FOO EXEC);
	/* Else the node might run the next command. */
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, OK QUEUED MOVED EXECABORT);
	assert_node_got(f, 2, MULTI GET_FOO GET_FOO EXEC);
	assert_node_got_nothing(f, 2);
	node_sends(f, 2, OK QUEUED QUEUED "*2\r\n:1\r\n:2\r\n");
	assert_node_got(f, 2, GET_FOO);
	node_sends(f, 2, ":3\r\n");
	assert_client_got(f, OK QUEUED QUEUED "*2\r\n:1\r\n:2\r\n:3\r\n");
}

/* The slot moves between the transaction's commands and its EXEC. */
TEST(exec_that_is_redirected_begins_anew)
{
	client_sends(f, MULTI GET_FOO EXEC, 3);
	assert_node_got(f, 1, MULTI GET_FOO EXEC);
	node_sends(f, 1, OK QUEUED MOVED);
	assert_node_got(f, 2, MULTI GET_FOO EXEC);
	/* The slot moves back. */
	node_sends(f, 2, OK "-ASK 12182 127.0.0.1:7001\r\n" EXECABORT);
	time_passes(f, 1);
	assert_node_got(f, 2, MULTI GET_FOO EXEC);
	node_sends(f, 2, OK QUEUED "*1\r\n:1\r\n");
	assert_client_got(f, OK QUEUED "*1\r\n:1\r\n");
}

TEST(an_error_of_another_kind_is_no_reason_to_begin_anew)
{
	assert_passes(f, 1, MULTI GET_FOO EXEC, 3, OK QUEUED EXECABORT);
}

TEST(what_was_watched_elsewhere_counts_as_changed)
{
	assert_passes(f, 1, WATCH_FOO, 1, OK);
	node_takes_over(f, SPARE, 1);
	client_sends(f, MULTI GET_FOO, 2);
	assert_node_got(f, 1, UNWATCH);
	assert_node_got(f, 2, MULTI GET_FOO);
	node_sends(f, 2, OK QUEUED);
	client_sends(f, EXEC, 1);
	assert_node_got(f, 2, DISCARD);
	node_sends(f, 2, OK);
	assert_client_got(f, OK QUEUED "*-1\r\n");
	client_sends(f, WATCH_BAR, 1);
	assert_node_got(f, 0, WATCH_BAR);
}

TEST(exec_of_watched_keys_that_is_redirected_fails)
{
	client_sends(f, WATCH_FOO MULTI GET_FOO EXEC, 4);
	assert_node_got(f, 1, WATCH_FOO MULTI GET_FOO EXEC);
	node_sends(f, 1, OK OK QUEUED MOVED);
	assert_client_got(f, OK OK QUEUED "*-1\r\n");
}

/* Redis has run no command of the transaction. */
TEST(one_whose_node_dies_begins_anew)
{
	assert_passes(f, 1, MULTI GET_FOO, 2, OK QUEUED);
	node_vanishes(f, 1);
	node_takes_over(f, SPARE, 1);
	client_sends(f, GET_FOO EXEC, 2);
	assert_node_got(f, 2, MULTI GET_FOO GET_FOO EXEC);
	node_sends(f, 2, OK QUEUED QUEUED "*2\r\n:1\r\n:2\r\n");
	assert_client_got(f, QUEUED "*2\r\n:1\r\n:2\r\n");
	assert_int_equal(f->ndown, 0);
}

/* After a command that no node accepts, the next command must not be run at once. */
TEST(a_command_that_no_node_takes_aborts_it)
{
	node_vanishes(f, 1);
	client_sends(f, MULTI GET_FOO, 2);
	turn_loop(f);
	time_passes(f, 1000);
	turn_loop(f);
	assert_true(buf_len(&f->bytes) > 5 &&
	            memcmp(buf_head(&f->bytes), OK "-ERR hasp: no ", 18) == 0);
	buf_clear(&f->bytes);
	node_takes_over(f, SPARE, 1);
	client_sends(f, GET_FOO EXEC, 2);
	assert_node_got(f, 2, MULTI GET_FOO GET_FOO DISCARD);
	node_sends(f, 2, OK QUEUED QUEUED OK);
	assert_client_got(f, QUEUED EXECABORT);
}

TEST(discard_is_for_the_node_that_has_it)
{
	client_sends(f, MULTI DISCARD, 2);
	assert_client_got(f, OK OK);
	assert_passes(f, 1, MULTI GET_FOO DISCARD, 3, OK QUEUED OK);
	assert_node_got_nothing(f, 0);
}

/* The refused connection would queue the client's later commands. */
TEST(a_node_that_refuses_discard_gets_a_new_connection)
{
	assert_passes(f, 1, MULTI GET_FOO, 2, OK QUEUED);
	client_sends(f, DISCARD, 1);
	assert_node_got(f, 1, DISCARD);
	node_sends(f, 1, "-NOPERM no\r\n");
	assert_client_got(f, OK);
	assert_node_was_left(f, 1);
	client_sends(f, MULTI GET_FOO GET_BAR EXEC, 4);
	assert_node_got(f, 1, MULTI GET_FOO DISCARD);
	node_sends(f, 1, OK QUEUED "-NOPERM no\r\n");
	assert_client_got(f, OK QUEUED CROSSSLOT EXECABORT);
	assert_node_was_left(f, 1);
	assert_passes(f, 1, GET_FOO, 1, ":1\r\n");
}

TEST(a_node_that_refuses_hasp_s_own_discard_gets_a_new_connection)
{
	transaction_is_redirected(f);
	node_sends(f, 1, "-NOPERM no\r\n");
	assert_node_was_left(f, 1);
	client_sends(f, EXEC, 1);
	assert_node_got(f, 2, MULTI GET_FOO EXEC);
	node_sends(f, 2, OK QUEUED "*1\r\n:1\r\n");
	assert_client_got(f, "*1\r\n:1\r\n");
}

/* The command is longer than a request that hasp may pass on in parts. */
TEST(a_long_command_is_part_of_it)
{
	enum { N = 40000 };
	char *set = malloc(N + 64), *all = malloc(N + 128);
	int head = sprintf(set, "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$%d\r\n", N);

	memset(set + head, 'x', N);
	strcpy(set + head + N, "\r\n");
	sprintf(all, "%s%s%s", MULTI, set, EXEC);
	client_sends(f, MULTI, 1);
	client_sends_bytes(f, slice_of(set, 20000), 1);
	turn_loop(f);
	assert_node_got_nothing(f, 1);
	assert_true(link_user_nbytes(&f->user) >= 20000);
	client_sends_bytes(f, slice_of(set + 20000, strlen(set) - 20000), 0);
	client_sends(f, EXEC, 1);
	assert_node_got(f, 1, all);
	node_sends(f, 1, OK QUEUED "*1\r\n+OK\r\n");
	assert_client_got(f, OK QUEUED "*1\r\n+OK\r\n");
	free(set);
	free(all);
}

TEST(one_that_is_too_long_aborts_it)
{
	static char value[40000];

	memset(value, 'x', sizeof(value));
	cluster_set_limits(f->cluster, 10000, 30000);
	client_sends(f, MULTI, 1);
	assert_client_got(f, OK);
	client_sends(f, "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$40000\r\n", 1);
	client_sends_bytes(f, slice_of(value, 20000), 0);
	client_sends_bytes(f, slice_of(value, 20000), 0);
	client_sends(f, "\r\n" EXEC, 1);
	assert_client_got(f, "-ERR hasp: in front of a cluster, the request is too long to be "
	                     "split, or to be part of a transaction\r\n" EXECABORT);
	assert_node_got_nothing(f, 1);
}

/* The node gets WATCH and UNWATCH late, when a transaction is open at the home node. */
TEST(a_late_unwatch_does_not_belong_to_the_next_transaction)
{
	assert_passes(f, 0, "PING\r\n", 1, "+PONG\r\n");
	client_sends(f, "WATCH foo\r\nUNWATCH\r\nMULTI\r\nNOSUCH\r\n", 4);
	assert_node_got(f, 1, "WATCH foo\r\nUNWATCH\r\n");
	assert_node_got(f, 0, "*1\r\n$5\r\nMULTI\r\nNOSUCH\r\n");
	node_sends(f, 1, "+OK\r\n+OK\r\n");
	node_sends(f, 0, "+OK\r\n-ERR unknown command\r\n");
	assert_client_got(f, "+OK\r\n+OK\r\n+OK\r\n-ERR unknown command\r\n");
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 0, "*1\r\n$7\r\nDISCARD\r\n");
	assert_node_got(f, 1, "*1\r\n$5\r\nMULTI\r\nNOSUCH\r\n" GET_FOO);
	node_sends(f, 1, "+OK\r\n-ERR unknown command\r\n+QUEUED\r\n");
	assert_client_got(f, "+QUEUED\r\n");
}
