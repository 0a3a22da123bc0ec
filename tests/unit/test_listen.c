/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Listening sockets: what can be seen of them only from inside. The rest is in
 * tests/e2e/test_listeners.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/address.h"
#include "net/listen.h"

static struct address at;
static mode_t mode_when_it_began;

/* Instead of the C library's: looks at the socket's file before anybody can connect. */
int listen(int fd, int backlog)
{
	struct stat st;

	assert_int_equal(stat(at.host, &st), 0);
	mode_when_it_began = st.st_mode & 0777;
	return (int)syscall(SYS_listen, fd, backlog);
}

static void unix_socket_has_its_mode_before_it_listens(void **state)
{
	struct listen_how how = { .backlog = 1, .unix_mode = 0600 };
	char dir[] = "/tmp/test_listen.XXXXXX", text[64];
	const char *reason;
	mode_t old = umask(0);
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(text, sizeof(text), "unix:%s/s", dir);
	assert_int_equal(address_parse(&at, text), 0);
	assert_int_equal(listen_open(&at, &how, &fd, 1, &reason), 1);
	assert_int_equal(mode_when_it_began, 0600);
	close(fd);
	unlink(at.host);
	rmdir(dir);
	umask(old);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unix_socket_has_its_mode_before_it_listens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
