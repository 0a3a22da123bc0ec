/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the variables that list inherited sockets. tests/e2e/test_activation.py and
 * test_upgrade.py test what hasp does with the sockets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "process/listeners.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/testing.h"

#define VARIABLE "HASP_LISTEN_FDS"

static int set_up(void **state)
{
	(void)state;
	log_fixture_open();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	log_fixture_close();
	return 0;
}

FIXTURE(set_up, tear_down);

static int listening(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

TEST(sockets_of_an_older_hasp_are_listed)
{
	int fds[] = { listening(), listening() };
	struct inherited_fds h = { 0 };
	char text[128];

	snprintf(text, sizeof(text), "%d:tls:own:127.0.0.1:6380 %d:console:lent:unix:/run/x",
	         fds[0], fds[1]);
	setenv(VARIABLE, text, 1);
	assert_int_equal(inherited_fds_take(&h), 0);
	assert_null(getenv(VARIABLE));
	assert_int_equal(h.n, 2);
	assert_int_equal(h.sockets[0].fd, fds[0]);
	assert_int_equal(h.sockets[0].entry.kind, LISTEN_TLS);
	assert_string_equal(h.sockets[0].entry.address, "127.0.0.1:6380");
	assert_false(h.sockets[0].lent);
	assert_int_equal(h.sockets[1].fd, fds[1]);
	assert_int_equal(h.sockets[1].entry.kind, LISTEN_CONSOLE);
	assert_string_equal(h.sockets[1].entry.address, "unix:/run/x");
	assert_true(h.sockets[1].lent);
	inherited_fds_free(&h);
	assert_int_equal(h.n, 0);
	assert_null(h.sockets);
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
}

TEST(malformed_list_of_sockets_is_a_fault)
{
	static const char *const values[] = {
		"x:plain:own:127.0.0.1:6380",
		"3x:plain:own:127.0.0.1:6380",
		"3:none:own:127.0.0.1:6380",
		"3:plain:own",
		"3:plain",
		"3",
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		struct inherited_fds h = { 0 };

		setenv(VARIABLE, values[i], 1);
		assert_int_equal(inherited_fds_take(&h), -1);
		assert_logged("variable=" VARIABLE " reason=\"the value of the variable is");
		inherited_fds_free(&h);
	}
}

/* systemd's numbers: each socket would be at a descriptor from 3 on. */
TEST(variables_of_systemd_that_are_no_numbers_are_ignored)
{
	static const struct {
		const char *pid_end, *n;
	} rows[] = {
		{ "", "" },
		{ "", "x" },
		{ "", "1x" },
		{ "", "-1" },
		{ "", "99999999999999999999" },
		{ "x", "1" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct inherited_fds h = { 0 };
		char pid[32];

		snprintf(pid, sizeof(pid), "%ld%s", (long)getpid(), rows[i].pid_end);
		setenv("LISTEN_PID", pid, 1);
		setenv("LISTEN_FDS", rows[i].n, 1);
		assert_int_equal(inherited_fds_take(&h), 0);
		assert_int_equal(h.n, 0);
		assert_null(getenv("LISTEN_PID"));
		assert_null(getenv("LISTEN_FDS"));
		inherited_fds_free(&h);
	}
	assert_nothing_logged();
}

/* If the new hasp cannot start, the old one still serves at its sockets. */
TEST(file_of_a_socket_that_no_entry_names_goes_when_hasp_serves)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct inherited_fds h = { 0 };
	struct listeners all[LISTENERS_USES] = { 0 };
	struct config config = { .workers = 1 };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char text[128];

	snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/test_listeners.%ld", (long)getpid());
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	snprintf(text, sizeof(text), "%d:plain:own:unix:%s", fd, at.sun_path);
	setenv(VARIABLE, text, 1);
	assert_int_equal(inherited_fds_take(&h), 0);
	assert_int_equal(listeners_open(all, &config, &h), 0);
	assert_int_equal(access(at.sun_path, F_OK), 0);
	inherited_fds_close(&h, true);
	assert_logged("listener_closed address=unix:/tmp/test_listeners.");
	assert_int_equal(access(at.sun_path, F_OK), -1);
	assert_int_equal(close(fd), -1);
	listeners_free(all);
	inherited_fds_free(&h);
}
