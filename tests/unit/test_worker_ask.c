/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of questions to workers from another thread: each worker answers for itself, step by
 * step, and neither a late worker nor one that has ended delays the caller.
 */

#define TEST_FIXTURE struct workers *w

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client_internal.h"
#include "inifile.h"
#include "tests/unit/testing.h"
#include "upstream/watcher_internal.h"
#include "worker/worker_ask.h"
#include "worker/worker_live.h"
#include "workers_fixture.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

static int setup(void **state)
{
	struct workers *w = calloc(1, sizeof(*w));

	workers_start(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct workers *w = *state;

	workers_end(w);
	free(w);
	return 0;
}

FIXTURE(setup, teardown);

static bool tell_number(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	(void)arg;
	buf_printf(&a->out, "worker %d has %zu clients", w->number, w->clients->n);
	return true;
}

/* Each worker has refused the lock "hot" this many times, and worker 1 the lock "cold"
 * once. */
static bool contend(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	struct stats *stats = (*(struct workers **)arg)->shared.stats;
	struct section_stats *s = stats_section(stats, STATS_LOCK, "rule", (size_t)w->number);
	double now = clock_now();

	(void)a;
	for (int i = 0; i <= w->number; i++)
		stats_contended(s, CONTENTION_REFUSED, 0, SLICE_LIT("hot"), now);
	if (w->number == 1)
		stats_contended(s, CONTENTION_WAITED, 0, SLICE_LIT("cold"), now);
	stats_contended(stats_section(stats, STATS_VERBS, "rule", (size_t)w->number),
	                CONTENTION_REFUSED, 1, SLICE_LIT("hot"), now);
	return true;
}

#define CROSSINGS 2000

struct crossing {
	struct worker_shared *shared;
	pthread_barrier_t both;
	bool is_upgrading;
};

static void *upgrade(void *arg)
{
	struct crossing *c = arg;

	for (int i = 0; i < CROSSINGS; i++) {
		pthread_barrier_wait(&c->both);
		c->is_upgrading = workers_begin_upgrade(c->shared);
		pthread_barrier_wait(&c->both);
		pthread_barrier_wait(&c->both);
	}
	return NULL;
}

TEST(of_a_pause_and_an_upgrade_that_cross_one_begins)
{
	struct worker_shared shared = { .nworkers = 0 };
	struct crossing c = { .shared = &shared };
	pthread_t thread;

	assert_int_equal(pthread_barrier_init(&c.both, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, upgrade, &c), 0);
	for (int i = 0; i < CROSSINGS; i++) {
		bool is_paused;

		pthread_barrier_wait(&c.both);
		is_paused = workers_pause(&shared);
		pthread_barrier_wait(&c.both);
		assert_true(is_paused != c.is_upgrading);
		assert_int_equal(atomic_load(&shared.task),
		                 is_paused ? WORKERS_PAUSE : WORKERS_UPGRADE);
		workers_resume(&shared, false);
		assert_int_equal(atomic_load(&shared.task),
		                 is_paused ? WORKERS_SERVE : WORKERS_UPGRADE);
		workers_end_upgrade(&shared);
		pthread_barrier_wait(&c.both);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_barrier_destroy(&c.both);
}

TEST(test_contended_keys_of_all_workers_are_added_up)
{
	struct worker_answers answers;
	struct contended_key keys[4];

	assert_int_equal(workers_ask(&w->shared, contend, &w, sizeof(w), LONG_MS, &answers),
	                 WORKERS);
	worker_answers_fini(&answers);
	assert_int_equal(workers_contended(&w->shared, keys, 4, LONG_MS), 3);
	assert_int_equal(keys[0].kind, STATS_LOCK);
	assert_memory_equal(keys[0].key.head, "hot", 3);
	assert_int_equal(keys[0].counts.n[CONTENTION_REFUSED], 6);
	/* Another section has this key, in another database. */
	assert_int_equal(keys[1].kind, STATS_VERBS);
	assert_int_equal(keys[1].counts.n[CONTENTION_REFUSED], 3);
	assert_memory_equal(keys[2].key.head, "cold", 4);
	assert_int_equal(keys[2].counts.n[CONTENTION_WAITED], 1);
	assert_int_equal(workers_contended(&w->shared, keys, 1, LONG_MS), 1);
	assert_int_equal(keys[0].counts.n[CONTENTION_REFUSED], 6);
}

/* Number of guards of a client at worker 0; "k0" is the oldest. */
#define GUARDS 32

static bool read_keys(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	double now = clock_now();
	struct client *c;

	(void)a;
	if (w->number != 0)
		return true;
	client_new(w->clients, *(int *)arg, "*:6380", NULL, NULL);
	c = container_of(w->clients->clients.prev, struct client, node);
	for (int i = 0; i < GUARDS; i++) {
		char name[16];
		struct guarded_key key = { .token = SLICE_LIT("token") };
		struct read_set_entry *e;

		snprintf(name, sizeof(name), "k%d", i);
		key.key = slice_str(name);
		e = read_set_add(w->clients->policy.read_sets,
		                 &context_locks_own(&c->locks, c)->read_set, 0, &key,
		                 now + 3600);
		read_set_entry_read(e);
		e->since = now - GUARDS + i;
	}
	return true;
}

TEST(test_those_that_were_held_for_longest_are_told)
{
	struct worker_answers answers;
	struct live live;
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(
		workers_ask(&w->shared, read_keys, pair, sizeof(*pair), LONG_MS, &answers),
		WORKERS);
	worker_answers_fini(&answers);
	workers_live(&w->shared, LIVE_HELD, 3, LONG_MS, &live);
	assert_true(live.whole);
	assert_int_equal(live.held.total, GUARDS);
	assert_int_equal(live.held.n, 3);
	/* Rows that are no longer among the longest held do not stay in the answer. */
	assert_in_range(buf_len(&live.answers.v[0].out), 1,
	                3 * (sizeof(struct live_row) + (size_t)3 * LIVE_TEXT) +
	                        2 * sizeof(live.held.total));
	for (size_t i = 0; i < live.held.n; i++) {
		assert_int_equal(live.held.rows[i].key.n, 2);
		assert_int_equal(live.held.rows[i].key.p[0], 'k');
		assert_int_equal(live.held.rows[i].key.p[1], '0' + (int)i);
	}
	live_fini(&live);
	close(pair[1]);
}

static struct section_stats carts = { .kind = STATS_LOCK }, stock = { .kind = STATS_GUARD };

/* Returns how many waiters wait for the lock "cart:1" in database 3. */
static uint64_t waiters_for_cart(struct live_row *waiting, size_t n)
{
	struct live_row row = {
		.section = &carts, .db = 3, .key = SLICE_LIT("cart:1"), .key_len = 6
	};
	struct live_list held = { .n = 1, .rows = &row };
	struct live_list waiters = { .n = n, .rows = waiting };

	live_count_waiters(&held, &waiters);
	return row.waiters;
}

TEST_WITH(test_a_waiter_is_counted_for_its_own_lock_only, NULL, NULL)
{
	const struct live_row cart = {
		.section = &carts, .db = 3, .key = SLICE_LIT("cart:1"), .key_len = 6
	};
	struct live_row rows[6] = { cart, cart, cart, cart, cart, cart };

	rows[0].key = SLICE_LIT("cart:2");
	rows[1].section = &stock;
	rows[2].db = 4;
	/* A longer key with the same beginning is another lock. */
	rows[3].key_len = 1000;
	assert_int_equal(waiters_for_cart(rows, 4), 0);
	rows[0].key = SLICE_LIT("cart:0");
	assert_int_equal(waiters_for_cart(rows, 6), 2);
}

TEST(test_each_worker_answers_for_itself)
{
	static const char *const expected[] = { "worker 0 has 0 clients",
		                                "worker 1 has 0 clients",
		                                "worker 2 has 0 clients" };
	struct worker_answers answers;

	assert_int_equal(workers_ask(&w->shared, tell_number, NULL, 0, LONG_MS, &answers),
	                 WORKERS);
	assert_int_equal(answers.n, WORKERS);
	for (size_t i = 0; i < WORKERS; i++) {
		assert_true(answers.v[i].whole);
		assert_true(slice_is(buf_slice(&answers.v[i].out), expected[i]));
	}
	worker_answers_fini(&answers);
}

/* `arg` is an int, the number of steps. */
static bool count_steps(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	int *left = arg;

	(void)w;
	buf_printf(&a->out, "%d ", (int)a->cursor++);
	return --*left == 0;
}

TEST(test_a_step_goes_on_where_the_one_before_stopped)
{
	struct worker_answers answers;
	int steps = 4;

	assert_int_equal(
		workers_ask(&w->shared, count_steps, &steps, sizeof(steps), LONG_MS, &answers),
		WORKERS);
	assert_int_equal(steps, 4);
	for (size_t i = 0; i < WORKERS; i++)
		assert_true(slice_is(buf_slice(&answers.v[i].out), "0 1 2 3 "));
	worker_answers_fini(&answers);
}

static atomic_bool told_to_end;

static bool wait_to_be_told(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	(void)w;
	(void)arg;
	(void)a;
	return told_to_end;
}

static bool tell_to_end(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	(void)w;
	(void)arg;
	(void)a;
	told_to_end = true;
	return true;
}

static void *ask_long(void *arg)
{
	struct worker_answers answers;
	size_t n = workers_ask(arg, wait_to_be_told, NULL, 0, LONG_MS, &answers);

	worker_answers_fini(&answers);
	return (void *)n;
}

TEST(test_between_two_steps_a_worker_does_other_things)
{
	struct worker_answers answers;
	pthread_t other;
	void *n;

	told_to_end = false;
	assert_int_equal(pthread_create(&other, NULL, ask_long, &w->shared), 0);
	assert_int_equal(workers_ask(&w->shared, tell_to_end, NULL, 0, LONG_MS, &answers),
	                 WORKERS);
	worker_answers_fini(&answers);
	assert_int_equal(pthread_join(other, &n), 0);
	assert_int_equal((size_t)n, WORKERS);
}

static atomic_bool may_go_on;

static bool one_stands_still(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	(void)arg;
	buf_puts(&a->out, "something");
	while (w->number == 1 && !may_go_on)
		sched_yield();
	return true;
}

TEST(test_nobody_waits_for_a_worker_that_stands_still_for_longer_than_that)
{
	struct worker_answers answers;
	size_t n = 0;

	may_go_on = false;
	/* On a busy machine, the others may be late, too. */
	while (n < WORKERS - 1) {
		n = workers_ask(&w->shared, one_stands_still, NULL, 0, 20, &answers);
		assert_false(answers.v[1].whole);
		assert_int_equal(buf_len(&answers.v[1].out), 0);
		worker_answers_fini(&answers);
	}
	may_go_on = true;
	assert_int_equal(workers_ask(&w->shared, tell_number, NULL, 0, LONG_MS, &answers),
	                 WORKERS);
	worker_answers_fini(&answers);
}

#define SHORT_MS 300

/* Takes longer than one_stands_still() may, in many steps. `arg` is a double, the time of the
 * first step. */
static bool take_longer_than_that(const struct worker_view *w, void *arg,
                                  struct worker_answer *a)
{
	double *began = arg;

	(void)w;
	if (a->cursor++ == 0)
		*began = clock_now();
	return clock_now() > *began + 2 * (double)SHORT_MS / 1000;
}

TEST(test_a_worker_that_has_much_to_tell_is_waited_for)
{
	struct worker_answers answers;
	double began = 0;
	size_t n = 0;

	/* On a busy machine, a worker may stop for that long. */
	while (n < WORKERS) {
		n = workers_ask(&w->shared, take_longer_than_that, &began, sizeof(began),
		                SHORT_MS, &answers);
		worker_answers_fini(&answers);
	}
}

/* Duration of one step of a worker that serves clients, and its pause after the step. */
#define STEP_SECONDS 0.0005
#define STEP_PAUSE (100 * STEP_SECONDS)

/* End of the last step of worker 0; 0: there was none. */
static double step_ended;
static size_t npauses, nshort; /* `nshort`: pauses shorter than STEP_PAUSE */

/* `arg` is an int, the number of steps. */
static bool serve_meanwhile(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	int *left = arg;
	double began = clock_now();

	(void)a;
	metrics_count(&w->clients->counters.commands[COMMAND_PASSED], 1);
	if (w->number == 0 && step_ended > 0) {
		nshort += began < step_ended + STEP_PAUSE;
		npauses++;
	}
	while (clock_now() < began + STEP_SECONDS)
		;
	if (w->number == 0)
		step_ended = clock_now();
	return --*left == 0;
}

TEST(test_all_questions_together_take_a_small_part_of_a_busy_workers_time)
{
	struct worker_answers answers;

	step_ended = 0;
	npauses = nshort = 0;
	for (int steps = 2; steps > 0; steps--) {
		assert_int_equal(workers_ask(&w->shared, serve_meanwhile, &steps, sizeof(steps),
		                             LONG_MS, &answers),
		                 WORKERS);
		worker_answers_fini(&answers);
	}
	assert_int_equal(npauses, 2);
	assert_int_equal(nshort, 0);
}

TEST(test_a_worker_that_has_ended_is_not_waited_for)
{
	struct worker_answers answers;

	worker_stop(w->shared.workers[2]);
	/* The worker may answer once more before it ends. */
	while (workers_ask(&w->shared, tell_number, NULL, 0, LONG_MS, &answers) == WORKERS)
		worker_answers_fini(&answers);
	assert_true(answers.v[0].whole);
	assert_true(answers.v[1].whole);
	assert_false(answers.v[2].whole);
	worker_answers_fini(&answers);
}

static sem_t round_is_over;

static bool pass_on(struct round *r, const struct client_env *env)
{
	(void)r;
	(void)env;
	return true;
}

static void come_home(struct round *r, bool home)
{
	free(r);
	if (home)
		sem_post(&round_is_over);
}

static bool begin_round(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	struct round *r = w->number == 0 ? calloc(1, sizeof(*r)) : NULL;

	(void)arg;
	(void)a;
	if (r) {
		r->step = pass_on;
		r->end = come_home;
		w->clients->begin_round(w->clients->arg, r);
	}
	return true;
}

TEST(test_a_round_passes_a_worker_that_has_ended)
{
	struct worker_answers answers;

	sem_init(&round_is_over, 0, 0);
	worker_stop(w->shared.workers[2]);
	while (w->shared.running == WORKERS)
		sched_yield();
	(void)workers_ask(&w->shared, begin_round, NULL, 0, LONG_MS, &answers);
	worker_answers_fini(&answers);
	sem_wait(&round_is_over);
	sem_destroy(&round_is_over);
}

TEST(test_a_primary_that_is_reported_while_the_workers_end_is_ignored)
{
	struct watcher *watcher = w->shared.watcher;

	for (size_t i = 0; i < WORKERS; i++)
		worker_stop(w->shared.workers[i]);
	while (w->shared.running > 0)
		sched_yield();
	/* workers_end() delivers the message, after it has freed the workers' servers. */
	watcher->on_primary(watcher->arg, &(struct found_primary){ .address = "127.0.0.1:1" });
}
