/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests that the cost of a command grows with its keys, and not with its keys times the watched
 * or guarded keys. The tests compare CPU times: if hasp searched for each key among all others,
 * the ratio would be in the hundreds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lock/guard/read_set.h"
#include "lock/rewrite/guard.h"
#include "session/session.h"
#include "tests/unit/testing.h"

#define MANY 200000
#define RATIO_MAX 15
#define RUNS 3 /* more, up to RUNS_MAX, if the ratio is too great */
#define RUNS_MAX 20

static struct slice names[MANY];

static int set_up_names(void **state)
{
	static char text[MANY][16];

	(void)state;
	for (int i = 0; i < MANY; i++) {
		int n = snprintf(text[i], sizeof(text[i]), "key:%07d", i);
		names[i] = slice_of(text[i], (size_t)n);
	}
	return 0;
}

GROUP_FIXTURE(set_up_names, NULL);

static clock_t cost(void (*fn)(size_t n), size_t n)
{
	clock_t began = clock();

	fn(n);
	return clock() - began + 1;
}

static clock_t less(clock_t a, clock_t b)
{
	return a < b ? a : b;
}

/* True if fn(many) takes less than RATIO_MAX times the time of fn(few). Compares the least
 * times of some runs, because other processes slow down single ones. */
static bool cost_is_alike(void (*fn)(size_t n), size_t many, size_t few)
{
	clock_t of_many = cost(fn, many), of_few = cost(fn, few);

	for (int i = 1; i < RUNS || (i < RUNS_MAX && of_many / of_few >= RATIO_MAX); i++) {
		of_many = less(of_many, cost(fn, many));
		of_few = less(of_few, cost(fn, few));
	}
	return of_many / of_few < RATIO_MAX;
}

static void look_up_among(size_t nwatched)
{
	struct transaction t = { 0 };
	size_t nfound = 0;

	for (size_t i = 0; i < nwatched; i++)
		transaction_watch(&t, 0, names[i]);
	for (size_t i = 0; i < MANY; i++)
		nfound += transaction_watches(&t, 0, names[i]);
	assert_int_equal(nfound, nwatched);
	transaction_fini(&t);
}

TEST(keys_are_not_searched_for_among_those_that_are_watched)
{
	assert_true(cost_is_alike(look_up_among, 2000, 2));
}

static void rewrite_with(size_t nguarded)
{
	static struct command_key all[MANY];
	struct resp_view view = { MANY, names };
	struct guarded_key *keys = calloc(nguarded, sizeof(*keys));
	struct guarded_command g = {
		.req = &view, .keys = keys, .n = nguarded, .all = { all, MANY - 1 }
	};
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < nguarded; i++)
		keys[i] = (struct guarded_key){ .key = names[1 + i], .token = names[0] };
	for (size_t i = 0; i < MANY - 1; i++)
		all[i].arg = 1 + i;
	rewrite_guard_read(&out, &g, &(struct rewrite_opts){ 0 });
	buf_release(&out);
	free(keys);
}

TEST(keys_are_not_searched_for_among_those_that_are_guarded)
{
	assert_true(cost_is_alike(rewrite_with, 1000, 1));
}

/* `nreaders` connections have read the same key; one of them looks it up. */
static void look_up_hot_key(size_t nreaders)
{
	struct guarded_key key = { .key = names[0], .token = names[1] };
	struct read_sets *table = read_sets_new(NULL, NULL);
	struct read_set *readers = calloc(nreaders, sizeof(*readers));

	for (size_t i = 0; i < nreaders; i++) {
		read_set_init(&readers[i]);
		read_set_entry_read(read_set_add(table, &readers[i], 0, &key, 0));
	}
	for (size_t i = 0; i < MANY; i++)
		assert_non_null(read_set_find(table, &readers[0], 0, names[0]));
	for (size_t i = 0; i < nreaders; i++)
		read_set_end(&readers[i], 0, false);
	read_sets_free(table);
	free(readers);
}

TEST(a_key_is_not_searched_for_among_all_its_readers)
{
	assert_true(cost_is_alike(look_up_hot_key, 2000, 2));
}

static void ask_in_transaction(size_t nqueued)
{
	struct session s;
	int db = 0;

	session_init(&s);
	transaction_begin(&s.txn);
	for (size_t i = 0; i < nqueued; i++) {
		struct pending_request *r = pending_new(PENDING_SELECT);
		r->db = (int)i;
		session_track(&s, r);
		transaction_add(&s.txn, 1);
	}
	for (size_t i = 0; i < MANY; i++)
		db += session_db(&s) != (int)nqueued - 1;
	assert_int_equal(db, 0);
	session_fini(&s);
}

TEST(a_command_does_not_look_at_those_queued_before_it)
{
	assert_true(cost_is_alike(ask_in_transaction, 2000, 2));
}
