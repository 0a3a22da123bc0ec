/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests that hasp does not start if it cannot serve its pages.
 */

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "admin/http.h"
#include "admin/http_internal.h"
#include "lock/events/stats.h"
#include "tests/unit/inifile.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

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

/* covers: thread_failed */
TEST(without_a_thread_it_is_an_error)
{
	struct config *config = load("");
	struct worker_shared shared = { .stats = stats_new(1) };
	struct http h = { 0 };
	int fds[2];

	/* Without [http], no thread is started. */
	assert_int_equal(http_serve(&h, &shared, config), 0);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(
		http_open(&h, (struct listen_socket[]){ { .fd = fds[0] }, { .fd = fds[1] } },
	                  2),
		0);
	log_fixture_open();
	assert_int_equal(http_serve(&h, &shared, config), -1);
	assert_logged("level=error event=thread_failed thread=http reason=\"");
	log_fixture_close();
	http_close(&h);
	/* http_close() has closed the descriptors. */
	assert_int_equal(close(fds[0]), -1);
	assert_int_equal(close(fds[1]), -1);
	config_unref(config);
	stats_free(shared.stats);
}

TEST(more_addresses_than_it_can_listen_at_are_an_error)
{
	static const struct listen_socket sockets[HTTP_LISTEN_MAX + 1];
	struct http h = { 0 };

	assert_int_equal(http_open(&h, sockets, HTTP_LISTEN_MAX + 1), -1);
	assert_int_equal(h.n, 0);
}
