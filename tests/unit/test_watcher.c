/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of upstream/watcher.c: the primary that it reports at a reload, when its sentinel
 * cannot be reached; and a failover that a sentinel, which the test plays, publishes.
 */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "tests/unit/testing.h"
#include "upstream/watcher.h"

#define SENTINEL "unix:/nowhere/sentinel"
#define NOBODY_YET "hasp: no sentinel has answered yet"

#define TOLD_MAX 256
#define DEADLINE_MS 20000

struct fixture {
	struct watcher *watcher;
	pthread_mutex_t lock; /* protects `told` */
	sem_t new; /* counts the reports that the test has not read */
	char told[TOLD_MAX]
		 [128]; /* reports: "MASTER: ADDRESS", or the reason why there is no primary */
	size_t ntold, nread;
};

static void on_primary(void *arg, const struct found_primary *p)
{
	struct fixture *f = arg;

	pthread_mutex_lock(&f->lock);
	if (f->ntold == TOLD_MAX)
		abort();
	snprintf(f->told[f->ntold++], sizeof(f->told[0]), "%s: %s", p->master,
	         p->address ? p->address : p->why);
	pthread_mutex_unlock(&f->lock);
	sem_post(&f->new);
}

/* Waits for the next report, and returns it. */
static const char *next(struct fixture *f)
{
	const char *told;

	sem_wait(&f->new);
	pthread_mutex_lock(&f->lock);
	told = f->told[f->nread++];
	pthread_mutex_unlock(&f->lock);
	return told;
}

static bool begins(const char *told, const char *with)
{
	return strncmp(told, with, strlen(with)) == 0;
}

static void set_up(struct fixture *f)
{
	log_set_level(LOG_SEV_ERROR);
	pthread_mutex_init(&f->lock, NULL);
	sem_init(&f->new, 0, 0);
	f->watcher = watcher_new(on_primary, f);
	assert_int_equal(watcher_start(f->watcher), 0);
}

static void tear_down(struct fixture *f)
{
	watcher_stop(f->watcher);
	watcher_free(f->watcher);
	sem_destroy(&f->new);
	pthread_mutex_destroy(&f->lock);
}

STRUCT_FIXTURE(set_up, tear_down);

static void use_sentinel(struct fixture *f, const char *master, const char *address)
{
	char *sentinels[] = { (char *)address };

	watcher_use(f->watcher, &(struct watcher_settings){ .master = master,
	                                                    .sentinels = sentinels,
	                                                    .nsentinels = 1,
	                                                    .timeout_ms = 1000 });
}

static void use(struct fixture *f, const char *master)
{
	use_sentinel(f, master, SENTINEL);
}

TEST(what_is_known_of_a_primary_is_told_again_and_of_another_one_nothing)
{
	const char *told;

	use(f, "one");
	assert_string_equal(next(f), "one: " NOBODY_YET);
	assert_true(begins(next(f), "one: " SENTINEL));
	use(f, "one");
	use(f, "two");
	/* The sentinel may fail for different reasons in turn, each of which is reported. */
	do {
		told = next(f);
		assert_string_not_equal(told, "one: " NOBODY_YET);
	} while (begins(told, "one: "));
	assert_string_equal(told, "two: " NOBODY_YET);
}

/* --- a server that the test plays --------------------------------------------------------- */

struct played {
	int listener;
	char port[8];
	int fds[64]; /* accepted connections */
	size_t nfds;
};

static void played_init(struct played *s)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);

	s->nfds = 0;
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(s->listener, 64), 0);
	assert_int_equal(getsockname(s->listener, (struct sockaddr *)&in, &len), 0);
	snprintf(s->port, sizeof(s->port), "%d", ntohs(in.sin_port));
}

static void played_fini(struct played *s)
{
	close(s->listener);
	while (s->nfds)
		close(s->fds[--s->nfds]);
}

static void await_input(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, DEADLINE_MS) != 1)
		fail_msg("nothing happened for %d ms", DEADLINE_MS);
}

/* Does not mind if hasp has closed the connection. */
static void played_send(int fd, const char *bytes)
{
	(void)send(fd, bytes, strlen(bytes), MSG_NOSIGNAL);
}

/* Returns the next connection on which hasp first sends `word`; the others get `answer`. */
static int played_accept(struct played *s, const char *word, const char *answer)
{
	char got[512];
	ssize_t n;
	int fd;

	for (;;) {
		assert_true(s->nfds < sizeof(s->fds) / sizeof(*s->fds));
		await_input(s->listener);
		fd = s->fds[s->nfds++] = accept(s->listener, NULL, NULL);
		assert_true(fd >= 0);
		await_input(fd);
		n = recv(fd, got, sizeof(got) - 1, 0);
		got[n > 0 ? n : 0] = '\0';
		if (strstr(got, word))
			return fd;
		played_send(fd, answer);
	}
}

/* --- failovers ---------------------------------------------------------------------------- */

#define SWITCH "$14\r\n+switch-master\r\n"

/* The old primary has died: it does not answer hasp's question for its role. */
TEST(a_failover_that_a_sentinel_publishes_begins_a_new_round)
{
	struct played sentinel, primary;
	struct buf out = BUF_INIT;
	char address[32];
	int fd;

	played_init(&sentinel);
	played_init(&primary);
	snprintf(address, sizeof(address), "127.0.0.1:%s", sentinel.port);
	use_sentinel(f, "m", address);
	buf_printf(&out, "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(primary.port),
	           primary.port);
	buf_printf(&out,
	           "*4\r\n$4\r\nname\r\n$1\r\nm\r\n$12\r\nconfig-epoch\r\n$1\r\n1\r\n*0\r\n");
	buf_append(&out, slice_of("", 1));
	fd = played_accept(&sentinel, "SUBSCRIBE", buf_head(&out));
	played_send(fd, "*3\r\n$9\r\nsubscribe\r\n" SWITCH ":1\r\n");
	played_send(fd, "*3\r\n$7\r\nmessage\r\n" SWITCH "$21\r\nm 1.1.1.1 1 2.2.2.2 2\r\n");
	(void)played_accept(&sentinel, "SENTINEL", "");
	buf_release(&out);
	played_fini(&sentinel);
	played_fini(&primary);
}
