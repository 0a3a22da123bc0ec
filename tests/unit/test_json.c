/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/json.c: its output is always valid JSON.
 */

#define TEST_FIXTURE struct buf *out

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "tests/unit/testing.h"

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

FIXTURE(set_up, tear_down);

static void assert_written(void **state, const char *expected)
{
	struct buf *out = *state;

	buf_append(out, slice_of("", 1));
	assert_string_equal(buf_head(out), expected);
}

TEST(members_are_separated_and_named)
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

TEST(numbers_that_json_does_not_have_are_null)
{
	struct json j = { *state, false };

	json_number(&j, NULL, INFINITY, 1);
	json_number(&j, NULL, NAN, 1);
	json_number(&j, NULL, -0.5, 0);
	assert_written(state, "null,null,-0");
}

TEST(quotes_and_control_characters_are_escaped)
{
	struct json j = { *state, false };

	json_text(&j, NULL, SLICE_LIT("a\"\\\n\0\x1f</script>\x7f"));
	assert_written(state, "\"a\\\"\\\\\\u000a\\u0000\\u001f</script>\x7f\"");
}

TEST(characters_stay_and_what_is_none_is_replaced)
{
	struct json j = { *state, false };

	json_text(&j, NULL, SLICE_LIT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\x92"));
	json_text(&j, NULL,
	          SLICE_LIT("\xff"
	                    "a\xc3"));
	/* An overlong sequence; half of a surrogate pair; a code point above the last one. */
	json_text(&j, NULL, SLICE_LIT("\xc0\xaf"));
	json_text(&j, NULL, SLICE_LIT("\xed\xa0\x80"));
	json_text(&j, NULL, SLICE_LIT("\xf4\x90\x80\x80"));
#define R "\xef\xbf\xbd"
	assert_written(state, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\x92\",\"" R "a" R "\",\"" R R
	                      "\",\"" R R R "\",\"" R R R R "\"");
}
