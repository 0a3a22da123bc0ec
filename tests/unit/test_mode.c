/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of cluster/mode.c: a cluster node's answers about itself become those of a single
 * server.
 */
#include <string.h>

#include "cluster/session_internal.h"
#include "tests/unit/testing.h"

static void assert_id_replaced(const char *reply, uint64_t id, const char *expected)
{
	struct buf out = BUF_INIT;

	hide_cluster_mode(slice_str(reply), id, &out);
	if (!slice_eq(buf_slice(&out), slice_str(expected)))
		fail_msg("%.*s", (int)buf_len(&out), buf_head(&out));
	buf_release(&out);
}

static void assert_hidden(const char *reply, const char *expected)
{
	assert_id_replaced(reply, 1, expected);
}

TEST(test_hello_says_standalone)
{
	assert_hidden(
		"*4\r\n$4\r\nmode\r\n$7\r\ncluster\r\n$4\r\nrole\r\n$6\r\nmaster\r\n",
		"*4\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n");
	assert_hidden("%1\r\n$4\r\nmode\r\n$7\r\ncluster\r\n",
	              "%1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n");
	assert_hidden("%1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n",
	              "%1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n");
}

TEST(test_info_says_standalone)
{
	assert_hidden("$49\r\n# Server\r\nredis_mode:cluster\r\ncluster_enabled:1\r\n\r\n",
	              "$52\r\n# Server\r\nredis_mode:standalone\r\ncluster_enabled:0\r\n\r\n");
	assert_hidden("$31\r\n# Server\r\nserver_mode:cluster\r\n\r\n",
	              "$34\r\n# Server\r\nserver_mode:standalone\r\n\r\n");
	assert_hidden("=34\r\ntxt:# Server\r\nredis_mode:cluster\r\n\r\n",
	              "=37\r\ntxt:# Server\r\nredis_mode:standalone\r\n\r\n");
	assert_hidden("$9\r\n# Memory\n\r\n", "$9\r\n# Memory\n\r\n");
	assert_hidden("$0\r\n\r\n", "$0\r\n\r\n");
}

TEST(test_an_id_is_replaced)
{
	assert_id_replaced(":7\r\n", 4503599627370496, ":4503599627370496\r\n");
	assert_id_replaced("*4\r\n$2\r\nid\r\n:71\r\n$4\r\nmode\r\n$1\r\nx\r\n", 5,
	                   "*4\r\n$2\r\nid\r\n:5\r\n$4\r\nmode\r\n$1\r\nx\r\n");
	assert_id_replaced("%1\r\n$2\r\nid\r\n:7\r\n", 50, "%1\r\n$2\r\nid\r\n:50\r\n");
	assert_id_replaced("$12\r\nid=7 addr=id\r\n", 123, "$14\r\nid=123 addr=id\r\n");
	assert_id_replaced("=10\r\ntxt:id=789\r\n", 1, "=8\r\ntxt:id=1\r\n");
}

TEST(test_a_reply_without_an_id_stays_as_it_is)
{
	static const char *const replies[] = {
		"-ERR no\r\n", "$9\r\n# Memory\n\r\n", "$0\r\n\r\n", "$-1\r\n",
		"*0\r\n",      "=4\r\ntxt:\r\n",       ":",          "",
	};

	for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++)
		assert_id_replaced(replies[i], 5, replies[i]);
}

TEST(test_errors_stay_what_they_are)
{
	assert_hidden("-NOPROTO unsupported protocol version\r\n",
	              "-NOPROTO unsupported protocol version\r\n");
	assert_hidden("", "");
}
