/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of one console whose loop, socket and clock the test drives: when hasp closes it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/admin_internal.h"
#include "tests/unit/fake_clock.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

struct fixture {
	struct admin *admin;
	struct console *console;
	int fd; /* the client's end of the connection */
};

static int set_up_with(void **state, const char *text)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct config *config = load(text);
	int pair[2];

	f->admin = admin_new(config, NULL, 0, NULL, NULL, NULL);
	config_unref(config);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	f->fd = pair[0];
	console_new(f->admin, pair[1], NULL);
	f->console = container_of(f->admin->consoles.next, struct console, place.node);
	*state = f;
	return 0;
}

static int set_up(void **state)
{
	return set_up_with(state, "");
}

static int set_up_with_password(void **state)
{
	return set_up_with(state, "[admin]\nlisten = 127.0.0.1:1\npassword = secret\n");
}

/* Runs one turn of the loop, which also frees the consoles that the turn before has closed. */
static void turn_loop(const struct fixture *f)
{
	ev_run(f->admin->loop, EVRUN_NOWAIT);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	if (f->admin->nconsoles)
		console_close(f->console);
	turn_loop(f);
	admin_free(f->admin);
	close(f->fd);
	free(f);
	return 0;
}

FIXTURE(set_up, tear_down);

static void assert_is_served(const struct fixture *f)
{
	char answer[16] = "";

	assert_int_equal(send(f->fd, "P", 1, MSG_NOSIGNAL), 1);
	turn_loop(f);
	assert_int_equal(send(f->fd, "ING\r\n", 5, MSG_NOSIGNAL), 5);
	turn_loop(f);
	turn_loop(f);
	assert_int_equal(recv(f->fd, answer, sizeof(answer) - 1, 0), 7);
	assert_string_equal(answer, "+PONG\r\n");
}

TEST(a_console_without_a_byte_to_read_stays_open)
{
	stream_expect_input(&f->console->stream);
	turn_loop(f);
	assert_int_equal(f->admin->nconsoles, 1);
	assert_is_served(f);
}

/* A read that finds the end of the file leaves errno as an earlier call has set it. */
TEST(end_of_file_closes_a_console)
{
	assert_is_served(f);
	shutdown(f->fd, SHUT_WR);
	errno = EAGAIN;
	turn_loop(f);
	assert_int_equal(f->admin->nconsoles, 0);
}

TEST(a_failed_write_closes_a_console)
{
	assert_is_served(f);
	shutdown(f->fd, SHUT_RD);
	assert_int_equal(send(f->fd, "PING\r\n", 6, MSG_NOSIGNAL), 6);
	turn_loop(f);
	turn_loop(f);
	turn_loop(f);
	assert_int_equal(f->admin->nconsoles, 0);
}

TEST_WITH(a_console_has_ten_seconds_to_log_in, set_up_with_password, tear_down)
{
	fake_clock_advance_ms(9750);
	turn_loop(f);
	assert_int_equal(f->admin->nconsoles, 1);
	fake_clock_advance_ms(1000);
	turn_loop(f);
	assert_int_equal(f->admin->nconsoles, 0);
}
