/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pages cannot be served: hasp must not start as if they were.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "admin/http.h"
#include "admin/http_internal.h"
#include "lock/events/stats.h"
#include "tests/unit/inifile.h"

/* --- in the place of the C library: there is no thread ------------------------------------ */

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                   void *arg)
{
	(void)thread;
	(void)attr;
	(void)start;
	(void)arg;
	return EAGAIN;
}

/* -------------------------------------------------------------------------------------- */

static void without_a_thread_it_is_an_error(void **state)
{
	struct config *config = load("");
	struct worker_shared shared = { .stats = stats_new(1) };
	struct http h = { 0 };
	int fds[2];

	(void)state;
	/* Nobody has to listen. */
	assert_int_equal(http_serve(&h, &shared, config), 0);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(http_open(&h, fds, 2), 0);
	assert_int_equal(http_serve(&h, &shared, config), -1);
	http_close(&h);
	/* It had them. */
	assert_int_equal(close(fds[0]), -1);
	assert_int_equal(close(fds[1]), -1);
	config_unref(config);
	stats_free(shared.stats);
}

static void more_addresses_than_it_can_listen_at_are_an_error(void **state)
{
	static const int fds[HTTP_LISTEN_MAX + 1];
	struct http h = { 0 };

	(void)state;
	assert_int_equal(http_open(&h, fds, HTTP_LISTEN_MAX + 1), -1);
	assert_int_equal(h.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_thread_it_is_an_error),
		cmocka_unit_test(more_addresses_than_it_can_listen_at_are_an_error),
	};

	return cmocka_run_group_tests(tests, ini_make_dir, ini_remove_dir);
}
