/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of hasp's own calls: renewals, releases, and checks of an attempt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp/write.h"
#include "tests/unit/rewrite_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(NULL, rewrite_tear_down);

static const struct rewrite_opts own = { .secret = SLICE_LIT("secret") };

TEST(test_many_locks_are_renewed_in_one_call)
{
	static const struct lock_renewal rules[] = {
		{ { LOCK_KIND_RULE, SLICE_LIT("a"), SLICE_LIT("t1") }, 9000, 0 },
		{ { LOCK_KIND_VALUE, SLICE_LIT("b"), SLICE_LIT("v2") }, 8000, 0 },
	};
	static const struct lock_renewal locks[] = {
		{ { LOCK_KIND_COUNT, SLICE_LIT("a"), SLICE_LIT("t1") }, 9000, 5 },
		{ { LOCK_KIND_TOKEN, SLICE_LIT("b"), SLICE_LIT("t2") }, 8000, 6 },
	};

	assert_int_equal(rewrite_renewal(LOCK_KIND_RULE), SCRIPT_RENEW);
	assert_int_equal(rewrite_renewal(LOCK_KIND_VALUE), SCRIPT_RENEW);
	rewrite_renew(&out, SCRIPT_RENEW, rules, 2, &own);
	assert_calls(SCRIPT_RENEW,
	             "6 a hasp:fence:{a} hasp:owner:{a} b hasp:fence:{b} b 9000 t1 8000 v2");
	buf_clear(&out);
	assert_int_equal(rewrite_renewal(LOCK_KIND_COUNT), SCRIPT_RENEW_VERB);
	assert_int_equal(rewrite_renewal(LOCK_KIND_TOKEN), SCRIPT_RENEW_VERB);
	rewrite_renew(&out, SCRIPT_RENEW_VERB, locks, 2, &own);
	assert_calls(SCRIPT_RENEW_VERB,
	             "6 a hasp:fence:{a} hasp:owner:{a} b hasp:fence:{b} hasp:owner:{b} "
	             "9000 t1 5 hash 8000 t2 6 string");
}

TEST(test_a_release_hands_off)
{
	static const struct lock_ident by_owner = { LOCK_KIND_RULE, SLICE_LIT("k"),
		                                    SLICE_LIT("t") };
	static const struct lock_ident value = { LOCK_KIND_VALUE, SLICE_LIT("k"),
		                                 SLICE_LIT("v") };
	static const struct lock_ident verb = { LOCK_KIND_TOKEN, SLICE_LIT("k"),
		                                SLICE_LIT("t") };

	assert_int_equal(rewrite_release(&out, &by_owner, SLICE_LIT("w-7"), 30000, &own),
	                 SCRIPT_RELEASE);
	assert_calls(SCRIPT_RELEASE, "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence "
	                             "hasp:owner:{k} secret t w-7 30000");
	buf_clear(&out);
	assert_int_equal(rewrite_release(&out, &value, SLICE_LIT("w-8"), 0, &own),
	                 SCRIPT_RELEASE);
	assert_calls(SCRIPT_RELEASE,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence k secret v w-8 0");
	buf_clear(&out);
	assert_int_equal(rewrite_unlock(&out, &verb, SLICE_LIT("w-7"), &own), SCRIPT_UNLOCK);
	assert_calls(SCRIPT_UNLOCK, "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence "
	                            "hasp:owner:{k} secret t string w-7");
}

TEST(test_an_operator_names_no_owner)
{
	static const struct lock_ident by_owner = { LOCK_KIND_RULE, SLICE_LIT("k"),
		                                    SLICE_LIT("") };
	static const struct lock_ident verb = { LOCK_KIND_COUNT, SLICE_LIT("k"),
		                                SLICE_LIT("") };

	assert_int_equal(rewrite_force(&out, &by_owner, &own), SCRIPT_FORCE);
	assert_calls(SCRIPT_FORCE, "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence "
	                           "hasp:owner:{k} secret r");
	buf_clear(&out);
	assert_int_equal(rewrite_force(&out, &verb, &own), SCRIPT_FORCE);
	assert_calls(SCRIPT_FORCE, "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence "
	                           "hasp:owner:{k} secret verb");
}

TEST(test_many_locks_are_looked_at_by_one_call)
{
	const struct lock_place v[] = { { SLICE_LIT("a"), 7, 0 }, { SLICE_LIT("b"), 8, 0 } };
	const struct lock_place places[] = { { SLICE_LIT("a"), 7, 2 },
		                             { SLICE_LIT("b"), 8, 3 } };

	assert_int_equal(rewrite_recheck(&out, v, 2, &own), SCRIPT_RECHECK);
	assert_calls(SCRIPT_RECHECK, "4 a b hasp:queue:{a} hasp:queue:{b} 7 8");
	buf_clear(&out);
	assert_int_equal(rewrite_recheck(&out, places, 2, &own), SCRIPT_RECHECK);
	assert_calls(SCRIPT_RECHECK, "4 a b hasp:queue:{a} hasp:queue:{b} 7 8 2 3");
}

TEST(test_a_try_is_looked_at_and_left_by_its_ticket)
{
	struct attempt t = { .id = { LOCK_KIND_RULE, SLICE_LIT("k"), SLICE_LIT("t") },
		             .value = SLICE_LIT("v"),
		             .ticket = SLICE_LIT(TICKET),
		             .place = 1795254000000001 };
#define KEYS "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} secret "

	assert_int_equal(rewrite_poll(&out, &t, 0, &own), SCRIPT_POLL);
	assert_calls(SCRIPT_POLL, KEYS TICKET " 1795254000000001 r t v \"\"");
	buf_clear(&out);
	assert_int_equal(rewrite_poll(&out, &t, 7000, &own), SCRIPT_POLL);
	assert_calls(SCRIPT_POLL, KEYS TICKET " 1795254000000001 r t v 7000");
	buf_clear(&out);
	assert_int_equal(rewrite_dequeue(&out, &t, false, &own), SCRIPT_DEQUEUE);
	assert_calls(SCRIPT_DEQUEUE, KEYS TICKET " 1795254000000001 r t v tell");
	buf_clear(&out);
	t.place = -1;
	assert_int_equal(rewrite_dequeue(&out, &t, true, &own), SCRIPT_DEQUEUE);
	resp_write_bulk_int(&out, 250);
	assert_calls(SCRIPT_DEQUEUE, KEYS TICKET " \"\" r t v undo 250");
	buf_clear(&out);
	t.place = 0;
	t.id.kind = LOCK_KIND_VALUE;
	assert_int_equal(rewrite_dequeue(&out, &t, true, &own), SCRIPT_DEQUEUE);
	assert_calls(SCRIPT_DEQUEUE,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence k secret " TICKET
	             " 0 v t v undo");
#undef KEYS
}
