/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of hasp's messages to a service manager, and their times. The manager is a socket of
 * the test; the test plays the workers and the clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "process/supervision.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/testing.h"

#define WORKERS 2
#define START 1000.0
#define STARTING "STATUS=Starting; Redis has not answered yet"
#define READY(clients) "READY=1\nSTATUS=Serving " clients "; Redis answers"

struct fixture {
	struct supervision s;
	struct worker_shared shared;
	char dir[32];
	int fd; /* the manager's socket */
};

/* --- in the place of the workers ---------------------------------------------------------- */

static const char *not_ready; /* reason why Redis does not answer; NULL: it answers */
static bool turns[WORKERS];

const char *workers_not_ready(struct worker_shared *shared)
{
	(void)shared;
	return not_ready;
}

/* In this test, a worker is only its number, as a pointer. */
bool worker_has_turned(struct worker *w)
{
	return turns[(uintptr_t)w - 1];
}

/* --- the fixture -------------------------------------------------------------------------- */

/* Opens the manager's socket; `watchdog_usec` is "0" if the manager has no watchdog. */
static void begin(struct fixture *f, const char *watchdog_usec)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/notify", f->dir);
	f->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	setenv("NOTIFY_SOCKET", sun.sun_path, 1);
	setenv("WATCHDOG_USEC", watchdog_usec, 1);
	supervision_init(&f->s);
}

static void set_up(struct fixture *f)
{
	strcpy(f->dir, "/tmp/hasp-unit-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->fd = -1;
	f->shared.nworkers = WORKERS;
	for (uintptr_t i = 0; i < WORKERS; i++) {
		f->shared.workers[i] = (struct worker *)(i + 1);
		turns[i] = true;
	}
	not_ready = "no server is reachable";
	unsetenv("NOTIFY_SOCKET");
	log_fixture_open();
}

static void tear_down(struct fixture *f)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/notify", f->dir);
	if (f->fd >= 0)
		close(f->fd);
	unlink(path);
	rmdir(f->dir);
	log_fixture_close();
}

STRUCT_FIXTURE(set_up, tear_down);

/* Returns the next message to the manager; "" if there is none. */
static const char *next(const struct fixture *f)
{
	static char text[512];
	ssize_t n = recv(f->fd, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	return text;
}

/* Asserts that the manager got this message, and no other. */
static void assert_told(const struct fixture *f, const char *text)
{
	assert_string_equal(next(f), text);
	assert_string_equal(next(f), "");
}

static void assert_told_nothing(const struct fixture *f)
{
	assert_string_equal(next(f), "");
}

/* Compares seconds to the millisecond. */
static void assert_tick(struct fixture *f, double at, double until_next)
{
	double seconds = supervision_tick(&f->s, START + at);

	assert_int_equal((int)(seconds * 1000 + 0.5), (int)(until_next * 1000 + 0.5));
}

/* hasp serves, and Redis answers. */
static void serve(struct fixture *f)
{
	begin(f, "0");
	supervision_serves(&f->s, &f->shared, false, START);
	not_ready = NULL;
	supervision_tick(&f->s, START);
	assert_string_equal(next(f), STARTING);
	assert_told(f, READY("0 clients"));
}

/* --- the start ---------------------------------------------------------------------------- */

TEST(nothing_is_ever_due_where_no_manager_listens)
{
	supervision_init(&f->s);
	supervision_serves(&f->s, &f->shared, false, START);
	assert_true(supervision_tick(&f->s, START + 100) == -1);
	supervision_reloads(&f->s);
	supervision_reloaded(&f->s, true);
	supervision_leaves(&f->s);
	supervision_is_handing_over(&f->s, 7);
	assert_nothing_logged();
}

TEST(hasp_is_ready_when_redis_answers)
{
	begin(f, "0");
	supervision_serves(&f->s, &f->shared, false, START);
	assert_told(f, STARTING);
	/* Until then, hasp checks Redis often. */
	assert_tick(f, 0, 0.02);
	assert_tick(f, 1, 0.02);
	assert_told_nothing(f);
	not_ready = NULL;
	assert_tick(f, 1.5, 3.5);
	assert_told(f, READY("0 clients"));
	assert_tick(f, 1.5, 3.5);
	assert_told_nothing(f);
}

TEST(redis_that_does_not_answer_delays_the_start_by_five_seconds)
{
	begin(f, "0");
	supervision_serves(&f->s, &f->shared, false, START);
	assert_told(f, STARTING);
	assert_tick(f, 4.9, 0.02);
	assert_told_nothing(f);
	assert_tick(f, 5, 5);
	assert_told(f, "READY=1\nSTATUS=Serving 0 clients; no server is reachable");
}

TEST(heir_leaves_the_word_to_its_predecessor)
{
	begin(f, "0");
	supervision_serves(&f->s, &f->shared, true, START);
	not_ready = NULL;
	assert_tick(f, 0, 5);
	assert_told_nothing(f);
	/* The predecessor has handed over by now. */
	assert_tick(f, 5, 5);
	assert_told(f, "STATUS=Serving 0 clients; Redis answers");
}

/* --- the status --------------------------------------------------------------------------- */

TEST(status_that_has_changed_is_told_each_five_seconds)
{
	serve(f);
	f->shared.clients = 1;
	assert_tick(f, 4.5, 0.5);
	assert_told_nothing(f);
	assert_tick(f, 5, 5);
	assert_told(f, "STATUS=Serving 1 client; Redis answers");
	not_ready = "gone";
	f->shared.clients = 20;
	assert_tick(f, 9.9, 0.1);
	assert_told_nothing(f);
	assert_tick(f, 10, 5);
	assert_told(f, "STATUS=Serving 20 clients; gone");
}

TEST(status_that_has_not_changed_is_not_told_again)
{
	serve(f);
	for (int at = 5; at < 60; at += 5)
		assert_tick(f, at, 5);
	assert_told_nothing(f);
}

/* --- the watchdog ------------------------------------------------------------------------- */

TEST(watchdog_is_fed_four_times_in_its_time)
{
	begin(f, "8000000");
	supervision_serves(&f->s, &f->shared, true, START);
	assert_tick(f, 0, 2);
	assert_told(f, "WATCHDOG=1");
	assert_tick(f, 1.9, 0.1);
	assert_told_nothing(f);
	assert_tick(f, 2, 2);
	assert_told(f, "WATCHDOG=1");
	assert_tick(f, 4, 1);
	assert_told(f, "WATCHDOG=1");
}

TEST(watchdog_of_another_process_is_not_fed)
{
	setenv("WATCHDOG_PID", "1", 1);
	begin(f, "8000000");
	supervision_serves(&f->s, &f->shared, true, START);
	assert_tick(f, 0, 5);
	assert_told_nothing(f);
}

TEST(watchdog_starves_while_one_worker_hangs)
{
	begin(f, "8000000");
	supervision_serves(&f->s, &f->shared, true, START);
	turns[1] = false;
	assert_tick(f, 0, 2);
	assert_told_nothing(f);
	assert_logged("level=error event=worker_hangs worker=1 ");
	/* hasp logs the hang once. */
	assert_tick(f, 2, 2);
	assert_told_nothing(f);
	assert_nothing_logged();
	turns[0] = false;
	turns[1] = true;
	assert_tick(f, 4, 1);
	assert_told_nothing(f);
	assert_logged("level=error event=worker_hangs worker=0 ");
	turns[0] = true;
	supervision_tick(&f->s, START + 6);
	assert_string_equal(next(f), "WATCHDOG=1");
	assert_logged("level=warning event=worker_recovered worker=0\n");
	supervision_tick(&f->s, START + 8);
	assert_nothing_logged();
}

/* --- what happens ------------------------------------------------------------------------- */

TEST(manager_is_told_of_a_reload_and_its_end)
{
	static const char reloading[] = "RELOADING=1\nMONOTONIC_USEC=";
	const char *text, *end;

	serve(f);
	supervision_reloads(&f->s);
	text = next(f);
	assert_memory_equal(text, reloading, strlen(reloading));
	/* systemd compares the time with its own clock. */
	assert_true(strtoll(text + strlen(reloading), (char **)&end, 10) > 0);
	assert_string_equal(end, "\nSTATUS=Reloading");
	assert_told_nothing(f);
	supervision_reloaded(&f->s, true);
	assert_told(f, READY("0 clients"));
}

TEST(status_tells_of_a_refused_reload_until_one_succeeds)
{
	serve(f);
	supervision_reloaded(&f->s, false);
	assert_told(f, READY("0 clients") "; the last reload was refused, see the log");
	supervision_reloaded(&f->s, true);
	assert_told(f, READY("0 clients"));
}

/* READY=1 would claim that Redis answers. */
TEST(reload_during_the_start_is_not_told)
{
	begin(f, "0");
	supervision_serves(&f->s, &f->shared, false, START);
	assert_told(f, STARTING);
	supervision_reloads(&f->s);
	supervision_reloaded(&f->s, true);
	assert_told_nothing(f);
}

TEST(manager_is_told_that_hasp_leaves_and_for_how_many_clients_it_waits)
{
	serve(f);
	f->shared.clients = 2;
	supervision_leaves(&f->s);
	assert_told(f, "STOPPING=1\nSTATUS=Draining; 2 clients");
	f->shared.clients = 1;
	assert_tick(f, 5, 5);
	assert_told(f, "STATUS=Draining; 1 client");
	supervision_reloads(&f->s);
	supervision_reloaded(&f->s, true);
	assert_told_nothing(f);
}

TEST(process_that_hands_over_names_its_heir_and_says_nothing_more)
{
	serve(f);
	supervision_is_handing_over(&f->s, 4711);
	assert_told(f, "MAINPID=4711\n" READY("0 clients"));
	f->shared.clients = 1;
	assert_true(supervision_tick(&f->s, START + 100) == -1);
	supervision_reloads(&f->s);
	supervision_reloaded(&f->s, true);
	supervision_leaves(&f->s);
	assert_told_nothing(f);
}
