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

#include <arpa/inet.h>
#include <netinet/in.h>
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

	if (at.local) {
		assert_int_equal(stat(at.host, &st), 0);
		mode_when_it_began = st.st_mode & 0777;
	}
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

/* A name may have more addresses than the caller has room for. */
static void no_more_sockets_are_opened_than_there_is_room_for(void **state)
{
	struct listen_how how = { .backlog = 1 };
	int fds[2] = { -1, -1 };
	const char *reason;

	(void)state;
	assert_int_equal(address_parse(&at, "*:0"), 0);
	assert_int_equal(listen_open(&at, &how, fds, 1, &reason), 1);
	assert_int_equal(fds[1], -1);
	close(fds[0]);
}

static void an_ipv4_client_of_a_listener_for_both_families_has_its_ipv4_address(void **state)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6 };
	char host[64];

	(void)state;
	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.1.2.3", &sa.sin6_addr), 1);
	address_print_host((struct sockaddr *)&sa, host, sizeof(host));
	assert_string_equal(host, "10.1.2.3");
	assert_int_equal(inet_pton(AF_INET6, "fd00::1", &sa.sin6_addr), 1);
	address_print_host((struct sockaddr *)&sa, host, sizeof(host));
	assert_string_equal(host, "fd00::1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unix_socket_has_its_mode_before_it_listens),
		cmocka_unit_test(no_more_sockets_are_opened_than_there_is_room_for),
		cmocka_unit_test(
			an_ipv4_client_of_a_listener_for_both_families_has_its_ipv4_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
