/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redis_server: serves the stand-in for Redis, for check_redis and for hasp itself. It ignores
 * the options of a redis-server that it does not know. So it can be $REDIS_SERVER of the e2e
 * tests.
 *
 *     redis_server [--port PORT] [--unixsocket PATH] [--requirepass PASSWORD] [--clock FILE]
 *
 * It listens at 127.0.0.1. --clock: the date is what the file says, see frozen_clock.c.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/sim/redis.h"

#define CLIENTS_MAX 1000

static struct client {
	int fd; /* 0: free */
	struct sim_redis_conn *conn; /* NULL: the server has closed it */
	struct buf out;
} clients[CLIENTS_MAX];

static int64_t wall_clock(void *arg)
{
	struct timespec t;

	(void)arg;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void on_send(void *arg, const char *p, size_t n)
{
	buf_append(&((struct client *)arg)->out, slice_of(p, n));
}

static void on_closed(void *arg)
{
	((struct client *)arg)->conn = NULL;
}

static int64_t frozen_clock(void *arg)
{
	return *(const volatile int64_t *)arg;
}

static void *map_clock(const char *path)
{
	int fd = open(path, O_RDONLY);
	void *p = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	close(fd);
	return p;
}

static int listen_at(struct sockaddr *address, socklen_t n, const char *name)
{
	int fd = socket(address->sa_family, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, address, n) || listen(fd, CLIENTS_MAX)) {
		perror(name);
		exit(1);
	}
	return fd;
}

static int listen_at_port(const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_port = htons((uint16_t)atoi(port)),
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	return listen_at((struct sockaddr *)&address, sizeof(address), port);
}

static int listen_at_path(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	return listen_at((struct sockaddr *)&address, sizeof(address), path);
}

static void take_client(struct sim_redis *s, int listener)
{
	int fd = accept(listener, NULL, NULL);
	struct client *c = clients;

	while (c < clients + CLIENTS_MAX && c->fd)
		c++;
	if (fd < 0 || c == clients + CLIENTS_MAX) {
		close(fd);
		return;
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	c->fd = fd;
	c->conn = sim_redis_connect(s, on_send, on_closed, c);
}

static void drop_client(struct client *c)
{
	if (c->conn)
		sim_redis_disconnect(c->conn);
	close(c->fd);
	buf_release(&c->out);
	*c = (struct client){ 0 };
}

static void read_client(struct client *c)
{
	char bytes[65536];
	ssize_t n = read(c->fd, bytes, sizeof(bytes));

	if (n > 0)
		sim_redis_receive(c->conn, bytes, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		drop_client(c);
}

/* Writes what a command of any client has left for this one. */
static void flush_client(struct client *c)
{
	ssize_t n = 0;

	if (buf_len(&c->out))
		n = send(c->fd, buf_head(&c->out), buf_len(&c->out), MSG_NOSIGNAL);
	if (n > 0)
		buf_consume(&c->out, (size_t)n);
	if ((n < 0 && errno != EAGAIN) || (!c->conn && !buf_len(&c->out)))
		drop_client(c);
}

/* The value of an option; NULL: it is not given. */
static const char *option(char **argv, const char *name)
{
	for (; *argv; argv++)
		if (strcmp(*argv, name) == 0)
			return argv[1];
	return NULL;
}

#define LISTENERS 2

int main(int argc, char **argv)
{
	static struct pollfd polls[CLIENTS_MAX + LISTENERS];
	const char *port = option(argv, "--port"), *path = option(argv, "--unixsocket");
	const char *clock = option(argv, "--clock");
	struct pollfd *listeners = polls + CLIENTS_MAX;
	struct sim_redis *s = clock ? sim_redis_new(frozen_clock, map_clock(clock), 1)
	                            : sim_redis_new(wall_clock, NULL, (uint64_t)getpid());

	(void)argc;
	sim_redis_set_password(s, option(argv, "--requirepass"));
	listeners[0] = (struct pollfd){ .fd = port && atoi(port) ? listen_at_port(port) : -1,
		                        .events = POLLIN };
	listeners[1] = (struct pollfd){ .fd = path ? listen_at_path(path) : -1,
		                        .events = POLLIN };
	for (;;) {
		for (int i = 0; i < CLIENTS_MAX; i++)
			polls[i] = (struct pollfd){
				.fd = clients[i].fd ? clients[i].fd : -1,
				.events = (short)((clients[i].conn ? POLLIN : 0) |
				                  (buf_len(&clients[i].out) ? POLLOUT : 0))
			};
		if (poll(polls, CLIENTS_MAX + LISTENERS, -1) < 0)
			continue;
		for (int i = 0; i < CLIENTS_MAX; i++)
			if (clients[i].conn && polls[i].revents)
				read_client(&clients[i]);
		for (int i = 0; i < CLIENTS_MAX; i++)
			if (clients[i].fd)
				flush_client(&clients[i]);
		for (int i = 0; i < LISTENERS; i++)
			if (listeners[i].fd >= 0 && listeners[i].revents)
				take_client(s, listeners[i].fd);
	}
}
