/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lock/deadlock's graph of waits. A circle is broken once, and only while all of it
 * exists.
 */

#include "lock/deadlock/wait_graph.h"
#include "tests/unit/testing.h"

static struct graph_wait *add(struct wait_graph *g, const char *owner, const char *second,
                              const char *key)
{
	struct wait_facts facts = { .db = 3,
		                    .kind = 'r',
		                    .key = slice_str(key),
		                    .shown = slice_str(key),
		                    .owners = { slice_str(owner), SLICE_NONE },
		                    .nowners = 1 };

	if (second)
		facts.owners[facts.nowners++] = slice_str(second);
	return wait_graph_add(g, &facts);
}

static void end(struct wait_graph *g, struct graph_wait *w)
{
	wait_graph_remove(g, w);
	graph_wait_release(w);
}

/* Returns how many waits the owner has. */
static size_t count_of(struct wait_graph *g, const char *owner)
{
	struct graph_wait *waits[8];
	size_t n = wait_graph_of(g, slice_str(owner), waits, 8);

	for (size_t i = 0; i < n; i++)
		graph_wait_release(waits[i]);
	return n;
}

static int graph_set_up(void **state)
{
	*state = wait_graph_new();
	return 0;
}

static int graph_tear_down(void **state)
{
	wait_graph_free(*state);
	return 0;
}

FIXTURE(graph_set_up, graph_tear_down);

TEST(test_a_wait_is_found_by_each_of_its_owners)
{
	struct graph_wait *w = add(*state, "a", "b", "lock"), *found[2];

	assert_int_equal(count_of(*state, "a"), 1);
	assert_int_equal(count_of(*state, "c"), 0);
	assert_int_equal(wait_graph_of(*state, slice_str("b"), found, 2), 1);
	assert_ptr_equal(found[0], w);
	assert_true(slice_eq(w->facts.key, slice_str("lock")));
	assert_int_equal(w->facts.db, 3);
	end(*state, w);
	assert_int_equal(count_of(*state, "b"), 0);
	/* A caller that found the wait may still read it. */
	assert_true(slice_eq(found[0]->facts.owners[1], slice_str("b")));
	graph_wait_release(found[0]);
}

/* The caller's texts may end before the wait. */
TEST(test_a_wait_has_copies_of_its_texts)
{
	char key[] = "lock", shown[] = "LOCK", user[] = "alice", owner[] = "a";
	struct wait_facts facts = { .kind = 'r',
		                    .key = slice_str(key),
		                    .shown = slice_str(shown),
		                    .user = slice_str(user),
		                    .owners = { slice_str(owner) },
		                    .nowners = 1 };
	struct graph_wait *w = wait_graph_add(*state, &facts);

	*key = *shown = *user = *owner = 'x';
	assert_true(slice_eq(w->facts.key, slice_str("lock")));
	assert_true(slice_eq(w->facts.shown, slice_str("LOCK")));
	assert_true(slice_eq(w->facts.user, slice_str("alice")));
	assert_true(slice_eq(w->facts.owners[0], slice_str("a")));
	end(*state, w);
}

TEST(test_no_more_waits_are_told_than_were_asked_for)
{
	struct graph_wait *w[3], *found[2];

	for (size_t i = 0; i < 3; i++)
		w[i] = add(*state, "a", NULL, "lock");
	assert_int_equal(wait_graph_of(*state, slice_str("a"), found, 2), 2);
	graph_wait_release(found[0]);
	graph_wait_release(found[1]);
	for (size_t i = 0; i < 3; i++)
		end(*state, w[i]);
}

TEST(test_several_are_told_from_one)
{
	struct graph_wait *a = add(*state, "a", NULL, "1"), *b;

	assert_false(wait_graph_has_several(*state));
	b = add(*state, "b", NULL, "2");
	assert_true(wait_graph_has_several(*state));
	end(*state, a);
	assert_false(wait_graph_has_several(*state));
	end(*state, b);
}

TEST(test_a_circle_is_taken_apart_once)
{
	struct graph_wait *a = add(*state, "a", NULL, "1"), *b = add(*state, "b", NULL, "2");
	struct graph_wait *from_a[] = { a, b }, *from_b[] = { b, a };

	assert_true(wait_graph_break(*state, from_a, 2));
	assert_int_equal(count_of(*state, "a"), 0);
	assert_int_equal(count_of(*state, "b"), 1);
	assert_false(wait_graph_break(*state, from_b, 2));
	assert_false(wait_graph_break(*state, from_a, 2));
	end(*state, a);
	end(*state, b);
}

TEST(test_a_circle_of_which_one_has_gone_is_none)
{
	struct graph_wait *a = add(*state, "a", NULL, "1"), *b = add(*state, "b", NULL, "2");
	struct graph_wait *circle[] = { a, b };

	wait_graph_remove(*state, b);
	assert_false(wait_graph_break(*state, circle, 2));
	assert_int_equal(count_of(*state, "a"), 1);
	end(*state, a);
	end(*state, b);
}

TEST(test_generation_changes_when_an_owner_that_waits_elsewhere_has_waited)
{
	struct graph_wait *a1 = add(*state, "a", NULL, "1"), *a2 = add(*state, "a", NULL, "2");
	struct graph_wait *b = add(*state, "b", NULL, "1");
	unsigned before = wait_graph_generation(*state);

	end(*state, b);
	assert_int_equal(wait_graph_generation(*state), before);
	end(*state, a1);
	assert_int_not_equal(wait_graph_generation(*state), before);
	before = wait_graph_generation(*state);
	end(*state, a2);
	assert_int_equal(wait_graph_generation(*state), before);
}
