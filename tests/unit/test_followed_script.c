/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of scripts that clients run: the replies to hasp's reads show what a script has done to
 * its client's lock, and a hold begins, changes or ends accordingly.
 */

#define TEST_FIXTURE struct hold_fixture *f

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lock/hold/hold_internal.h"
#include "tests/unit/hold_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(hold_set_up, hold_tear_down);

#define NIL "$-1\r\n"
#define MINE "$4\r\nmine\r\n"
#define YOURS "$5\r\nyours\r\n"

static const struct slice args[] = { { "mine", 4 }, { "30000", 5 }, { "", 0 } };

static struct lock_request *follow(const struct hold_fixture *f, const struct rule *rule)
{
	const struct hold_terms terms = { .rule = rule };

	return lock_request_follow(f->holds, SLICE_LIT("lock"), args, 3, &terms);
}

/* Gives `p` the bytes as a link does, whose scan shows where a reply ends. */
static void feed_piece(struct lock_request *p, struct reply_scan *scan, struct slice bytes)
{
	size_t used;

	while (bytes.n) {
		enum resp_result r = reply_scan(scan, bytes.p, bytes.n, &used);

		assert_int_not_equal(r, RESP_BAD);
		followed_script_feed(p, slice_take(&bytes, used), r == RESP_OK);
	}
}

/* Gives `p` whole replies. */
static void feed(struct lock_request *p, const char *replies)
{
	struct reply_scan scan = { 0 };

	feed_piece(p, &scan, slice_str(replies));
	assert_true(reply_scan_at_start(&scan));
}

/* The replies to GET, PTTL, the script, GET and PTTL, and the effect that they show. */
struct read {
	const char *before, *left, *answer, *after;
	struct resp_reply pttl;
	enum lock_effect effect;
	const char *value;
	int64_t lease_ms;
};

#define FREE NIL, ":-2\r\n"
#define MS(n)                                                                                  \
	{                                                                                      \
		.type = ':', .integer = (n)                                                    \
	}
/* Time between the two reads, in ms. */
#define PASSED_MS 20

static const struct read reads[] = {
	{ FREE, "+OK\r\n", MINE, MS(9), LOCK_EFFECT_TAKES, "mine", 9 },
	{ "_\r\n", ":-2\r\n", ":1\r\n", MINE, MS(-1), LOCK_EFFECT_TAKES, "mine", 0 },
	{ FREE, "+OK\r\n", MINE, MS(0), LOCK_EFFECT_TAKES, "mine", 1 },
	{ YOURS, ":9\r\n", "*2\r\n:1\r\n*1\r\n$2\r\n\r\n\r\n", MINE, MS(9), LOCK_EFFECT_TAKES,
	  "mine", 9 },
	{ FREE, ":17\r\n", "$2\r\n17\r\n", MS(9), LOCK_EFFECT_TAKES, "17", 9 },
	{ MINE, ":1000\r\n", "-ERR\r\n", MINE, MS(1051), LOCK_EFFECT_EXPIRES, "mine", 1051 },
	{ MINE, ":1000\r\n", ":1\r\n", MINE, MS(929), LOCK_EFFECT_EXPIRES, "mine", 929 },
	{ MINE, ":-1\r\n", ":1\r\n", MINE, MS(9), LOCK_EFFECT_EXPIRES, "mine", 9 },
	{ YOURS, ":9\r\n", "$-1\r\n", YOURS, MS(90), LOCK_EFFECT_EXPIRES, "yours", 90 },
	{ MINE, ":9\r\n", ":1\r\n", NIL, MS(-2), LOCK_EFFECT_DROPS, "mine", 0 },
	{ YOURS, ":9\r\n", ":1\r\n", "_\r\n", MS(-2), LOCK_EFFECT_DROPS, "yours", 0 },
	{ MINE, ":1000\r\n", ":1\r\n", MINE, MS(1050), LOCK_EFFECT_NONE, "mine", 1050 },
	{ MINE, ":1000\r\n", ":1\r\n", MINE, MS(930), LOCK_EFFECT_NONE, "mine", 930 },
	{ MINE, ":-1\r\n", ":1\r\n", MINE, MS(-1), LOCK_EFFECT_NONE, "mine", 0 },
	{ MINE, ":9\r\n", ":1\r\n", MINE, MS(-1), LOCK_EFFECT_NONE, "mine", 0 },
	/* The value is another client's, although the script has returned it. */
	{ FREE, YOURS, YOURS, MS(9), LOCK_EFFECT_NONE, NULL, 0 },
	{ FREE, ":17\r\n", "$2\r\n18\r\n", MS(9), LOCK_EFFECT_NONE, NULL, 0 },
	{ FREE, "+mine\r\n", "$0\r\n\r\n", MS(9), LOCK_EFFECT_NONE, NULL, 0 },
	/* The lock was free throughout, or is free again. */
	{ FREE, ":0\r\n", NIL, MS(-2), LOCK_EFFECT_NONE, NULL, 0 },
	{ FREE, "+OK\r\n", MINE, MS(-2), LOCK_EFFECT_NONE, NULL, 0 },
	{ "-WRONGTYPE x\r\n", ":9\r\n", "+OK\r\n", MINE, MS(9), LOCK_EFFECT_NONE, NULL, 0 },
	{ MINE, ":9\r\n", "+OK\r\n", "-WRONGTYPE x\r\n", MS(9), LOCK_EFFECT_NONE, NULL, 0 },
	{ FREE, "+OK\r\n", MINE, { .type = '-' }, LOCK_EFFECT_NONE, NULL, 0 },
	{ MINE, "-NOPERM x\r\n", "+OK\r\n", MINE, MS(9), LOCK_EFFECT_NONE, "mine", 9 },
};

static void assert_end(struct lock_request *p, const struct read *r)
{
	followed_script_end(p, &r->pttl, PASSED_MS);
	assert_int_equal(p->effect, r->effect);
	if (r->value)
		assert_true(slice_eq(token_slice(p->token), slice_str(r->value)));
	else
		assert_int_equal(p->token->n, 0);
	assert_int_equal(p->lease_ms, r->lease_ms);
	assert_int_equal(p->leased, r->lease_ms > 0);
	assert_int_equal(followed_script_failed(p), *r->answer == '-');
	lock_request_free(p);
}

TEST(the_reads_tell_what_a_script_has_done)
{
	for (size_t i = 0; i < sizeof(reads) / sizeof(*reads); i++) {
		struct lock_request *p = follow(*state, &rule_by_value);

		feed(p, reads[i].before);
		feed(p, reads[i].left);
		assert_false(followed_script_failed(p));
		feed(p, reads[i].answer);
		feed(p, reads[i].after);
		assert_end(p, &reads[i]);
	}
}

TEST(replies_may_come_in_any_pieces)
{
	for (size_t i = 0; i < sizeof(reads) / sizeof(*reads); i++) {
		char all[128];
		size_t n = (size_t)snprintf(all, sizeof(all), "%s%s%s%s", reads[i].before,
		                            reads[i].left, reads[i].answer, reads[i].after);

		for (size_t at = 0; at <= n; at++) {
			struct lock_request *p = follow(*state, &rule_by_value);
			struct reply_scan scan = { 0 };
			feed_piece(p, &scan, slice_of(all, at));
			feed_piece(p, &scan, slice_of(all + at, n - at));
			assert_end(p, &reads[i]);
		}
		struct lock_request *p = follow(*state, &rule_by_value);
		struct reply_scan scan = { 0 };
		for (size_t at = 0; at < n; at++)
			feed_piece(p, &scan, slice_of(all + at, 1));
		assert_end(p, &reads[i]);
	}
}

TEST(a_reply_that_is_missing_makes_nothing_of_the_script)
{
	const struct read none = { FREE, "+", NULL, MS(9), LOCK_EFFECT_NONE, NULL, 0 };
	struct lock_request *p = follow(*state, &rule_by_value);

	feed(p, NIL ":-2\r\n");
	feed(p, "+OK\r\n");
	assert_end(p, &none);
}

/* Appends a bulk string of `n` bytes, and a NUL. */
static void append_string(struct buf *out, size_t n)
{
	buf_printf(out, "$%zu\r\n", n);
	for (size_t i = 0; i < n; i++)
		buf_append(out, SLICE_LIT("x"));
	buf_append(out, SLICE_LIT("\r\n"));
}

TEST(of_long_replies_little_is_kept)
{
	const struct hold_terms terms = { .rule = &rule_by_value };
	struct buf longest = BUF_INIT, longer = BUF_INIT;
	struct slice value;

	append_string(&longest, SEEN_VALUE_MAX);
	append_string(&longer, SEEN_VALUE_MAX + 1);
	for (int is_longer = 0; is_longer < 2; is_longer++) {
		struct slice reply = buf_slice(is_longer ? &longer : &longest);
		struct resp_reply pttl = MS(9);
		struct reply_scan scan = { 0 };
		struct lock_request *p;
		size_t before;

		value = slice_of(strchr(reply.p, 'x'), SEEN_VALUE_MAX + (size_t)is_longer);
		p = lock_request_follow(f->holds, SLICE_LIT("lock"), &value, 1, &terms);
		before = lock_request_nbytes(p);
		feed(p, NIL ":-2\r\n");
		feed_piece(p, &scan, SLICE_LIT("*4\r\n"));
		for (int i = 0; i < 4; i++)
			feed_piece(p, &scan, buf_slice(&longer));
		feed_piece(p, &scan, reply);
		assert_true(lock_request_nbytes(p) < before + 8 * SEEN_VALUE_MAX);
		followed_script_end(p, &pttl, PASSED_MS);
		assert_int_equal(p->effect, is_longer ? LOCK_EFFECT_NONE : LOCK_EFFECT_TAKES);
		lock_request_free(p);
	}
	buf_release(&longest);
	buf_release(&longer);
}

/* --- holds --------------------------------------------------------------------------- */

/* Runs the script; Redis reports these values and PTTLs of the lock before and after it. */
static void run(struct hold_fixture *f, const struct rule *rule, const char *before,
                long long left, const char *after, long long pttl)
{
	struct resp_reply reply = MS(pttl);
	struct lock_request *p = follow(f, rule);
	char number[32];

	snprintf(number, sizeof(number), ":%lld\r\n", left);
	feed(p, before);
	feed(p, number);
	feed(p, "+OK\r\n");
	feed(p, after);
	hold_apply(f->holds, &f->owner, p, 0, &reply);
}

static void assert_lease(const struct hold_fixture *f, double good_until, bool renewed)
{
	const struct hold *hold = hold_first(f->holds, 0, SLICE_LIT("lock"));

	assert_non_null(hold);
	if (isinf(good_until))
		assert_true(isinf(hold->good_until));
	else
		assert_float_equal(hold->good_until, HOLD_NOW + good_until, 0.001);
	assert_int_equal(hold_is_renewed(hold), renewed);
}

TEST(a_script_takes_extends_shortens_and_releases)
{
	struct rule renewed = rule_by_value;

	renewed.renew = RENEW_YES;
	run(f, &renewed, NIL, -2, MINE, 30000);
	assert_int_equal(f->owner.n, 1);
	assert_lease(f, 30, true);
	/* The clocks differ, but the script did nothing. */
	run(f, &renewed, MINE, 20000, MINE, 20000);
	run(f, &renewed, MINE, 50000, MINE, 50000);
	assert_lease(f, 30, true);
	run(f, &renewed, MINE, 29000, MINE, 40000);
	assert_lease(f, 40, true);
	/* hasp renewed the lock between the reads. */
	run(f, &renewed, MINE, 29000, MINE, 39990);
	assert_lease(f, 40, true);
	run(f, &renewed, MINE, 40000, MINE, -1);
	assert_lease(f, 40, true);
	run(f, &renewed, YOURS, 9000, YOURS, 50000);
	assert_lease(f, 40, true);
	run(f, &renewed, MINE, 40000, MINE, 5000);
	assert_lease(f, 5, false);
	run(f, &renewed, MINE, 5000, NIL, -2);
	assert_int_equal(f->owner.n, 0);
}

TEST(hasp_s_first_expiry_of_a_lock_is_not_the_script_s)
{
	struct rule unleased = rule_by_value;
	struct hold *hold;

	unleased.renew = RENEW_UNLEASED;
	run(f, &unleased, NIL, -2, MINE, -1);
	assert_lease(f, INFINITY, true);
	/* A renewal sets the expiry this way. */
	hold = hold_first(f->holds, 0, SLICE_LIT("lock"));
	hold->good_until = HOLD_NOW + 30;
	run(f, &unleased, MINE, -1, MINE, 29990);
	assert_lease(f, 30, true);
	/* The script set this expiry. */
	run(f, &unleased, MINE, -1, MINE, 40000);
	assert_lease(f, 40, false);
}

TEST(a_script_limits_a_lock_before_hasp_does)
{
	struct rule unleased = rule_by_value;

	unleased.renew = RENEW_UNLEASED;
	run(f, &unleased, NIL, -2, MINE, -1);
	run(f, &unleased, MINE, -1, MINE, 5000);
	assert_lease(f, 5, false);
}

TEST(only_the_database_of_the_script_counts)
{
	struct resp_reply reply = MS(9);
	struct lock_request *p = follow(f, &rule_by_value);

	feed(p, NIL ":-2\r\n+OK\r\n" MINE);
	hold_apply(f->holds, &f->owner, p, -1, &reply);
	assert_int_equal(f->owner.n, 0);
}

TEST(a_script_that_is_never_answered_undoes_nothing)
{
	lock_request_undo(follow(f, &rule_by_value), 0);
	assert_int_equal(f->owner.n, 0);
}
