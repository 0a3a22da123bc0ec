/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the header Host: which values may read paths that show keys. An address cannot be
 * rebound; only names in the configuration are allowed.
 */

#include "admin/http_internal.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"

/* A text longer than any address. */
#define LONG "00000000000000000000000000000000000000000000000000000000000000000000000000"
#define UPSTREAM "[upstream]\naddress = unix:/nowhere\n"

static void assert_all(const struct config *config, bool allowed, const char *const *hosts)
{
	for (; *hosts; hosts++)
		if (http_host_is_allowed(*hosts, config) != allowed)
			fail_msg("'%s' is %s", *hosts, allowed ? "not allowed" : "allowed");
}

TEST(addresses_are_allowed)
{
	static const char *const hosts[] = { "127.0.0.1",        "192.0.2.7:9000",
		                             "0.0.0.0:1",        "[::1]",
		                             "[2001:db8::1]:80", "[::ffff:1.2.3.4]",
		                             "127.0.0.1.",       NULL };

	assert_all(*state, true, hosts);
}

TEST(what_only_looks_like_an_address_is_not)
{
	static const char *const hosts[] = { "1.2.3",
		                             "1.2.3.4.5",
		                             "1.2.3.256",
		                             "0x7f.1",
		                             "::1",
		                             "[127.0.0.1]",
		                             "[::1",
		                             "[]",
		                             "[localhost]",
		                             "[::1.evil.example]",
		                             "1.2.3.4.evil.example",
		                             "[" LONG LONG LONG LONG "::1]",
		                             NULL };

	assert_all(*state, false, hosts);
}

TEST(names_below_localhost_are_allowed)
{
	static const char *const hosts[] = { "localhost",  "localhost:8080", "LocalHost",
		                             "localhost.", "hasp.localhost", "a.b.LOCALHOST.:1",
		                             NULL };

	assert_all(*state, true, hosts);
}

TEST(other_names_are_not)
{
	static const char *const hosts[] = { "evil.example",
		                             "evillocalhost",
		                             ".localhost",
		                             "localhost.evil.example",
		                             "localhost..",
		                             "admin.internal.evil.example",
		                             "internal",
		                             "",
		                             ".",
		                             ":80",
		                             NULL };

	assert_all(*state, false, hosts);
	assert_false(http_host_is_allowed(NULL, *state));
}

TEST(names_of_the_file_are_allowed)
{
	static const char *const hosts[] = { "admin.internal", "ADMIN.internal:9000",
		                             "admin.internal.", "second", NULL };

	assert_all(*state, true, hosts);
}

TEST(name_that_hasp_listens_at_is_allowed)
{
	struct config *config = load("[http]\nlisten = hasp.example:9000\n" UPSTREAM);
	static const char *const hosts[] = { "hasp.example", "hasp.example:1", "HASP.example.",
		                             NULL };

	assert_all(config, true, hosts);
	assert_false(http_host_is_allowed("second", config));
	config_unref(config);
}

static int set_up(void **state)
{
	if (ini_make_dir(state) < 0)
		return -1;
	*state = load("[http]\nlisten = 127.0.0.1:9000\nallowed_hosts = admin.internal "
	              "second\n" UPSTREAM);
	return 0;
}

static int tear_down(void **state)
{
	config_unref(*state);
	return ini_remove_dir(state);
}

GROUP_FIXTURE(set_up, tear_down);
