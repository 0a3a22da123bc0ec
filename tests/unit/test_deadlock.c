/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deadlock: who is told of a circle. Redis is played here: a table of who has which lock, and
 * the calls that it has not answered yet, in the order in which they came.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lock/deadlock/deadlock.h"
#include "tests/unit/wire.h"

#define LOCKS 4
#define CALLS_MAX 16

struct call {
	struct buf words;
	script_job_fn *fn;
	void *arg;
};

static const char *owners[LOCKS]; /* of lock0, lock1 ...; NULL: it is free */
static struct call calls[CALLS_MAX];
static size_t ncalls, nanswered;

/* --- in the place of script_job.c ---------------------------------------------------- */

struct rewrite_how script_jobs_how(struct script_jobs *jobs, int db)
{
	(void)jobs;
	(void)db;
	return (struct rewrite_how){ .resp3 = false };
}

void script_job_run(struct script_jobs *jobs, int db, enum script_id script,
                    struct slice evalsha, double until, script_job_fn *fn, void *arg)
{
	struct call *call = &calls[ncalls++];

	(void)jobs;
	(void)db;
	(void)until;
	assert_true(ncalls <= CALLS_MAX);
	assert_int_equal(script, SCRIPT_INFO);
	*call = (struct call){ .fn = fn, .arg = arg };
	wire_words(&call->words, evalsha);
}

/* --- the fixture ---------------------------------------------------------------------- */

static double now;
static struct timers timers;
static struct wait_graph *graph;
static struct deadlocks *all;

static double clock_of_the_test(void *arg)
{
	(void)arg;
	return now;
}

/* As LOCK.INFO: 'owner', who has it; nil: it is free. */
static void answer(const struct call *call)
{
	char *at = strstr(buf_head(&call->words), "lock");
	const char *owner = owners[at[4] - '0'];
	redisReply name = { .type = REDIS_REPLY_STRING, .str = "owner", .len = 5 };
	redisReply who = { .type = REDIS_REPLY_STRING, .str = (char *)owner };
	redisReply *both[] = { &name, &who };
	redisReply reply = { .type = REDIS_REPLY_NIL };

	if (owner) {
		who.len = strlen(owner);
		reply = (redisReply){ .type = REDIS_REPLY_ARRAY,
			              .elements = 2,
			              .element = both };
	}
	call->fn(call->arg, &reply);
}

static void answer_next(void)
{
	struct call *call = &calls[nanswered++];

	*buf_reserve(&call->words, 1) = '\0';
	answer(call);
	buf_release(&call->words);
}

/* Redis answers what it is asked, and what it is asked then. */
static void answer_all(void)
{
	while (nanswered < ncalls)
		answer_next();
}

static int set_up(void **state)
{
	(void)state;
	memset(owners, 0, sizeof(owners));
	ncalls = nanswered = 0;
	timers = (struct timers){ .clock = clock_of_the_test };
	graph = wait_graph_new();
	all = deadlocks_new(&timers, NULL, graph);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	answer_all();
	deadlocks_free(all);
	wait_graph_free(graph);
	timers_fini(&timers);
	return 0;
}

/* What the client was told; empty: nothing. */
static void on_deadlock(void *arg, struct slice error)
{
	struct buf *told = arg;

	assert_int_equal(buf_len(told), 0);
	buf_append(told, error);
}

struct client {
	const char *owner; /* as AS names it */
	enum lock_kind kind;
	int64_t limit;
	const char *lock;
	struct deadlock_watch *watch;
	struct buf told;
};

static void begin(struct client *c)
{
	struct lock_try wanted = { .id = { c->kind, slice_str(c->lock), slice_str(c->owner) },
		                   .limit = c->limit };
	struct deadlock_terms terms = { .wanted = &wanted, .shown = wanted.id.key };

	c->watch = deadlock_watch_new(all, &terms, on_deadlock, &c->told);
}

static void end(struct client *c)
{
	if (c->watch)
		deadlock_watch_end(c->watch);
	c->watch = NULL;
	buf_release(&c->told);
}

static bool is_told(const struct client *c)
{
	return buf_len(&c->told) > 0;
}

/* 'a' has lock0 and waits for lock1, which 'b' has; who then waits for lock0. */
static void play(struct client *a, struct client *b)
{
	owners[0] = a->owner;
	owners[1] = b->owner;
	begin(a);
	answer_all();
	begin(b);
	answer_all();
}

/* --- tests ------------------------------------------------------------------------------ */

static void test_who_closes_a_circle_is_told(void **state)
{
	struct client a = { "a", LOCK_KIND_COUNT, 0, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_TOKEN, 0, "lock0", NULL, BUF_INIT };

	(void)state;
	play(&a, &b);
	assert_false(is_told(&a));
	assert_true(
		slice_eq(buf_slice(&b.told),
	                 SLICE_LIT("-DEADLOCK 'lock0' is held by another owner, who waits for "
	                           "'lock1'\r\n")));
	end(&a);
	end(&b);
}

static void test_semaphore_of_one_owner_is_a_mutex(void **state)
{
	struct client a = { "a", LOCK_KIND_LIMIT, 1, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_LIMIT, 1, "lock0", NULL, BUF_INIT };

	(void)state;
	play(&a, &b);
	assert_false(is_told(&a));
	assert_true(is_told(&b));
	end(&a);
	end(&b);
}

static void test_circle_through_a_mutex_and_a_semaphore_of_one_is_told(void **state)
{
	struct client a = { "a", LOCK_KIND_COUNT, 0, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_LIMIT, 1, "lock0", NULL, BUF_INIT };

	(void)state;
	play(&a, &b);
	assert_false(is_told(&a));
	assert_true(is_told(&b));
	end(&a);
	end(&b);
}

/* Any of several owners may give its place back, also one that nobody knows here. */
static void test_who_waits_for_one_of_several_places_is_in_no_circle(void **state)
{
	struct client a = { "a", LOCK_KIND_LIMIT, 2, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_LIMIT, 1, "lock0", NULL, BUF_INIT };

	(void)state;
	play(&a, &b);
	assert_null(a.watch);
	assert_false(is_told(&b));
	end(&b);
}

static void test_semaphore_that_was_handed_over_meanwhile_is_no_circle(void **state)
{
	struct client a = { "a", LOCK_KIND_LIMIT, 1, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_LIMIT, 1, "lock0", NULL, BUF_INIT };

	(void)state;
	owners[0] = "a";
	owners[1] = "b";
	begin(&a);
	answer_all();
	begin(&b);
	/* The first look finds the circle, the second does not. */
	answer_next();
	answer_next();
	owners[1] = "c";
	answer_all();
	assert_false(is_told(&a));
	assert_false(is_told(&b));
	end(&a);
	end(&b);
}

static void test_who_waits_for_a_side_of_a_read_write_lock_is_in_no_circle(void **state)
{
	struct client a = { "a", LOCK_KIND_EXCLUSIVE, 0, "lock1", NULL, BUF_INIT };

	(void)state;
	begin(&a);
	assert_null(a.watch);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_who_closes_a_circle_is_told),
		TEST(test_semaphore_of_one_owner_is_a_mutex),
		TEST(test_circle_through_a_mutex_and_a_semaphore_of_one_is_told),
		TEST(test_who_waits_for_one_of_several_places_is_in_no_circle),
		TEST(test_semaphore_that_was_handed_over_meanwhile_is_no_circle),
		TEST(test_who_waits_for_a_side_of_a_read_write_lock_is_in_no_circle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
