/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a lock's call to a cluster that hasp withdraws because its client no longer waits
 * for it.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(cluster_set_up, cluster_tear_down);

#define MGET_FOO "*3\r\n$4\r\nMGET\r\n$3\r\nfoo\r\n$6\r\n{foo}1\r\n"
#define TRYAGAIN "-TRYAGAIN Multiple keys request\r\n"
#define ASK_FOO "-ASK 12182 127.0.0.1:7002\r\n"
#define WITHDRAWN "-ERR withdrawn\r\n"

static void withdraw(struct cluster_fixture *f)
{
	link_withdraw(f->link, SLICE_LIT(WITHDRAWN));
	turn_loop(f);
}

TEST(what_no_node_has_can_be_withdrawn)
{
	client_sends(f, GET_BAR MGET_FOO, 2);
	assert_node_got(f, 0, GET_BAR);
	assert_node_got(f, 1, MGET_FOO);
	withdraw(f);
	node_sends(f, 1, TRYAGAIN);
	withdraw(f);
	assert_client_got(f, "");
	node_sends(f, 0, ":1\r\n");
	assert_client_got(f, ":1\r\n" WITHDRAWN);
	withdraw(f);
	time_passes(f, 0.1);
	assert_node_got_nothing(f, 1);
	assert_passes(f, 1, GET_FOO, 1, ":2\r\n");
}

TEST(what_its_node_refuses_after_that_is_not_sent_again)
{
	client_sends(f, MGET_FOO, 1);
	assert_node_got(f, 1, MGET_FOO);
	withdraw(f);
	assert_client_got(f, "");
	node_sends(f, 1, TRYAGAIN);
	assert_client_got(f, WITHDRAWN);
	time_passes(f, 0.1);
	assert_node_got_nothing(f, 1);
	client_sends(f, MGET_FOO, 1);
	assert_node_got(f, 1, MGET_FOO);
	node_sends(f, 1, TRYAGAIN);
	time_passes(f, 0.1);
	assert_node_got(f, 1, MGET_FOO);
}

TEST(nor_to_another_node)
{
	client_sends(f, GET_BAR GET_FOO, 2);
	assert_node_got(f, 0, GET_BAR);
	assert_node_got(f, 1, GET_FOO);
	withdraw(f);
	node_sends(f, 1, ASK_FOO);
	assert_node_got_nothing(f, SPARE);
	node_sends(f, 0, ":1\r\n");
	assert_client_got(f, ":1\r\n" WITHDRAWN);
}

TEST(what_its_node_carries_out_after_that_is_answered)
{
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	withdraw(f);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n");
}

TEST(what_waits_for_a_link_can_be_withdrawn)
{
	node_vanishes(f, 1);
	client_sends(f, GET_FOO, 1);
	time_passes(f, 0.1);
	withdraw(f);
	assert_client_got(f, WITHDRAWN);
	assert_passes(f, 0, GET_BAR, 1, ":2\r\n");
}

TEST(what_a_node_has_or_another_request_waits_before_is_not_withdrawn)
{
	client_sends(f, MGET_FOO, 1);
	assert_node_got(f, 1, MGET_FOO);
	node_sends(f, 1, TRYAGAIN);
	client_sends(f, GET_FOO, 1);
	withdraw(f);
	time_passes(f, 0.1);
	assert_node_got(f, 1, MGET_FOO);
	withdraw(f);
	node_sends(f, 1, "*1\r\n:1\r\n");
	assert_node_got(f, 1, GET_FOO);
	withdraw(f);
	node_sends(f, 1, ":2\r\n");
	assert_client_got(f, "*1\r\n:1\r\n:2\r\n");
}
