/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lines that are valid but probably mistakes: hasp warns of each with its line and a
 * right value, and does not warn of similar lines that are fine.
 */

#include <sys/stat.h>

#include "config/config.h"
#include "config/option.h"
#include "config/types.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

static void assert_warned(const char *text, const char *expected)
{
	config_unref(load_warned(text, expected));
}

static void assert_fine(const char *text)
{
	config_unref(load(text));
}

/* ---- patterns ---- */

TEST(a_pattern_of_every_key_is_warned_of)
{
	config_unref(load_warned("[lock a]\npattern = a\n\t?*\n\tb\n[lock b]\npattern = *\n",
	                         "3: pattern '?*' of [lock a] makes every key a lock; name "
	                         "only the keys that are locks, such as lock:*\n"
	                         "6: pattern '*' of [lock b] makes every key a lock; name only "
	                         "the keys that are locks, such as lock:*\n"));
}

TEST(a_pattern_that_looks_like_a_prefix_is_warned_of)
{
	assert_warned("[lock a]\npattern = lock: cron\n",
	              "2: pattern 'lock:' of [lock a] has no wildcard and matches only the key "
	              "of that name; expected 'lock:*', or a whole key\n");
	assert_fine("[lock a]\npattern = cron leader lock:\\*:\n");
}

TEST(a_shadowed_pattern_is_warned_of)
{
	config_unref(
		load_warned("[lock a]\npattern = x:*\n[lock b]\npattern = y:* x:*\n"
	                    "[lock c]\npattern = x:1 z\n",
	                    "4: pattern 'x:*' of [lock b] never applies, since the earlier "
	                    "[lock a] matches the same keys; remove it or move it up\n"
	                    "6: pattern 'x:1' of [lock c] never applies, since the earlier "
	                    "[lock a] matches the same keys; remove it or move it up\n"));
}

TEST(a_pattern_of_hasps_reserved_keys_is_warned_of)
{
	config_unref(load_warned("[lock a]\npattern = hasp:owner:*\n",
	                         "2: pattern 'hasp:owner:*' of [lock a] never applies, since "
	                         "keys that begin with 'hasp:' are reserved for hasp\n"));
}

TEST(a_guards_patterns_are_warned_of)
{
	config_unref(load_warned(
		"[guard a]\nacquire_on = GET\npattern = x:*\n\t**\n"
		"[guard b]\nacquire_on = GET\npattern = x:1 y l:*\n\thasp:a\n"
		"[lock l]\npattern = l:*\n",
		"4: pattern '**' of [guard a] guards every key; name only keys that clients "
		"read, change and write back, such as stock:*\n7: pattern 'x:1' of [guard b] "
		"never applies, since the earlier [guard a] matches the same keys; remove it "
		"or move it up\n"
		"7: pattern 'y' of [guard b] never applies, since the earlier [guard a] "
		"matches the same keys; remove it or move it up\n"
		"7: pattern 'l:*' of [guard b] never applies, since [lock l] matches the same "
		"keys and locks are not guarded; remove one of the two\n8: pattern 'hasp:a' of "
		"[guard b] never applies, since the earlier [guard a] matches the same keys; "
		"remove it or move it up\n"));
	config_unref(load_warned("[guard a]\nacquire_on = GET\npattern = hasp:a*\n",
	                         "3: pattern 'hasp:a*' of [guard a] never applies, since keys "
	                         "that begin with 'hasp:' are reserved for hasp\n"));
}

TEST(a_command_named_twice_is_warned_of)
{
	config_unref(load_warned(
		"[guard a]\npattern = a\nacquire_on = GET GETDEL\n\tget Get\n"
		"release_on = GETDEL SET SET\n",
		"4: 'get' stands twice in 'acquire_on' of [guard a]; remove one\n"
		"4: 'Get' stands twice in 'acquire_on' of [guard a]; remove one\n"
		"5: 'SET' stands twice in 'release_on' of [guard a]; remove one\n"));
}

TEST(a_pattern_behind_a_wider_one_is_warned_of)
{
	assert_warned("[lock a]\npattern = lock:*\n[lock b]\npattern = lock:order:*\n",
	              "4: pattern 'lock:order:*' of [lock b] never applies, since the earlier "
	              "[lock a] matches the same keys; remove it or move it up\n");
	assert_warned(
		"[lock a]\npattern = lock:*\n[guard b]\npattern = lock:[ab]?\n"
		"acquire_on = GET\n",
		"4: pattern 'lock:[ab]?' of [guard b] never applies, since [lock a] matches "
		"the same keys and locks are not guarded; remove one of the two\n");
	assert_fine("[lock a]\npattern = lock:order:*\n[lock b]\npattern = lock:*\n");
	assert_fine("[lock a]\npattern = lock:*:x\n[lock b]\npattern = lock:a*\n");
	assert_fine("[lock a]\npattern = lock?*\n[lock b]\npattern = lock*\n");
	assert_fine("[lock a]\npattern = \\a*\n[lock b]\npattern = \\ab\\*\n");
}

TEST(quotes_around_a_pattern_are_warned_of)
{
	assert_warned("[lock a]\npattern = \"lock:*\"\n\t'a' b'\n",
	              "2: pattern '\"lock:*\"' of [lock a] has quotes, which hasp takes "
	              "literally; remove them, or write \\\" if the keys have them\n"
	              "3: pattern ''a'' of [lock a] has quotes, which hasp takes literally; "
	              "remove them, or write \\' if the keys have them\n"
	              "3: pattern 'b'' of [lock a] has quotes, which hasp takes literally; "
	              "remove them, or write \\' if the keys have them\n");
	assert_fine("[lock a]\npattern = it's \\\"a*\n");
}

TEST(a_regular_expression_is_warned_of)
{
#define REGULAR_EXPRESSION(pattern)                                                            \
	assert_warned(                                                                         \
		"[lock a]\npattern = " pattern "\n",                                           \
		"2: pattern '" pattern                                                         \
		"' of [lock a] looks like a regular expression; expected a glob pattern for "  \
		"the whole key, such as lock:*, or \\^ and \\$ if the keys have them\n")
	REGULAR_EXPRESSION("^lock:.*$");
	REGULAR_EXPRESSION("^lock");
	REGULAR_EXPRESSION("lock$");
	assert_fine("[lock a]\npattern = a^b a$b [^a]x \\^a a\\$\n");
}

/* ---- numbers ---- */

TEST(a_large_number_of_seconds_is_warned_of)
{
	assert_warned("[lock a]\npattern = a\nlease = 30000\nmax_hold = 500001\n",
	              "3: 'lease' is '30000', and a number without a unit is in seconds; write "
	              "30s for milliseconds, else 30000s\n"
	              "4: 'max_hold' is '500001', and a number without a unit is in seconds; "
	              "write 500001ms for milliseconds, else 500001s\n");
	assert_fine("[lock a]\npattern = a\nlease = 999\nmax_hold = 7200\nwait = 1000s\n"
	            "[hasp]\nmax_clients = 30000\nmax_request = 3000000\n");
}

TEST(a_max_hold_that_ends_within_the_first_lease_is_warned_of)
{
#define MAX_HOLD(line, title, least)                                                           \
	line ": 'max_hold' of [" title "] is less than its 'lease', so renewal ends within "   \
	     "the first lease; expected " least " or more, or 0 for no limit\n"
	assert_warned("[lock a]\npattern = a\nlease = 30s\nmax_hold = 29s\n",
	              MAX_HOLD("4", "lock a", "30s"));
	assert_warned("[lock a]\npattern = a\nlease = 11m\n", MAX_HOLD("3", "lock a", "11m"));
	assert_warned("[verbs]\nmax_hold = 5s\n", MAX_HOLD("2", "verbs", "30s"));
	assert_fine(
		"[lock a]\npattern = a\nmax_hold = 30s\n[lock b]\npattern = b\nmax_hold = 0\n"
		"[lock c]\npattern = c\nlease = 11m\nrenew = no\n");
}

/* ---- the process ---- */

TEST(an_upstream_that_is_hasp_itself_is_warned_of)
{
#define ITSELF(listen, address)                                                                \
	assert_warned("[upstream]\naddress = " address "\n[hasp]\nlisten = " listen "\n",      \
	              "2: 'address' of [upstream] is '" address                                \
	              "', but hasp itself listens at '" listen                                 \
	              "'; expected the address of Redis\n")
	ITSELF("127.0.0.1:6380", "127.0.0.1:6380");
	ITSELF("redis:6380", "redis:6380");
	ITSELF("unix:/run/s", "unix:/run/s");
	ITSELF("*:6379", "127.0.0.1:6379");
	ITSELF("0.0.0.0:6379", "localhost:6379");
	ITSELF("[::]:6379", "[::1]:6379");
	ITSELF("localhost:6379", "127.0.0.1:6379");
	ITSELF("127.0.0.1:6379", "localhost:6379");
	assert_warned("[hasp]\nlisten = 127.0.0.1:6379\n",
	              "2: 'address' of [upstream] is '127.0.0.1:6379', but hasp itself listens "
	              "at '127.0.0.1:6379'; expected the address of Redis\n");
	assert_fine("[hasp]\nlisten = *:6380 10.0.0.1:6379 unix:/run/s:6379\n");
	assert_fine("[hasp]\nlisten = *:6379\n[upstream]\naddress = redis:6379\n");
	assert_fine("[hasp]\nlisten = *:6379\n[upstream]\naddress = unix:/run/s:6379\n");
}

TEST(a_password_that_each_user_can_read_is_warned_of)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;

	assert_fine("[upstream]\npassword = p\n");
	assert_int_equal(chmod(ini_path, 0644), 0);
	config_unref(config_load(ini_path, &faults, &warnings));
	assert_lines(&faults, "");
	assert_lines(&warnings,
	             "2: every user of this machine can read this file, and 'password' in it; "
	             "make it readable for hasp's user or group only (chmod o-r)\n");
	buf_clear(&warnings);
	assert_int_equal(chmod(ini_path, 0640), 0);
	config_unref(config_load(ini_path, &faults, &warnings));
	assert_lines(&warnings, "");
	buf_release(&faults);
	buf_release(&warnings);
}
