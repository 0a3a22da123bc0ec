/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One thread of the resolver answers all requests. The system decides which addresses a name
 * has.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/dial.h"
#include "net/resolve.h"
#include "net/watch.h"
#include "tests/unit/testing.h"

/* While a test has this lock, getaddrinfo() waits. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
/* How often getaddrinfo() was called. */
static _Atomic unsigned nlookups;

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **ai)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	atomic_fetch_add(&nlookups, 1);
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return real(host, port, hints, ai);
}

struct fixture {
	struct ev_loop *loop;
	struct mailbox mailbox;
	struct resolver *resolver;
	unsigned ndone;
	int fd; /* the connection of the dial that has succeeded */
};

static void set_up(struct fixture *f)
{
	f->loop = watch_loop_new(EVFLAG_AUTO);
	mailbox_init(&f->mailbox, f->loop);
	f->resolver = resolver_new(&f->mailbox);
}

static void tear_down(struct fixture *f)
{
	resolver_free(f->resolver);
	mailbox_fini(&f->mailbox);
	watch_loop_free(f->loop);
}

STRUCT_FIXTURE(set_up, tear_down);

static void on_done(void *arg, struct addrinfo *ai, int error)
{
	struct fixture *f = arg;

	assert_int_equal(ai == NULL, error != 0);
	f->ndone++;
	if (ai)
		freeaddrinfo(ai);
}

static struct resolve_request *start(struct fixture *f)
{
	struct resolve_request *q = resolve_start(f->resolver, "localhost", "6379", on_done, f);

	assert_non_null(q);
	return q;
}

static void run_until_done(struct fixture *f, unsigned n)
{
	while (f->ndone < n)
		ev_run(f->loop, EVRUN_ONCE);
	assert_int_equal(f->ndone, n);
}

TEST(each_request_gets_its_answer)
{
	start(f);
	start(f);
	run_until_done(f, 2);
	start(f);
	run_until_done(f, 3);
}

TEST(what_is_cancelled_is_not_answered)
{
	struct resolve_request *q = start(f);

	start(f);
	resolve_cancel(q);
	run_until_done(f, 1);
}

TEST(no_request_waits_for_one_that_was_cancelled)
{
	unsigned before = atomic_load(&nlookups);

	pthread_mutex_lock(&gate);
	start(f);
	while (atomic_load(&nlookups) == before)
		sched_yield();
	for (int i = 0; i < 10; i++)
		resolve_cancel(start(f));
	start(f);
	pthread_mutex_unlock(&gate);
	run_until_done(f, 2);
	assert_int_equal(atomic_load(&nlookups), before + 2);
}

TEST(numeric_addresses_need_no_thread)
{
	struct addrinfo *ai = resolve_numeric("::1", "6379");

	assert_non_null(ai);
	assert_int_equal(ai->ai_family, AF_INET6);
	freeaddrinfo(ai);
	assert_null(resolve_numeric("localhost", "6379"));
}

static void on_dialled(void *arg, int fd, struct tls *tls, const char *reason)
{
	struct fixture *f = arg;

	assert_null(reason);
	assert_null(tls);
	f->fd = fd;
	f->ndone++;
}

TEST(the_address_that_can_be_connected_to_is_that_of_a_dial)
{
	struct dialer dialer = { .loop = f->loop,
		                 .resolver = f->resolver,
		                 .timeout_ms = 600000 };
	struct sockaddr_in own = { .sin_family = AF_INET,
		                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(own);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct address to = { .host = "localhost" };

	assert_int_equal(bind(listener, (struct sockaddr *)&own, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&own, &len), 0);
	snprintf(to.port, sizeof(to.port), "%d", ntohs(own.sin_port));
	(void)dial_start(&dialer, &to, on_dialled, f);
	run_until_done(f, 1);
	assert_true(f->fd >= 0);
	close(f->fd);
	close(listener);
}
