/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of commands/args.c and slice_integer(): the arguments after a command's name, read as
 * Redis reads them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "commands/args.h"
#include "tests/unit/testing.h"

TEST(test_integers_are_read_as_redis_reads_them)
{
	static const struct {
		const char *text;
		bool ok;
		int64_t v;
	} cases[] = {
		{ "0", true, 0 },
		{ "1", true, 1 },
		{ "-1", true, -1 },
		{ "9223372036854775807", true, INT64_MAX },
		{ "-9223372036854775808", true, INT64_MIN },
		{ "9223372036854775808", false, 0 },
		{ "-9223372036854775809", false, 0 },
		{ "99999999999999999999999", false, 0 },
		{ "", false, 0 },
		{ "-", false, 0 },
		{ "+1", false, 0 },
		{ " 1", false, 0 },
		{ "1 ", false, 0 },
		{ "01", false, 0 },
		{ "-0", false, 0 },
		{ "1.0", false, 0 },
		{ "1e3", false, 0 },
		{ "x", false, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t v = 42;
		if (slice_integer(slice_str(cases[i].text), &v) != cases[i].ok)
			fail_msg("%s", cases[i].text);
		if (cases[i].ok)
			assert_true(v == cases[i].v);
	}
	assert_false(slice_integer(SLICE_NONE, &(int64_t){ 0 }));
}

TEST(test_options_end_at_a_nul_as_in_redis)
{
	assert_true(args_option(SLICE_LIT("nX"), "NX"));
	assert_true(args_option(SLICE_LIT("NX\0junk"), "NX"));
	assert_false(args_option(SLICE_LIT("NXX"), "NX"));
	assert_false(args_option(SLICE_LIT("N"), "NX"));
	assert_false(args_option(SLICE_LIT(""), "NX"));
	assert_true(args_option(SLICE_LIT("lib-NAME"), "LIB-NAME"));
	assert_false(args_option(SLICE_LIT("LIB\rNAME"), "LIB-NAME"));
	assert_false(args_option(SLICE_LIT("XA"), "X!"));
}
