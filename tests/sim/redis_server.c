/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redis_server: serves the stand-in for Redis at a unix socket, for check_redis and for hasp
 * itself. It has the machine's clock, or the date in the file CLOCK, see frozen_clock.c.
 *
 *     redis_server PATH [CLOCK]
 */
#include <errno.h>
#include <fcntl.h>
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

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(fd, CLIENTS_MAX)) {
		perror(path);
		exit(1);
	}
	return fd;
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

int main(int argc, char **argv)
{
	static struct pollfd polls[CLIENTS_MAX + 1];
	struct sim_redis *s;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: redis_server PATH [CLOCK]\n");
		return 2;
	}
	s = argc == 3 ? sim_redis_new(frozen_clock, map_clock(argv[2]), 1)
	              : sim_redis_new(wall_clock, NULL, 1);
	polls[CLIENTS_MAX] = (struct pollfd){ .fd = listen_at(argv[1]), .events = POLLIN };
	for (;;) {
		for (int i = 0; i < CLIENTS_MAX; i++)
			polls[i] = (struct pollfd){
				.fd = clients[i].fd ? clients[i].fd : -1,
				.events = (short)((clients[i].conn ? POLLIN : 0) |
				                  (buf_len(&clients[i].out) ? POLLOUT : 0))
			};
		if (poll(polls, CLIENTS_MAX + 1, -1) < 0)
			continue;
		for (int i = 0; i < CLIENTS_MAX; i++)
			if (clients[i].conn && polls[i].revents)
				read_client(&clients[i]);
		for (int i = 0; i < CLIENTS_MAX; i++)
			if (clients[i].fd)
				flush_client(&clients[i]);
		if (polls[CLIENTS_MAX].revents)
			take_client(s, polls[CLIENTS_MAX].fd);
	}
}
