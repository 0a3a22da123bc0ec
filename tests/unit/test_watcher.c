/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of upstream/watcher.c at a reload: the primary that it reports. Its sentinel cannot be
 * reached.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/unit/testing.h"
#include "upstream/watcher.h"

#define SENTINEL "unix:/nowhere/sentinel"
#define NOBODY_YET "hasp: no sentinel has answered yet"

#define TOLD_MAX 256

struct fixture {
	struct watcher *watcher;
	pthread_mutex_t lock; /* protects `told` */
	sem_t new; /* counts the reports that the test has not read */
	char told[TOLD_MAX]
		 [128]; /* reports: "MASTER: ADDRESS", or the reason why there is no primary */
	size_t ntold, nread;
};

static void on_primary(void *arg, const struct found_primary *p)
{
	struct fixture *f = arg;

	pthread_mutex_lock(&f->lock);
	if (f->ntold == TOLD_MAX)
		abort();
	snprintf(f->told[f->ntold++], sizeof(f->told[0]), "%s: %s", p->master,
	         p->address ? p->address : p->why);
	pthread_mutex_unlock(&f->lock);
	sem_post(&f->new);
}

/* Waits for the next report, and returns it. */
static const char *next(struct fixture *f)
{
	const char *told;

	sem_wait(&f->new);
	pthread_mutex_lock(&f->lock);
	told = f->told[f->nread++];
	pthread_mutex_unlock(&f->lock);
	return told;
}

static bool begins(const char *told, const char *with)
{
	return strncmp(told, with, strlen(with)) == 0;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	log_set_level(LOG_SEV_ERROR);
	pthread_mutex_init(&f->lock, NULL);
	sem_init(&f->new, 0, 0);
	f->watcher = watcher_new(on_primary, f);
	assert_int_equal(watcher_start(f->watcher), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	watcher_stop(f->watcher);
	watcher_free(f->watcher);
	sem_destroy(&f->new);
	pthread_mutex_destroy(&f->lock);
	free(f);
	return 0;
}

FIXTURE(set_up, tear_down);

static void use(struct fixture *f, const char *master)
{
	char sentinel[] = SENTINEL, *sentinels[] = { sentinel };

	watcher_use(f->watcher, &(struct watcher_settings){ .master = master,
	                                                    .sentinels = sentinels,
	                                                    .nsentinels = 1,
	                                                    .timeout_ms = 1000 });
}

TEST(what_is_known_of_a_primary_is_told_again_and_of_another_one_nothing)
{
	struct fixture *f = *state;
	const char *told;

	use(f, "one");
	assert_string_equal(next(f), "one: " NOBODY_YET);
	assert_true(begins(next(f), "one: " SENTINEL));
	use(f, "one");
	use(f, "two");
	/* The sentinel may fail for different reasons in turn, each of which is reported. */
	do {
		told = next(f);
		assert_string_not_equal(told, "one: " NOBODY_YET);
	} while (begins(told, "one: "));
	assert_string_equal(told, "two: " NOBODY_YET);
}
