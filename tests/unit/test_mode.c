/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a cluster's node says of itself is what a single server would say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/mode.h"

static void assert_hidden(const char *reply, const char *expected)
{
	struct buf out = BUF_INIT;

	mode_hide(slice_str(reply), &out);
	if (!slice_eq(buf_slice(&out), slice_str(expected)))
		fail_msg("%.*s", (int)buf_len(&out), buf_head(&out));
	buf_release(&out);
}

static void test_hello_says_standalone(void **state)
{
	(void)state;
	assert_hidden(
		"*4\r\n$4\r\nmode\r\n$7\r\ncluster\r\n$4\r\nrole\r\n$6\r\nmaster\r\n",
		"*4\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n");
	assert_hidden("%1\r\n$4\r\nmode\r\n$7\r\ncluster\r\n",
	              "%1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n");
	assert_hidden("%1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n",
	              "%1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n");
}

static void test_info_says_standalone(void **state)
{
	(void)state;
	assert_hidden("$49\r\n# Server\r\nredis_mode:cluster\r\ncluster_enabled:1\r\n\r\n",
	              "$52\r\n# Server\r\nredis_mode:standalone\r\ncluster_enabled:0\r\n\r\n");
	assert_hidden("$31\r\n# Server\r\nserver_mode:cluster\r\n\r\n",
	              "$34\r\n# Server\r\nserver_mode:standalone\r\n\r\n");
	assert_hidden("=34\r\ntxt:# Server\r\nredis_mode:cluster\r\n\r\n",
	              "=37\r\ntxt:# Server\r\nredis_mode:standalone\r\n\r\n");
	assert_hidden("$9\r\n# Memory\n\r\n", "$9\r\n# Memory\n\r\n");
	assert_hidden("$0\r\n\r\n", "$0\r\n\r\n");
}

static void test_errors_stay_what_they_are(void **state)
{
	(void)state;
	assert_hidden("-NOPROTO unsupported protocol version\r\n",
	              "-NOPROTO unsupported protocol version\r\n");
	assert_hidden("", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello_says_standalone),
		cmocka_unit_test(test_info_says_standalone),
		cmocka_unit_test(test_errors_stay_what_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
