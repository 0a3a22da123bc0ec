/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of listening sockets that only the inside of hasp can see. tests/e2e/test_listeners.py
 * has the others.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
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
#include "net/watch.h"
#include "tests/unit/testing.h"

static struct address at;
static mode_t mode_when_it_began;

/* Replaces the C library's function, to read the socket file's mode before a client can
 * connect. */
int listen(int fd, int backlog)
{
	struct stat st;

	if (at.local) {
		assert_int_equal(stat(at.host, &st), 0);
		mode_when_it_began = st.st_mode & 0777;
	}
	return (int)syscall(SYS_listen, fd, backlog);
}

/* How often accept4(), which replaces the C library's, still fails for lack of descriptors. */
static int nexhausted;

int accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags)
{
	if (nexhausted > 0) {
		nexhausted--;
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_accept4, fd, peer, len, flags);
}

TEST(unix_socket_has_its_mode_before_it_listens)
{
	struct listen_opts opts = { .backlog = 1, .unix_mode = 0600 };
	char dir[] = "/tmp/test_listen.XXXXXX", text[64];
	const char *reason;
	mode_t old = umask(0);
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(text, sizeof(text), "unix:%s/s", dir);
	assert_int_equal(address_parse(&at, text), 0);
	assert_int_equal(listen_open(&at, &opts, &fd, 1, &reason), 1);
	assert_int_equal(mode_when_it_began, 0600);
	close(fd);
	unlink(at.host);
	rmdir(dir);
	umask(old);
}

TEST(no_more_sockets_are_opened_than_there_is_room_for)
{
	struct listen_opts opts = { .backlog = 1 };
	int fds[2] = { -1, -1 };
	const char *reason;

	assert_int_equal(address_parse(&at, "*:0"), 0);
	assert_int_equal(listen_open(&at, &opts, fds, 1, &reason), 1);
	assert_int_equal(fds[1], -1);
	close(fds[0]);
}

/* Writes a link-local address of this machine to `text`, with its interface. Returns false if
 * there is none. */
static bool link_local(char *text, size_t n)
{
	struct ifaddrs *all;
	char host[64];
	bool found = false;

	assert_int_equal(getifaddrs(&all), 0);
	for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		const struct sockaddr_in6 *in6 = (const void *)i->ifa_addr;

		if (!in6 || in6->sin6_family != AF_INET6 ||
		    !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			continue;
		address_print_host(i->ifa_addr, host, sizeof(host));
		snprintf(text, n, "[%s%%%s]:0", host, i->ifa_name);
		found = true;
	}
	freeifaddrs(all);
	return found;
}

TEST(workers_share_a_link_local_address)
{
	struct listen_opts opts = { .backlog = 1, .share = true };
	const char *reason;
	char text[128];
	int fd, again;

	if (!link_local(text, sizeof(text)))
		skip();
	assert_int_equal(address_parse(&at, text), 0);
	assert_int_equal(listen_open(&at, &opts, &fd, 1, &reason), 1);
	again = listen_open_same(fd, &opts);
	assert_true(again >= 0);
	assert_true(listen_is_with(fd, again));
	close(fd);
	close(again);
}

TEST(an_ipv4_client_of_a_listener_for_both_families_has_its_ipv4_address)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6 };
	char host[64];

	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.1.2.3", &sa.sin6_addr), 1);
	address_print_host((struct sockaddr *)&sa, host, sizeof(host));
	assert_string_equal(host, "10.1.2.3");
	assert_int_equal(inet_pton(AF_INET6, "fd00::1", &sa.sin6_addr), 1);
	address_print_host((struct sockaddr *)&sa, host, sizeof(host));
	assert_string_equal(host, "fd00::1");
}

struct accepted {
	int n, nexhausted;
};

static void on_accept(void *owner, int fd, const struct sockaddr *peer, socklen_t len)
{
	(void)peer;
	(void)len;
	((struct accepted *)owner)->n++;
	close(fd);
}

static void on_exhausted(void *owner, int error)
{
	assert_int_equal(error, EMFILE);
	((struct accepted *)owner)->nexhausted++;
}

TEST(without_descriptors_a_connection_is_accepted_a_little_later)
{
	static const struct acceptor_ops ops = { on_accept, on_exhausted };
	struct listen_opts opts = { .backlog = 4 };
	struct accepted got = { 0 };
	struct ev_loop *loop = watch_loop_new(EVFLAG_AUTO);
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	struct list acceptors;
	const char *reason;
	int fd, client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(address_parse(&at, "127.0.0.1:0"), 0);
	assert_int_equal(listen_open(&at, &opts, &fd, 1, &reason), 1);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	list_init(&acceptors);
	acceptors_add(&acceptors, loop, fd, &ops, &got);
	assert_int_equal(connect(client, (struct sockaddr *)&sa, len), 0);
	nexhausted = 2;
	/* The loop ends only if the acceptor pauses: without a pause it would call accept4()
	 * over and over. */
	while (got.n == 0)
		ev_run(loop, EVRUN_ONCE);
	assert_int_equal(got.nexhausted, 2);
	assert_int_equal(got.n, 1);
	close(client);
	acceptors_free(&acceptors);
	watch_loop_free(loop);
}
