/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which values of the header Host: may read what names keys. An address cannot be rebound; of
 * names only those that the operator knows are allowed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "admin/http_internal.h"
#include "tests/unit/inifile.h"

/* Longer than any address. */
#define LONG "00000000000000000000000000000000000000000000000000000000000000000000000000"
#define UPSTREAM "[upstream]\naddress = unix:/nowhere\n"

static void assert_all(const struct config *config, bool allowed, const char *const *hosts)
{
	for (; *hosts; hosts++)
		if (http_host_is_allowed(*hosts, config) != allowed)
			fail_msg("'%s' is %s", *hosts, allowed ? "not allowed" : "allowed");
}

static void addresses_are_allowed(void **state)
{
	static const char *const hosts[] = { "127.0.0.1",        "192.0.2.7:9000",
		                             "0.0.0.0:1",        "[::1]",
		                             "[2001:db8::1]:80", "[::ffff:1.2.3.4]",
		                             "127.0.0.1.",       NULL };

	assert_all(*state, true, hosts);
}

static void what_only_looks_like_an_address_is_not(void **state)
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

static void names_below_localhost_are_allowed(void **state)
{
	static const char *const hosts[] = { "localhost",  "localhost:8080", "LocalHost",
		                             "localhost.", "hasp.localhost", "a.b.LOCALHOST.:1",
		                             NULL };

	assert_all(*state, true, hosts);
}

static void other_names_are_not(void **state)
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

static void names_of_the_file_are_allowed(void **state)
{
	static const char *const hosts[] = { "admin.internal", "ADMIN.internal:9000",
		                             "admin.internal.", "second", NULL };

	assert_all(*state, true, hosts);
}

static void name_that_hasp_listens_at_is_allowed(void **state)
{
	struct config *config = load("[http]\nlisten = hasp.example:9000\n" UPSTREAM);
	static const char *const hosts[] = { "hasp.example", "hasp.example:1", "HASP.example.",
		                             NULL };

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_allowed),
		cmocka_unit_test(what_only_looks_like_an_address_is_not),
		cmocka_unit_test(names_below_localhost_are_allowed),
		cmocka_unit_test(other_names_are_not),
		cmocka_unit_test(names_of_the_file_are_allowed),
		cmocka_unit_test(name_that_hasp_listens_at_is_allowed),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
