/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the records of clients at an upgrade: the next hasp takes only a record that it
 * understands in full.
 */

#include "client/client.h"
#include "tests/unit/testing.h"

/* Returns true if a record with this field, and a listener, is accepted. */
static bool is_taken(struct slice name, struct slice value)
{
	struct slice fields[] = { SLICE_LIT("listener"), SLICE_LIT("*:6380"), name, value };
	struct resp_view record = { 4, fields };
	struct slice listener;
	bool taken = client_record_check(&record, &listener);

	if (taken)
		assert_true(slice_eq(listener, SLICE_LIT("*:6380")));
	return taken;
}

#define TAKEN(name, value) assert_true(is_taken(SLICE_LIT(name), SLICE_LIT(value)))
#define NOT_TAKEN(name, value) assert_false(is_taken(SLICE_LIT(name), SLICE_LIT(value)))

TEST(numbers_are_read_whole)
{
	TAKEN("db", "7");
	TAKEN("db", "2147483647");
	TAKEN("db", "000000000000000000000000000000000000000000000000000000000000001");
	NOT_TAKEN("db", "0000000000000000000000000000000000000000000000000000000000000001");
	NOT_TAKEN("db", "");
	NOT_TAKEN("db", "-1");
	NOT_TAKEN("db", "2147483648");
	NOT_TAKEN("db", "7x");
	TAKEN("protocol", "2");
	TAKEN("protocol", "3");
	NOT_TAKEN("protocol", "4");
	TAKEN("since", "12345.25");
	NOT_TAKEN("since", "now");
}

TEST(texts_have_no_nul)
{
	TAKEN("user", "alice");
	TAKEN("user", "");
	NOT_TAKEN("user", "al\0ice");
	TAKEN("input", "*1\r\n\0");
}

TEST(a_value_that_was_seen_has_its_key_before_it)
{
	TAKEN("seen", "0 1 1 kv");
	TAKEN("seen", "0 1 2 kv");
	NOT_TAKEN("seen", "0 1 3 kv");
	NOT_TAKEN("seen", "-1 1 1 kv");
	NOT_TAKEN("seen", "0 9 1 kv");
	NOT_TAKEN("seen", "0 1");
}

TEST(a_checked_read_is_written_as_a_value_that_was_seen)
{
	TAKEN("checked", "0 1 1 kaf49");
	TAKEN("checked", "0 2 1 k-");
	TAKEN("checked", "0 1 1 k");
	NOT_TAKEN("checked", "0 0 1 k");
}

TEST(what_has_another_name_is_not_understood)
{
	struct slice fields[] = { SLICE_LIT("listener"), SLICE_LIT("*:6380"), SLICE_LIT("db") };
	struct slice listener;

	NOT_TAKEN("mood", "good");
	NOT_TAKEN("", "");
	assert_false(client_record_check(&(struct resp_view){ 3, fields }, &listener));
	assert_false(client_record_check(&(struct resp_view){ 0, fields }, &listener));
	fields[1] = SLICE_LIT("7");
	fields[0] = SLICE_LIT("db");
	assert_false(client_record_check(&(struct resp_view){ 2, fields }, &listener));
}
