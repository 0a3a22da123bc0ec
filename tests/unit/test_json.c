/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whatever is written as JSON is valid.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/json.h"

static int tear_down(void **state)
{
	struct buf *out = *state;

	buf_release(out);
	return 0;
}

static int set_up(void **state)
{
	static struct buf out;

	out = BUF_INIT;
	*state = &out;
	return 0;
}

static void assert_written(void **state, const char *expected)
{
	struct buf *out = *state;

	buf_append(out, slice_of("", 1));
	assert_string_equal(buf_head(out), expected);
}

static void members_are_separated_and_named(void **state)
{
	struct json j = { *state, false };

	json_open(&j, NULL, '{');
	json_count(&j, "n", UINT64_MAX);
	json_open(&j, "list", '[');
	json_close(&j, ']');
	json_open(&j, "others", '[');
	json_bool(&j, NULL, true);
	json_open(&j, NULL, '{');
	json_word(&j, "none", NULL);
	json_close(&j, '}');
	json_number(&j, NULL, 1.256, 2);
	json_close(&j, ']');
	json_bool(&j, "end", false);
	json_close(&j, '}');
	assert_written(state, "{\"n\":18446744073709551615,\"list\":[],\"others\":[true,"
	                      "{\"none\":null},1.26],\"end\":false}");
}

static void numbers_that_json_does_not_have_are_null(void **state)
{
	struct json j = { *state, false };

	json_number(&j, NULL, INFINITY, 1);
	json_number(&j, NULL, NAN, 1);
	json_number(&j, NULL, -0.5, 0);
	assert_written(state, "null,null,-0");
}

static void quotes_and_control_characters_are_escaped(void **state)
{
	struct json j = { *state, false };

	json_text(&j, NULL, SLICE_LIT("a\"\\\n\0\x1f</script>\x7f"));
	assert_written(state, "\"a\\\"\\\\\\u000a\\u0000\\u001f</script>\x7f\"");
}

static void characters_stay_and_what_is_none_is_replaced(void **state)
{
	struct json j = { *state, false };

	json_text(&j, NULL, SLICE_LIT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\x92"));
	json_text(&j, NULL,
	          SLICE_LIT("\xff"
	                    "a\xc3"));
	/* Longer than needed; half of a pair; beyond the last one. */
	json_text(&j, NULL, SLICE_LIT("\xc0\xaf"));
	json_text(&j, NULL, SLICE_LIT("\xed\xa0\x80"));
	json_text(&j, NULL, SLICE_LIT("\xf4\x90\x80\x80"));
#define R "\xef\xbf\xbd"
	assert_written(state, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\x92\",\"" R "a" R "\",\"" R R
	                      "\",\"" R R R "\",\"" R R R R "\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(members_are_separated_and_named, set_up,
		                                tear_down),
		cmocka_unit_test_setup_teardown(numbers_that_json_does_not_have_are_null,
		                                set_up, tear_down),
		cmocka_unit_test_setup_teardown(quotes_and_control_characters_are_escaped,
		                                set_up, tear_down),
		cmocka_unit_test_setup_teardown(characters_stay_and_what_is_none_is_replaced,
		                                set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
