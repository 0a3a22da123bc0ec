/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lock/deadlock: which client gets the error of a circle. The test plays Redis: a
 * table of the locks' owners, and the calls not answered yet, in their order.
 */

#include <string.h>

#include "lock/deadlock/deadlock.h"
#include "lock/model/owner.h"
#include "tests/unit/testing.h"
#include "tests/unit/wire.h"

#define LOCKS 4
#define CALLS_MAX 16
#define CLIENTS_MAX 4

struct call {
	struct buf words;
	script_job_fn *fn;
	void *arg;
};

static const char *owners[LOCKS]; /* owners of lock0, lock1 ...; NULL: the lock is free. */
static struct call calls[CALLS_MAX];
static size_t ncalls, nanswered;

/* --- in the place of script_job.c ---------------------------------------------------- */

struct rewrite_opts script_jobs_opts(struct script_jobs *jobs, int db)
{
	(void)jobs;
	(void)db;
	return (struct rewrite_opts){ .resp3 = false };
}

struct job_call script_jobs_call(struct script_jobs *jobs, int db)
{
	return (struct job_call){ .jobs = jobs, .db = db, .opts = script_jobs_opts(jobs, db) };
}

void script_job_run(struct job_call *sent, double until, script_job_fn *fn, void *arg)
{
	struct call *call = &calls[ncalls++];

	(void)until;
	assert_true(ncalls <= CALLS_MAX);
	assert_int_equal(sent->script, SCRIPT_INFO);
	*call = (struct call){ .fn = fn, .arg = arg };
	wire_words(&call->words, buf_slice(&sent->bytes));
	buf_release(&sent->bytes);
}

/* --- the fixture ---------------------------------------------------------------------- */

static double now;
static struct timers timers;
static struct wait_graph *graph;
static struct deadlocks *all;
/* Watches that have not ended; a failed test leaves some. */
static struct deadlock_watch *watches[CLIENTS_MAX];

static double clock_of_the_test(void *arg)
{
	(void)arg;
	return now;
}

/* Answers LOCK.INFO: the lock's owner, or nil if the lock is free. */
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

/* The connection breaks before Redis answers the next call. */
static void fail_next(void)
{
	struct call *call = &calls[nanswered++];

	call->fn(call->arg, NULL);
	buf_release(&call->words);
}

/* Answers all calls, and those that these answers cause. */
static void answer_all(void)
{
	while (nanswered < ncalls)
		answer_next();
}

/* Runs the timers that become due, each at its time. */
static void time_passes(double seconds)
{
	double until = now + seconds;

	while (timers_first(&timers) <= until) {
		now = timers_first(&timers);
		timers_run(&timers, now);
	}
	now = until;
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
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (watches[i])
			deadlock_watch_end(watches[i]);
	memset(watches, 0, sizeof(watches));
	answer_all();
	deadlocks_free(all);
	wait_graph_free(graph);
	assert_int_equal(timers.n, 0);
	timers_fini(&timers);
	return 0;
}

FIXTURE(set_up, tear_down);

/* Stores the error that the client gets. */
static void on_deadlock(void *arg, struct slice error)
{
	struct buf *told = arg;

	assert_int_equal(buf_len(told), 0);
	buf_append(told, error);
}

struct client {
	const char *owner; /* owner that AS names, or the connection's token */
	enum lock_kind kind;
	int64_t limit;
	const char *lock;
	struct deadlock_watch *watch;
	struct buf told;
};

static void replace_watch(struct deadlock_watch *old, struct deadlock_watch *watch)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (watches[i] == old) {
			watches[i] = watch;
			return;
		}
	fail_msg("more than %d clients", CLIENTS_MAX);
}

static void begin(struct client *c)
{
	struct attempt wanted = { .id = { c->kind, slice_str(c->lock), slice_str(c->owner) },
		                  .limit = c->limit };
	struct deadlock_terms terms = { .wanted = &wanted,
		                        .shown = wanted.id.key,
		                        .user = SLICE_LIT("default") };
	enum owner_kind made;

	if (owner_is_made(wanted.id.token, &made))
		terms.connection = wanted.id.token;
	c->watch = deadlock_watch_new(all, &terms, on_deadlock, &c->told);
	replace_watch(NULL, c->watch);
}

static void end(struct client *c)
{
	if (c->watch) {
		replace_watch(c->watch, NULL);
		deadlock_watch_end(c->watch);
	}
	c->watch = NULL;
	buf_release(&c->told);
}

static bool is_told(const struct client *c)
{
	return buf_len(&c->told) > 0;
}

/* Client `a` has lock0 and waits for lock1, which `b` has; then `b` waits for lock0. */
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

TEST(test_who_closes_a_circle_is_told)
{
	struct client a = { "a", LOCK_KIND_COUNT, 0, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_TOKEN, 0, "lock0", NULL, BUF_INIT };

	play(&a, &b);
	assert_false(is_told(&a));
	assert_true(
		slice_eq(buf_slice(&b.told),
	                 SLICE_LIT("-DEADLOCK 'lock0' is held by another owner, who waits for "
	                           "'lock1'\r\n")));
	end(&a);
	end(&b);
}

TEST(test_semaphore_of_one_owner_is_a_mutex)
{
	struct client a = { "a", LOCK_KIND_LIMIT, 1, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_LIMIT, 1, "lock0", NULL, BUF_INIT };

	play(&a, &b);
	assert_false(is_told(&a));
	assert_true(is_told(&b));
	end(&a);
	end(&b);
}

TEST(test_circle_through_a_mutex_and_a_semaphore_of_one_is_told)
{
	struct client a = { "a", LOCK_KIND_COUNT, 0, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_LIMIT, 1, "lock0", NULL, BUF_INIT };

	play(&a, &b);
	assert_false(is_told(&a));
	assert_true(is_told(&b));
	end(&a);
	end(&b);
}

/* Any owner of a semaphore may release its place, also one that this hasp does not know. */
TEST(test_who_waits_for_one_of_several_places_is_in_no_circle)
{
	struct client a = { "a", LOCK_KIND_LIMIT, 2, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_LIMIT, 1, "lock0", NULL, BUF_INIT };

	play(&a, &b);
	assert_null(a.watch);
	assert_false(is_told(&b));
	end(&b);
}

TEST(test_semaphore_that_was_handed_over_meanwhile_is_no_circle)
{
	struct client a = { "a", LOCK_KIND_LIMIT, 1, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_LIMIT, 1, "lock0", NULL, BUF_INIT };

	owners[0] = "a";
	owners[1] = "b";
	begin(&a);
	answer_all();
	begin(&b);
	/* The first search finds the circle, the second does not. */
	answer_next();
	answer_next();
	owners[1] = "c";
	answer_all();
	assert_false(is_told(&a));
	assert_false(is_told(&b));
	end(&a);
	end(&b);
}

TEST(test_who_waits_for_a_side_of_a_read_write_lock_is_in_no_circle)
{
	struct client a = { "a", LOCK_KIND_EXCLUSIVE, 0, "lock1", NULL, BUF_INIT };

	begin(&a);
	assert_null(a.watch);
}

/* --- searches that are made again ------------------------------------------------------- */

/* Owner 'b' waits for lock0, which 'c' has, and by another connection for lock1. Client 'a' has
 * lock1 and waits for lock0. While the search of b's second connection asks Redis who has
 * lock0, the wait of the first one ends. */
static void wait_elsewhere_ends_during_a_search(struct client *a, struct client *b)
{
	struct client first = { "b", LOCK_KIND_TOKEN, 0, "lock0", NULL, BUF_INIT };

	owners[0] = "c";
	owners[1] = a->owner;
	begin(a);
	begin(&first);
	answer_all();
	begin(b);
	answer_next();
	assert_int_equal(ncalls - nanswered, 1);
	end(&first);
	time_passes(0.02);
	assert_int_equal(ncalls - nanswered, 1);
	/* Redis sent this answer before 'b' had the lock. */
	answer_next();
	assert_false(is_told(b));
	assert_int_equal(ncalls, nanswered);
}

TEST(test_wait_that_ends_during_a_search_has_another_one_made)
{
	struct client a = { "connection:a", LOCK_KIND_COUNT, 0, "lock0", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_TOKEN, 0, "lock1", NULL, BUF_INIT };

	wait_elsewhere_ends_during_a_search(&a, &b);
	owners[0] = "b";
	time_passes(0.01);
	answer_all();
	assert_true(is_told(&b));
	assert_false(is_told(&a));
	end(&a);
	end(&b);
}

TEST(test_other_search_that_finds_nothing_is_the_last_one)
{
	struct client a = { "connection:a", LOCK_KIND_COUNT, 0, "lock0", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_TOKEN, 0, "lock1", NULL, BUF_INIT };
	size_t n;

	wait_elsewhere_ends_during_a_search(&a, &b);
	time_passes(0.01);
	answer_all();
	n = ncalls;
	time_passes(10);
	assert_int_equal(ncalls, n);
	end(&a);
	end(&b);
}

TEST(test_search_that_redis_does_not_answer_is_made_again_ever_more_slowly)
{
	static const double pauses[] = { 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1, 1 };
	struct client a = { "connection:a", LOCK_KIND_COUNT, 0, "lock1", NULL, BUF_INIT };
	struct client b = { "connection:b", LOCK_KIND_COUNT, 0, "lock0", NULL, BUF_INIT };

	owners[0] = a.owner;
	owners[1] = b.owner;
	begin(&a);
	begin(&b);
	for (size_t i = 0; i < sizeof(pauses) / sizeof(*pauses); i++) {
		fail_next();
		time_passes(0.9 * pauses[i]);
		assert_int_equal(ncalls, nanswered);
		time_passes(0.2 * pauses[i]);
		assert_int_equal(ncalls - nanswered, 1);
	}
	answer_all();
	assert_true(is_told(&b));
	end(&a);
	end(&b);
}

TEST(test_answer_of_redis_shortens_the_pause_after_the_next_failure)
{
	struct client a = { "connection:a", LOCK_KIND_COUNT, 0, "lock0", NULL, BUF_INIT };
	struct client first = { "b", LOCK_KIND_TOKEN, 0, "lock0", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_TOKEN, 0, "lock1", NULL, BUF_INIT };

	begin(&a);
	begin(&first);
	answer_all();
	begin(&b);
	for (int i = 0; i < 4; i++) {
		fail_next();
		time_passes(1);
	}
	answer_all();
	end(&first);
	time_passes(0.02);
	fail_next();
	time_passes(0.011);
	assert_int_equal(ncalls - nanswered, 1);
	end(&a);
	end(&b);
}

TEST(test_wait_that_ends_before_the_next_search_has_none_made)
{
	struct client a = { "connection:a", LOCK_KIND_COUNT, 0, "lock1", NULL, BUF_INIT };
	struct client b = { "connection:b", LOCK_KIND_COUNT, 0, "lock0", NULL, BUF_INIT };

	begin(&a);
	begin(&b);
	fail_next();
	end(&b);
	time_passes(10);
	assert_int_equal(ncalls, nanswered);
	end(&a);
}

/* When a wait ends, hasp searches only for the other waits of its owner, even if a thousand
 * owners wait in a chain. */
TEST(test_wait_that_ends_has_only_its_owners_other_waits_searched)
{
	struct client other = { "a", LOCK_KIND_TOKEN, 0, "lock0", NULL, BUF_INIT };
	struct client first = { "b", LOCK_KIND_TOKEN, 0, "lock1", NULL, BUF_INIT };
	struct client b = { "b", LOCK_KIND_TOKEN, 0, "lock2", NULL, BUF_INIT };

	begin(&other);
	begin(&first);
	begin(&b);
	answer_all();
	ncalls = nanswered = 0;
	end(&first);
	time_passes(0.02);
	assert_int_equal(ncalls, 1);
	assert_non_null(strstr(buf_head(&calls[0].words), "lock2"));
	answer_all();
	end(&other);
	end(&b);
}

/* Asks as many questions as a second allows; then the search of `many` is put off. Returns how
 * many questions were asked. */
static size_t ask_too_many(struct client *many)
{
	size_t nasked = 0;

	do {
		end(many);
		ncalls = nanswered = 0;
		begin(many);
		nasked += ncalls;
		answer_all();
	} while (ncalls && nasked < 2000);
	return nasked;
}

/* Puts off the search of `last`: alone, or behind that of another wait, which ends first. */
static void assert_put_off(bool alone)
{
	struct client a = { "connection:a", LOCK_KIND_COUNT, 0, "lock0", NULL, BUF_INIT };
	struct client many = { "connection:b", LOCK_KIND_COUNT, 0, "lock1", NULL, BUF_INIT };
	struct client last = { "connection:c", LOCK_KIND_COUNT, 0, "lock2", NULL, BUF_INIT };

	owners[2] = a.owner;
	owners[0] = last.owner;
	begin(&a);
	assert_in_range(ask_too_many(&many), 900, 1100);
	if (alone)
		end(&many);
	begin(&last);
	assert_int_equal(ncalls, 0);
	/* A search that was put off, and whose wait has ended, costs nothing. */
	end(&many);
	time_passes(0.02);
	answer_all();
	assert_true(is_told(&last));
	end(&a);
	end(&last);
}

TEST(test_searches_of_more_questions_than_allowed_are_put_off)
{
	assert_put_off(false);
}

TEST(test_a_search_that_was_put_off_alone_is_made_later)
{
	assert_put_off(true);
}
