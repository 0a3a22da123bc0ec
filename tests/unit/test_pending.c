/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the record of a request until its reply: the login that it asks for, and the locks
 * to probe after the reply.
 */

#define TEST_FIXTURE struct session *s

#include "base/fatal.h"
#include "tests/unit/session_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(session_set_up, session_tear_down);

/* --- keys to be probed --------------------------------------------------------------- */

static void note_key(void *arg, struct slice key)
{
	struct buf *keys = arg;

	buf_printf(keys, "[%zu", key.n);
	buf_append(keys, key);
	buf_puts(keys, "]");
}

static void assert_probes(const struct pending_request *r, struct slice expected)
{
	struct buf keys = BUF_INIT;

	pending_each_probe_key(r, note_key, &keys);
	assert_true(slice_eq(buf_slice(&keys), expected));
	buf_release(&keys);
}

TEST(an_answered_request_tells_the_keys_that_are_to_be_probed)
{
	struct pending_request *r = pending_new(PENDING_PROBE);

	assert_probes(r, SLICE_NONE);
	pending_add_probe_key(r, SLICE_LIT("a"));
	pending_add_probe_key(r, SLICE_LIT(""));
	pending_add_probe_key(r, SLICE_LIT("b\0]"));
	assert_probes(r, SLICE_LIT("[1a][0][3b\0]]"));
	ANSWER(s, sent(s, r), ":1\r\n");
	assert_int_equal(s->nawaited, 0);
}

TEST(exec_tells_those_of_the_commands_that_it_carries_out)
{
	struct pending_request *first = pending_new(PENDING_PROBE);
	struct pending_request *second = pending_new(PENDING_LOCK), *exec;

	pending_add_probe_key(first, SLICE_LIT("a"));
	pending_add_probe_key(second, SLICE_LIT("b"));
	pending_add_probe_key(second, SLICE_LIT("c"));
	transaction_begin(&s->txn);
	sent(s, first);
	sent_other(s);
	sent(s, second);
	exec = sent_exec(s);
	assert_non_null(exec);
	assert_probes(exec, SLICE_LIT("[1a][1b][1c]"));
	ANSWER(s, exec, "*3\r\n:1\r\n:1\r\n:1\r\n");
}

/* --- logins -------------------------------------------------------------------------- */

TEST(only_a_login_names_a_user_or_a_name)
{
	static const enum pending_kind logins[] = { PENDING_AUTH, PENDING_HELLO, PENDING_NAME };
	struct pending_request *r;

	for (size_t i = 0; i < sizeof(logins) / sizeof(*logins); i++) {
		r = pending_new(logins[i]);
		assert_null(pending_user(r));
		assert_null(pending_name(r));
		r->login->texts[TEXT_USER] = xstrdup("alice");
		r->login->texts[TEXT_NAME] = xstrdup("worker");
		assert_string_equal(pending_user(r), "alice");
		assert_string_equal(pending_name(r), "worker");
		pending_free(r);
	}
	/* A subscription stores other facts in the same bytes. */
	r = pending_new(PENDING_SUBSCRIBE);
	r->acks.due = SIZE_MAX;
	assert_null(pending_user(r));
	assert_null(pending_name(r));
	pending_free(r);
}

/* --- memory -------------------------------------------------------------------------- */

TEST(a_request_that_ends_leaves_its_list)
{
	struct pending_request *first = sent_select(s, 1), *second = sent_select(s, 2);

	pending_free(first);
	assert_ptr_equal(s->awaited.next, &second->node);
	pending_free(second);
	assert_true(list_empty(&s->awaited));
}

TEST(an_exec_that_ends_takes_what_it_carries_out_along)
{
	transaction_begin(&s->txn);
	sent_auth(s, "alice");
	sent_select(s, 2);
	/* The sanitizers report a leak if EXEC does not free the requests. */
	pending_free(sent_exec(s));
	assert_true(list_empty(&s->awaited));
}

static unsigned nfreed;

static void count_freed(struct pending_request *r)
{
	assert_int_equal(r->kind, PENDING_GUARD);
	nfreed++;
}

static size_t nbytes_of_rest;

static size_t rest_nbytes(const struct pending_request *r)
{
	assert_int_equal(r->kind, PENDING_GUARD);
	return nbytes_of_rest;
}

static const struct pending_ops counted_rest = { count_freed, rest_nbytes };

TEST(what_it_means_for_others_is_freed_by_them)
{
	struct pending_request *r = pending_new(PENDING_GUARD);

	r->rest = &counted_rest;
	nfreed = 0;
	pending_free(r);
	assert_int_equal(nfreed, 1);
}

TEST(its_memory_counts_until_it_is_freed)
{
	struct pending_request *r = pending_new(PENDING_GUARD);
	size_t total = 5, before;

	r->rest = &counted_rest;
	nbytes_of_rest = 1000;
	pending_charge(r, &total);
	before = total;
	assert_true(before >= 5 + 1000 + sizeof(*r));
	nbytes_of_rest = 3000;
	pending_charge(r, &total);
	assert_int_equal(total, before + 2000);
	pending_free(r);
	assert_int_equal(total, 5);
}

TEST(memory_from_a_freelist_goes_back_there)
{
	struct pending_request *r;
	struct freelist freelist;
	size_t nkept;

	freelist_init(&freelist, PENDING_SIZE);
	freelist_give(&freelist, freelist_take(&freelist));
	nkept = freelist.n;
	r = pending_new_of(&freelist, PENDING_LOCK);
	assert_int_equal(freelist.n, 0);
	pending_add_probe_key(r, SLICE_LIT("a"));
	pending_free(r);
	assert_int_equal(freelist.n, nkept);
	r = pending_new_of(&freelist, PENDING_GUARD);
	assert_probes(r, SLICE_NONE);
	pending_free(r);
	freelist_fini(&freelist);
}
