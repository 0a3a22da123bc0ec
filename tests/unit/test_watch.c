/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of net/watch.c: the loop serves sockets in the order in which the kernel reports them.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/watch.h"
#include "tests/unit/testing.h"

/* More events than libev reads from epoll at first, so that it needs several reads. */
#define MANY 300

struct fixture {
	struct ev_loop *loop;
	struct one {
		struct watch watch;
		struct fixture *of;
		int peer;
		void (*then)(struct one *o); /* called by on_ready(); NULL: nothing */
	} ones[MANY];
	size_t served[2 * MANY]; /* indices of the watches called, in order */
	size_t nserved;
	int events; /* events of the last call */
};

static void on_ready(struct watch *w, int events)
{
	struct one *o = container_of(w, struct one, watch);
	struct fixture *f = o->of;
	char byte;

	f->served[f->nserved++] = (size_t)(o - f->ones);
	f->events = events;
	if (o->then)
		o->then(o);
	if (watch_fd(w) >= 0)
		(void)!recv(watch_fd(w), &byte, 1, MSG_DONTWAIT);
}

static void setup(struct fixture *f)
{
	f->loop = watch_loop_new(EVBACKEND_EPOLL);
	assert_non_null(f->loop);
	for (size_t i = 0; i < MANY; i++) {
		int fds[2];
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
		f->ones[i].of = f;
		f->ones[i].peer = fds[1];
		watch_init(&f->ones[i].watch, on_ready);
		watch_start(f->loop, &f->ones[i].watch, fds[0], EV_READ);
	}
	ev_run(f->loop, EVRUN_NOWAIT);
	assert_int_equal(f->nserved, 0);
}

static void teardown(struct fixture *f)
{
	for (size_t i = 0; i < MANY; i++) {
		int fd = watch_stop(f->loop, &f->ones[i].watch);
		if (fd >= 0)
			close(fd);
		close(f->ones[i].peer);
	}
	watch_loop_free(f->loop);
}

STRUCT_FIXTURE(setup, teardown);

/* 7 and MANY have no common divisor, so this gives each index once, in an order that no loop
 * would have. */
static size_t shuffled(size_t i)
{
	return (i * 7 + 3) % MANY;
}

static void send_to(struct fixture *f, size_t i)
{
	assert_int_equal(write(f->ones[i].peer, "x", 1), 1);
}

static void assert_served(const struct fixture *f, const size_t *which, size_t n)
{
	assert_int_equal(f->nserved, n);
	assert_memory_equal(f->served, which, n * sizeof(*which));
}

TEST(they_are_served_in_the_order_in_which_they_became_readable)
{
	for (size_t round = 0; round < 3; round++) {
		f->nserved = 0;
		for (size_t i = 0; i < MANY; i++)
			send_to(f, shuffled(i));
		while (f->nserved < MANY)
			ev_run(f->loop, EVRUN_NOWAIT);
		for (size_t i = 0; i < MANY; i++)
			assert_int_equal(f->served[i], shuffled(i));
		/* A loop without work has asked epoll once more, which forgets the old
		 * order. */
		ev_run(f->loop, EVRUN_NOWAIT);
	}
}

static void stop_next(struct one *o)
{
	int fd = watch_stop(o->of->loop, &o[1].watch);

	close(fd);
}

TEST(one_that_is_stopped_meanwhile_is_not_served)
{
	f->ones[5].then = stop_next;
	for (size_t i = 4; i <= 7; i++)
		send_to(f, i);
	ev_run(f->loop, EVRUN_NOWAIT);
	assert_served(f, (size_t[]){ 4, 5, 7 }, 3);
}

static void ask_next_to_write(struct one *o)
{
	watch_change(o->of->loop, &o[1].watch, EV_READ | EV_WRITE);
}

TEST(one_that_is_asked_for_other_events_meanwhile_keeps_its_place)
{
	f->ones[4].then = ask_next_to_write;
	for (size_t i = 4; i <= 7; i++)
		send_to(f, i);
	ev_run(f->loop, EVRUN_NOWAIT);
	assert_served(f, (size_t[]){ 4, 5, 6, 7 }, 4);
	ev_run(f->loop, EVRUN_NOWAIT);
	assert_served(f, (size_t[]){ 4, 5, 6, 7, 5 }, 5);
	assert_int_equal(f->events, EV_WRITE);
}

static void feed_previous(struct one *o)
{
	watch_feed(o->of->loop, &o[-1].watch);
	o->then = NULL;
}

TEST(one_that_is_fed_is_served_behind_the_others_of_the_turn)
{
	f->ones[5].then = feed_previous;
	for (size_t i = 5; i <= 7; i++)
		send_to(f, i);
	ev_run(f->loop, EVRUN_NOWAIT);
	assert_served(f, (size_t[]){ 5, 6, 7, 4 }, 4);
	assert_int_equal(f->events, EV_READ);
}

static void feed_again(struct one *o)
{
	watch_feed(o->of->loop, &o->watch);
	o->then = NULL;
}

TEST(one_that_is_fed_in_its_own_callback_is_served_again)
{
	f->ones[6].then = feed_again;
	send_to(f, 6);
	send_to(f, 7);
	ev_run(f->loop, EVRUN_NOWAIT);
	assert_served(f, (size_t[]){ 6, 7, 6 }, 3);
}

static void stop_at_once(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct fixture *f = t->data;

	(void)revents;
	close(watch_stop(loop, &f->ones[5].watch));
}

TEST(one_that_a_timer_of_the_turn_stops_is_not_served)
{
	struct ev_timer t;

	ev_timer_init(&t, stop_at_once, 0, 0);
	t.data = f;
	ev_timer_start(f->loop, &t);
	for (size_t i = 4; i <= 6; i++)
		send_to(f, i);
	ev_run(f->loop, EVRUN_NOWAIT);
	assert_served(f, (size_t[]){ 4, 6 }, 2);
}
