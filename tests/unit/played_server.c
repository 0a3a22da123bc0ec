/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/played_server.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/testing.h"

#define DEADLINE_SECONDS 20.0

void played_server_init(struct played_server *s, struct surroundings *at)
{
	*s = (struct played_server){ .at = at, .fd = -1 };
}

void played_server_fini(struct played_server *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static void on_deadline(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
	fail_msg("nothing happened for %d seconds", (int)DEADLINE_SECONDS);
}

void played_server_step(struct played_server *s)
{
	struct ev_timer deadline;

	ev_timer_init(&deadline, on_deadline, DEADLINE_SECONDS, 0);
	ev_timer_start(s->at->loop, &deadline);
	ev_run(s->at->loop, EVRUN_ONCE);
	ev_timer_stop(s->at->loop, &deadline);
}

void played_server_settle(struct played_server *s)
{
	for (int i = 0; i < 4; i++)
		ev_run(s->at->loop, EVRUN_NOWAIT);
}

bool played_server_is_dialled(const struct played_server *s)
{
	struct pollfd p = { .fd = s->at->listener, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

void played_server_accept(struct played_server *s)
{
	assert_int_equal(s->fd, -1);
	while (!played_server_is_dialled(s))
		played_server_step(s);
	s->fd = accept(s->at->listener, NULL, NULL);
	assert_true(s->fd >= 0);
	played_server_settle(s);
}

void played_server_expect(struct played_server *s, const char *bytes)
{
	size_t n = strlen(bytes), got = 0;
	char p[1024];

	assert_in_range(n, 1, sizeof(p));
	while (got < n) {
		ssize_t r = recv(s->fd, p + got, n - got, MSG_DONTWAIT);
		assert_int_not_equal(r, 0);
		if (r > 0)
			got += (size_t)r;
		else
			played_server_step(s);
	}
	assert_memory_equal(p, bytes, n);
}

void played_server_send(struct played_server *s, const char *bytes)
{
	assert_int_equal(send(s->fd, bytes, strlen(bytes), MSG_NOSIGNAL), strlen(bytes));
	played_server_settle(s);
}

void played_server_close(struct played_server *s)
{
	played_server_fini(s);
	played_server_settle(s);
}
