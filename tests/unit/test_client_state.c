/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A client's state changes only as the diagram in client/client_internal.h says.
 */

#include "client/client_internal.h"
#include "tests/unit/testing.h"

/* A row for each state: 'x' in the columns of the states that may follow it. */
static const char *const diagram[] = {
	/*                    OPEN STREAMING TUNNEL REFUSED PARKED:REPLY DEFERRED LINK SPACE
	 * COMMAND QUEUE TURN ACK ROUND FINISHING DEAD */
	/* OPEN            */ "xxxxxxxxxx...xxx",
	/* STREAMING       */ "x..x..........xx",
	/* TUNNEL          */ "..............xx",
	/* REFUSED         */ "..............xx",
	/* PARKED_REPLY    */ "x...x.x..xxxx.xx",
	/* PARKED_DEFERRED */ "x.............xx",
	/* PARKED_LINK     */ "x...x.x..x....xx",
	/* PARKED_SPACE    */ "x.............xx",
	/* PARKED_COMMAND  */ "x.............xx",
	/* PARKED_QUEUE    */ "x...x.x..x....xx",
	/* PARKED_TURN     */ "x...x.x..x....xx",
	/* PARKED_ACK      */ "....x.........xx",
	/* PARKED_ROUND    */ "x.............xx",
	/* HANDED          */ "x..............x",
	/* FINISHING       */ "...............x",
	/* DEAD            */ "................",
};

TEST(the_diagram_has_each_state)
{
	static const enum client_state order[] = {
		CLIENT_OPEN,         CLIENT_STREAMING,    CLIENT_TUNNEL,
		CLIENT_REFUSED,      CLIENT_PARKED_REPLY, CLIENT_PARKED_DEFERRED,
		CLIENT_PARKED_LINK,  CLIENT_PARKED_SPACE, CLIENT_PARKED_COMMAND,
		CLIENT_PARKED_QUEUE, CLIENT_PARKED_TURN,  CLIENT_PARKED_ACK,
		CLIENT_PARKED_ROUND, CLIENT_HANDED,       CLIENT_FINISHING,
		CLIENT_DEAD,
	};

	assert_int_equal(CLIENT_STATES, 16);
	for (size_t i = 0; i < CLIENT_STATES; i++)
		assert_int_equal(order[i], i);
}

TEST(a_client_may_go_where_the_diagram_says_and_nowhere_else)
{
	for (int from = 0; from < CLIENT_STATES; from++) {
		assert_int_equal(strlen(diagram[from]), CLIENT_STATES);
		for (int to = 0; to < CLIENT_STATES; to++)
			if (client_may_become(from, to) != (diagram[from][to] == 'x'))
				fail_msg("from %d to %d", from, to);
	}
}

TEST(the_parked_states_are_those_that_say_so)
{
	for (int i = 0; i < CLIENT_STATES; i++) {
		struct client c = { .state = i };
		assert_int_equal(client_is_parked(&c),
		                 i >= CLIENT_PARKED_REPLY && i <= CLIENT_PARKED_ROUND);
		assert_int_equal(client_is_ending(&c), i >= CLIENT_FINISHING);
		assert_int_equal(client_is_dead(&c), i == CLIENT_DEAD);
	}
}

/* Without a login, hasp keeps no more than one request of the longest length. */
TEST(without_a_login_no_request_is_longer_than_one)
{
	struct node node = { 0 };
	struct client_env env = { .node = &node };
	struct client c = { .env = &env };

	node.links.login_required = true;
	c.scan.argc = REQUEST_LOGIN_ARGC + 1;
	assert_false(partial_is_refused(&c));
	c.scan.state = 1;
	assert_true(partial_is_refused(&c));
	c.scan.argc = REQUEST_LOGIN_ARGC;
	c.scan.bulk = REQUEST_LOGIN_BULK;
	assert_false(partial_is_refused(&c));
	c.scan.bulk++;
	assert_true(partial_is_refused(&c));
	c.session.login = LOGIN_ADMITTED;
	assert_false(partial_is_refused(&c));
}
