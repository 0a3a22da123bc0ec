/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the reply that shows whether a server has the lock of an attempt.
 */
#include <string.h>

#include "lock/ack/replica_acks.h"
#include "tests/unit/testing.h"

static struct attempt try_of(enum lock_kind kind)
{
	return (struct attempt){
		.id = { kind, SLICE_LIT("k"), SLICE_LIT("token") },
		.value = kind == LOCK_KIND_GUARD ? SLICE_LIT("token") : SLICE_LIT("v"),
		.ticket = SLICE_LIT("w-7"),
	};
}

static bool shows(enum lock_kind kind, const char *content)
{
	struct attempt t = try_of(kind);
	redisReply reply = { .type = REDIS_REPLY_STRING };

	reply.str = (char *)(uintptr_t)content;
	reply.len = strlen(content);
	return replica_look_shows(&t, &reply);
}

static bool shows_integer(enum lock_kind kind, long long integer)
{
	struct attempt t = try_of(kind);
	redisReply reply = { .type = REDIS_REPLY_INTEGER, .integer = integer };

	return replica_look_shows(&t, &reply);
}

static void assert_looks(enum lock_kind kind, const char *expected)
{
	struct attempt t = try_of(kind);
	struct buf out = BUF_INIT;

	replica_look_write(&t, KEY_NAMING_SERVER, &out);
	assert_int_equal(buf_len(&out), strlen(expected));
	assert_memory_equal(buf_head(&out), expected, strlen(expected));
	buf_release(&out);
}

TEST(the_record_is_looked_at_or_the_lock)
{
	assert_looks(LOCK_KIND_RULE, "*2\r\n$3\r\nGET\r\n$14\r\nhasp:fence:{k}\r\n");
	assert_looks(LOCK_KIND_TOKEN, "*2\r\n$3\r\nGET\r\n$14\r\nhasp:fence:{k}\r\n");
	assert_looks(LOCK_KIND_GUARD, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
	assert_looks(LOCK_KIND_COUNT, "*3\r\n$7\r\nHEXISTS\r\n$1\r\nk\r\n$5\r\ntoken\r\n");
}

TEST(a_record_names_the_try)
{
	static const enum lock_kind kinds[] = { LOCK_KIND_RULE, LOCK_KIND_VALUE,
		                                LOCK_KIND_TOKEN };

	for (size_t i = 0; i < 3; i++) {
		assert_true(shows(kinds[i], "token 12 w-7"));
		assert_true(shows(kinds[i], "- - =w-7"));
		assert_false(shows(kinds[i], "token 12 w-70"));
		assert_false(shows(kinds[i], "token 12 xw-7"));
		assert_false(shows(kinds[i], "token w-7 -"));
		assert_false(shows(kinds[i], "w-7"));
		assert_false(shows(kinds[i], ""));
		assert_false(shows_integer(kinds[i], 1));
	}
}

TEST(a_guard_names_its_owner)
{
	assert_true(shows(LOCK_KIND_GUARD, "token"));
	assert_true(shows(LOCK_KIND_GUARD, "token w-9"));
	assert_false(shows(LOCK_KIND_GUARD, "token2"));
	assert_false(shows(LOCK_KIND_GUARD, "toke"));
	assert_false(shows(LOCK_KIND_GUARD, ""));
}

TEST(a_counted_lock_has_its_owner)
{
	assert_true(shows_integer(LOCK_KIND_COUNT, 1));
	assert_false(shows_integer(LOCK_KIND_COUNT, 0));
	assert_false(shows(LOCK_KIND_COUNT, "token 12 w-7"));
}

TEST(no_answer_and_no_lock_show_nothing)
{
	struct attempt t = try_of(LOCK_KIND_RULE);
	redisReply nil = { .type = REDIS_REPLY_NIL };

	assert_false(replica_look_shows(&t, NULL));
	assert_false(replica_look_shows(&t, &nil));
}
