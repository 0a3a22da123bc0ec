/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of consoles while a worker is stopped: one console waits for the workers' answers, and
 * hasp serves the others.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/admin_internal.h"
#include "inifile.h"
#include "tests/unit/testing.h"
#include "workers_fixture.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

#define CONSOLES 3

struct fixture {
	struct workers workers;
	struct admin *admin;
	int fds[CONSOLES]; /* the clients' ends of the connections */
};

static void setup(struct fixture *f)
{
	workers_start(&f->workers);
	f->admin = admin_new(f->workers.config, NULL, 0, &f->workers.shared, NULL, NULL);
	for (size_t i = 0; i < CONSOLES; i++) {
		int pair[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		f->fds[i] = pair[0];
		console_new(f->admin, pair[1], NULL);
	}
	assert_int_equal(admin_start(f->admin), 0);
	workers_stop_one(&f->workers);
}

static void teardown(struct fixture *f)
{
	admin_stop(f->admin);
	workers_end(&f->workers);
	admin_free(f->admin);
	for (size_t i = 0; i < CONSOLES; i++)
		close(f->fds[i]);
}

STRUCT_FIXTURE(setup, teardown);

static void send_line(const struct fixture *f, size_t console, const char *line)
{
	assert_int_equal(write(f->fds[console], line, strlen(line)), strlen(line));
}

/* Expects that the console's next bytes are this text; leaves the bytes after it unread. */
static void expect_beginning(const struct fixture *f, size_t console, const char *beginning)
{
	char bytes[64] = "";
	size_t n = strlen(beginning);

	assert_int_equal(recv(f->fds[console], bytes, n, MSG_WAITALL), n);
	assert_string_equal(bytes, beginning);
}

static void expect_nothing_yet(const struct fixture *f, size_t console)
{
	char byte;

	assert_int_equal(recv(f->fds[console], &byte, 1, MSG_DONTWAIT), -1);
}

TEST(test_a_console_is_served_while_another_awaits_a_worker)
{
	send_line(f, 0, "PING\r\nSHOW MEMORY\r\n");
	send_line(f, 1, "PING\r\nSHOW WAITERS\r\n");
	expect_beginning(f, 0, "+PONG\r\n");
	expect_beginning(f, 1, "+PONG\r\n");
	send_line(f, 2, "SHOW VERSION\r\n");
	expect_beginning(f, 2, "*1\r\n*2\r\n$7\r\nversion\r\n");
	expect_nothing_yet(f, 0);
	expect_nothing_yet(f, 1);
	workers_go_on(&f->workers);
	expect_beginning(f, 0, "*3\r\n");
	expect_beginning(f, 1, "*0\r\n");
}

TEST(test_those_that_ask_while_it_is_found_out_get_the_next_answer)
{
	for (size_t i = 0; i < CONSOLES; i++)
		send_line(f, i, "SHOW WAITERS\r\nPING\r\n");
	workers_go_on(&f->workers);
	for (size_t i = 0; i < CONSOLES; i++)
		expect_beginning(f, i, "*0\r\n+PONG\r\n");
}

TEST(test_an_answer_that_comes_late_answers_no_other_question)
{
	send_line(f, 0, "PING\r\nSHOW WAITERS\r\n");
	expect_beginning(f, 0, "+PONG\r\n");
	/* Consoles and questions are counted together: SHOW is the first number after these. */
	for (uint64_t id = 1; id < 10; id++)
		if (id != CONSOLES + 1)
			admin_answer(f->admin, id, SLICE_LIT(":1\r\n"));
	workers_go_on(&f->workers);
	expect_beginning(f, 0, "*0\r\n");
}

TEST(test_a_console_that_is_closed_awaits_nothing)
{
	send_line(f, 0, "SHOW WAITERS\r\n");
	send_line(f, 1, "SHOW WAITERS\r\n");
	shutdown(f->fds[0], SHUT_RDWR);
	send_line(f, 2, "PING\r\n");
	expect_beginning(f, 2, "+PONG\r\n");
	workers_go_on(&f->workers);
	expect_beginning(f, 1, "*0\r\n");
}

TEST(test_the_end_may_come_while_a_console_awaits_its_answer)
{
	send_line(f, 0, "SHOW WAITERS\r\n");
	send_line(f, 1, "PING\r\n");
	expect_beginning(f, 1, "+PONG\r\n");
	workers_go_on(&f->workers);
}

TEST(test_who_is_not_there_cannot_be_killed)
{
	workers_go_on(&f->workers);
	send_line(f, 0, "KILL CLIENT 7\r\n");
	expect_beginning(f, 0, "-ERR no client has the id 7\r\n");
}
