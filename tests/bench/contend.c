/* SPDX-License-Identifier: BSD-3-Clause
 *
 * contend: clients that all want the same lock, hold it for HOLD us (0: release it as soon as
 * they have it), and want it again at once.
 *
 *   contend HOST PORT CLIENTS SECONDS HOLD verb|set|poll|retake|redisson
 *   contend HOST PORT 2 SECONDS HOLD pass [PORT]
 *
 *   verb      LOCK key WAIT 60000, UNLOCK key: through hasp
 *   set       SET key value NX PX 30000, DEL key: through hasp, under a rule with `wait`
 *   poll      to Redis: SET key value NX PX 30000, and 1 ms after each answer again: after a
 *             refusal, and after the release, which is a compare-and-delete by EVALSHA
 *   retake    the same, but a client that has released tries again at once, before others poll
 *   redisson  to Redis, as Redisson's RLock: its scripts; a client that does not get the lock
 *             subscribes, tries again, then waits for the message of a release or the end
 *             of the lease before the next try. Stays subscribed, which Redisson does not:
 *             that spares it two commands each time.
 *   pass      two clients pass a lock on, as with `verb`; a PING while one waits. With another
 *             PORT the second client uses the hasp there
 *
 * Clients that wait in line when the time is over get the lock once more. Prints
 *
 *   seconds, grants, grants to another client than the one before, the luckiest client's and
 *   the unluckiest client's grants, own CPU-seconds
 *
 * and for `pass`, in microseconds, median and 99th percentile of UNLOCK sent -> LOCK of the
 * other answered, and of a PING on the same connection: n median p99 median p99.
 *
 * An answer that is not to be expected ends it with status 1.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/list.h"
#include "resp/write.h"
#include "tests/bench/talk.h"

#define KEY "bench:contended"
#define RULE_KEY "rule:contended" /* has a [lock] rule, so LOCK would get an error */
#define CHANNEL "redisson_lock__channel:{" KEY "}"
#define LEASE "30000"
#define WAIT "60000"
#define MS_NS 1000000
#define POLL_NS MS_NS
#define EVENTS 512
#define REPLY_MAX 512
#define SAMPLES_MAX 100000

static const char compare_and_delete[] =
	"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end "
	"return 0";

/* Redisson's scripts, as it sends them. */
static const char redisson_lock[] = "if ((redis.call('exists', KEYS[1]) == 0) or "
				    "(redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then "
				    "redis.call('hincrby', KEYS[1], ARGV[2], 1); "
				    "redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; "
				    "return redis.call('pttl', KEYS[1]);";
static const char redisson_unlock[] =
	"if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end; "
	"local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); "
	"if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; "
	"else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); "
	"return 1; end; return nil;";

enum how { VERB, SET, POLLING, RETAKING, REDISSON, PASS };

static const char *const hows[] = {
	[VERB] = "verb",       [SET] = "set",           [POLLING] = "poll",
	[RETAKING] = "retake", [REDISSON] = "redisson", [PASS] = "pass",
};

enum act { ACQUIRE, RELEASE };

struct conn {
	int fd; /* -1: none */
	struct client *client;
	char reply[REPLY_MAX];
	size_t nreply;
};

struct client {
	struct conn commands, messages;
	enum act act; /* what the request in flight does */
	struct buf requests[2]; /* by act */
	bool holding; /* holds the lock, and sleeps before it releases it */
	struct list sleeping; /* in load.sleepers while the client sleeps */
	uint64_t due_ns; /* when it wakes */
	bool subscribed; /* redisson: SUBSCRIBE is answered */
	bool woken; /* redisson: a message of a release came since the last try began */
	uint64_t grants;
};

struct load {
	enum how how;
	uint64_t hold_ns;
	struct addrinfo *to, *other; /* `other`: for the second client; NULL: `to` */
	int epoll, timer;
	struct client *clients;
	int nclients, nactive; /* `nactive`: those that are not done yet */
	struct list sleepers; /* by due_ns */
	uint64_t armed_ns; /* when the timer fires; 0: it does not */
	bool over; /* the measured time is over */
	struct client *last; /* the client that had the lock last */
	uint64_t passed; /* how often the lock went to another client than the last one */
	struct slice acquire_sha, release_sha;
};

/* --- what is sent --------------------------------------------------------------- */

/* Loads the script into Redis. Returns its SHA1. */
static struct slice load_script(const struct addrinfo *to, const char *text)
{
	struct slice argv[] = { SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"), slice_str(text) };
	struct buf out = BUF_INIT;
	char reply[REPLY_MAX];
	int fd = connect_to(to);

	resp_write_request(&out, argv, 3);
	write_all(fd, buf_slice(&out));
	if (read(fd, reply, sizeof(reply)) != 47 || strncmp(reply, "$40\r\n", 5) != 0)
		fail("SCRIPT LOAD", "refused");
	close(fd);
	buf_release(&out);
	return slice_of(xmemdup(reply + 5, 40), 40);
}

static bool polls(const struct load *load)
{
	return load->how == POLLING || load->how == RETAKING;
}

static void load_scripts(struct load *load)
{
	if (polls(load))
		load->release_sha = load_script(load->to, compare_and_delete);
	if (load->how != REDISSON)
		return;
	load->acquire_sha = load_script(load->to, redisson_lock);
	load->release_sha = load_script(load->to, redisson_unlock);
}

#define WRITE(out, ...)                                                                        \
	do {                                                                                   \
		struct slice argv[] = { __VA_ARGS__ };                                         \
		resp_write_request((out), argv, sizeof(argv) / sizeof(argv[0]));               \
	} while (0)

static void write_requests(const struct load *load, struct client *c, int n)
{
	struct buf *acquire = &c->requests[ACQUIRE], *release = &c->requests[RELEASE];
	char name[64];
	struct slice key = SLICE_LIT(KEY), lease = SLICE_LIT(LEASE), token;

	/* As long as a UUID and a thread's number. */
	snprintf(name, sizeof(name), "3d7a1f5e-0c2b-4a6d-9e8f-%012d:1", n);
	token = slice_str(name);
	if (load->how == SET)
		key = SLICE_LIT(RULE_KEY);
	switch (load->how) {
	case VERB:
	case PASS:
		WRITE(acquire, SLICE_LIT("LOCK"), key, SLICE_LIT("WAIT"), SLICE_LIT(WAIT));
		WRITE(release, SLICE_LIT("UNLOCK"), key);
		break;
	case SET:
	case POLLING:
	case RETAKING:
		WRITE(acquire, SLICE_LIT("SET"), key, token, SLICE_LIT("NX"), SLICE_LIT("PX"),
		      lease);
		if (load->how == SET)
			WRITE(release, SLICE_LIT("DEL"), key);
		else
			WRITE(release, SLICE_LIT("EVALSHA"), load->release_sha, SLICE_LIT("1"),
			      key, token);
		break;
	case REDISSON:
		WRITE(acquire, SLICE_LIT("EVALSHA"), load->acquire_sha, SLICE_LIT("1"), key,
		      lease, token);
		WRITE(release, SLICE_LIT("EVALSHA"), load->release_sha, SLICE_LIT("2"), key,
		      SLICE_LIT(CHANNEL), SLICE_LIT("0"), lease, token);
		break;
	}
}

/* --- the load ------------------------------------------------------------------- */

static void send_request(struct client *c, enum act act)
{
	c->act = act;
	c->commands.nreply = 0;
	write_all(c->commands.fd, buf_slice(&c->requests[act]));
}

static void try_again(struct load *load, struct client *c)
{
	list_remove(&c->sleeping);
	if (load->over)
		load->nactive--;
	else
		send_request(c, ACQUIRE);
}

static void sleep_for(struct load *load, struct client *c, uint64_t ns)
{
	struct list *at = load->sleepers.prev;

	c->due_ns = now_ns() + ns;
	/* The new sleeper nearly always belongs at the end. */
	while (at != &load->sleepers &&
	       container_of(at, struct client, sleeping)->due_ns > c->due_ns)
		at = at->prev;
	list_append(at->next, &c->sleeping);
}

static void subscribe(struct load *load, struct client *c)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = &c->messages };
	struct buf out = BUF_INIT;

	c->messages.fd = connect_to(load->to);
	if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, c->messages.fd, &e) < 0)
		fail("epoll_ctl", strerror(errno));
	WRITE(&out, SLICE_LIT("SUBSCRIBE"), SLICE_LIT(CHANNEL));
	write_all(c->messages.fd, buf_slice(&out));
	buf_release(&out);
}

/* `left_ms`: time left of the holder's lease. */
static void refused(struct load *load, struct client *c, uint64_t left_ms)
{
	if (load->over)
		load->nactive--;
	else if (polls(load))
		sleep_for(load, c, POLL_NS);
	else if (c->messages.fd < 0)
		subscribe(load, c);
	else if (c->woken) {
		c->woken = false;
		try_again(load, c);
	} else
		sleep_for(load, c, left_ms * MS_NS);
}

static void granted(struct load *load, struct client *c)
{
	c->grants++;
	load->passed += load->last != c;
	load->last = c;
	c->holding = load->hold_ns > 0;
	if (c->holding)
		sleep_for(load, c, load->hold_ns);
	else
		send_request(c, RELEASE);
}

static void released(struct load *load, struct client *c)
{
	c->woken = false;
	if (load->how == POLLING && !load->over)
		sleep_for(load, c, POLL_NS);
	else
		try_again(load, c);
}

static void on_answer(struct load *load, struct client *c)
{
	const char *r = c->commands.reply;
	bool nil = strcmp(r, "$-1\r\n") == 0, number = *r == ':',
	     one = strcmp(r, ":1\r\n") == 0;

	if (c->act == RELEASE) {
		if (!one)
			fail("release", r);
		released(load, c);
	} else if (load->how == REDISSON ? nil : load->how == VERB ? number : *r == '+') {
		granted(load, c);
	} else if (load->how == REDISSON ? number : polls(load) && nil) {
		refused(load, c, number ? strtoull(r + 1, NULL, 10) : 0);
	} else {
		fail("acquire", r);
	}
}

static void read_some(struct conn *conn)
{
	ssize_t n = read(conn->fd, conn->reply + conn->nreply,
	                 sizeof(conn->reply) - 1 - conn->nreply);

	if (n <= 0)
		fail("read", n < 0 ? strerror(errno) : "closed");
	conn->nreply += (size_t)n;
	conn->reply[conn->nreply] = '\0';
}

static void on_message(struct load *load, struct client *c)
{
	static const char confirmed[] = "*3\r\n$9\r\nsubscribe\r\n$40\r\n" CHANNEL "\r\n:1\r\n";
	bool more = c->subscribed;

	read_some(&c->messages);
	if (!c->subscribed) {
		if (c->messages.nreply < strlen(confirmed))
			return;
		if (strncmp(c->messages.reply, confirmed, strlen(confirmed)) != 0)
			fail("SUBSCRIBE", c->messages.reply);
		c->subscribed = true;
		more = c->messages.nreply > strlen(confirmed);
		try_again(load, c);
	}
	c->messages.nreply = 0;
	if (!more)
		return;
	if (list_empty(&c->sleeping) || c->holding)
		c->woken = true;
	else
		try_again(load, c);
}

static void on_readable(struct load *load, struct conn *conn)
{
	struct client *c = conn->client;

	if (conn == &c->messages) {
		on_message(load, c);
		return;
	}
	read_some(conn);
	if (conn->reply[conn->nreply - 1] == '\n')
		on_answer(load, c);
}

static void wake(struct load *load, struct client *c)
{
	if (!c->holding) {
		try_again(load, c);
		return;
	}
	c->holding = false;
	list_remove(&c->sleeping);
	send_request(c, RELEASE);
}

static void wake_sleepers(struct load *load)
{
	uint64_t now = now_ns();

	while (!list_empty(&load->sleepers)) {
		struct client *c = container_of(load->sleepers.next, struct client, sleeping);
		if (c->due_ns > now && !load->over)
			return;
		wake(load, c);
	}
}

static void set_timer(struct load *load)
{
	struct itimerspec at = { 0 };
	uint64_t due;

	if (list_empty(&load->sleepers))
		return;
	due = container_of(load->sleepers.next, struct client, sleeping)->due_ns;
	if (due == load->armed_ns)
		return;
	load->armed_ns = due;
	at.it_value.tv_sec = (time_t)(due / 1000000000u);
	at.it_value.tv_nsec = (long)(due % 1000000000u);
	if (timerfd_settime(load->timer, TFD_TIMER_ABSTIME, &at, NULL) < 0)
		fail("timerfd_settime", strerror(errno));
}

static void run(struct load *load, uint64_t until_ns)
{
	struct epoll_event events[EVENTS];

	load->nactive = load->nclients;
	for (int i = 0; i < load->nclients; i++)
		send_request(&load->clients[i], ACQUIRE);
	while (load->nactive) {
		int ready;
		set_timer(load);
		ready = epoll_wait(load->epoll, events, EVENTS, 10000);
		if (ready == 0)
			fail("no answer", "for 10 s");
		for (int i = 0; i < ready; i++)
			if (events[i].data.ptr)
				on_readable(load, events[i].data.ptr);
		load->over = now_ns() >= until_ns;
		wake_sleepers(load);
	}
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void contend(struct load *load, double seconds)
{
	uint64_t began = now_ns(), all = 0, most = 0, least = UINT64_MAX;
	double cpu = cpu_seconds();

	run(load, began + (uint64_t)(seconds * 1e9));
	cpu = cpu_seconds() - cpu;
	for (int i = 0; i < load->nclients; i++) {
		uint64_t n = load->clients[i].grants;
		all += n;
		most = n > most ? n : most;
		least = n < least ? n : least;
	}
	printf("%.6f %llu %llu %llu %llu %.3f\n", (double)(now_ns() - began) / 1e9,
	       (unsigned long long)all, (unsigned long long)load->passed,
	       (unsigned long long)most, (unsigned long long)least, cpu);
}

/* --- passing on ------------------------------------------------------------------ */

static void expect(struct conn *conn, const char *what, const char *command_prefix)
{
	conn->nreply = 0;
	do
		read_some(conn);
	while (conn->reply[conn->nreply - 1] != '\n');
	if (strncmp(conn->reply, command_prefix, strlen(command_prefix)) != 0)
		fail(what, conn->reply);
}

static void pause_for(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void print_percentiles(uint32_t *samples, size_t n)
{
	qsort(samples, n, sizeof(*samples), compare);
	printf(" %.1f %.1f", samples[n / 2] / 1e3, samples[n * 99 / 100] / 1e3);
}

static void pass(struct load *load, double seconds)
{
	struct client *holder = &load->clients[0], *other = &load->clients[1], *c;
	uint64_t until = now_ns() + (uint64_t)(seconds * 1e9), at;
	uint32_t *passes = xcalloc(SAMPLES_MAX, sizeof(*passes));
	uint32_t *pings = xcalloc(SAMPLES_MAX, sizeof(*pings));
	size_t n = 0;

	send_request(holder, ACQUIRE);
	expect(&holder->commands, "LOCK", ":");
	while (n < SAMPLES_MAX && (n == 0 || now_ns() < until)) {
		send_request(other, ACQUIRE);
		pause_for(load->hold_ns);
		at = now_ns();
		write_all(holder->commands.fd, SLICE_LIT("*1\r\n$4\r\nPING\r\n"));
		expect(&holder->commands, "PING", "+PONG");
		pings[n] = (uint32_t)(now_ns() - at);

		pause_for(load->hold_ns);
		if (poll(&(struct pollfd){ other->commands.fd, POLLIN, 0 }, 1, 0) != 0)
			fail("LOCK", "does not wait");
		at = now_ns();
		send_request(holder, RELEASE);
		expect(&other->commands, "LOCK", ":");
		passes[n++] = (uint32_t)(now_ns() - at);
		expect(&holder->commands, "UNLOCK", ":1");
		c = holder;
		holder = other;
		other = c;
	}
	send_request(holder, RELEASE);
	expect(&holder->commands, "UNLOCK", ":1");
	printf("%zu", n);
	print_percentiles(passes, n);
	print_percentiles(pings, n);
	putchar('\n');
	free(passes);
	free(pings);
}

/* --- start and end ---------------------------------------------------------------- */

static void client_init(struct load *load, struct client *c, int n)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = &c->commands };

	const struct addrinfo *to = n == 1 && load->other ? load->other : load->to;

	c->commands = (struct conn){ .fd = connect_to(to), .client = c };
	c->messages = (struct conn){ .fd = -1, .client = c };
	list_init(&c->sleeping);
	write_requests(load, c, n);
	if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, c->commands.fd, &e) < 0)
		fail("epoll_ctl", strerror(errno));
}

static void client_fini(struct client *c)
{
	close(c->commands.fd);
	if (c->messages.fd >= 0)
		close(c->messages.fd);
	buf_release(&c->requests[ACQUIRE]);
	buf_release(&c->requests[RELEASE]);
}

static int how_of(const char *name)
{
	for (int i = 0; i <= PASS; i++)
		if (strcmp(name, hows[i]) == 0)
			return i;
	return -1;
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	struct load load = { .last = NULL };
	int how = argc == 7 || argc == 8 ? how_of(argv[6]) : -1, error;
	double seconds;

	if (how < 0 || (load.nclients = atoi(argv[3])) <= 0 || (seconds = atof(argv[4])) <= 0 ||
	    (how == PASS && load.nclients != 2) || (how != PASS && argc == 8)) {
		fputs("usage: contend HOST PORT CLIENTS SECONDS HOLD "
		      "verb|set|poll|retake|redisson\n"
		      "       contend HOST PORT 2 SECONDS HOLD pass [PORT]\n",
		      stderr);
		return 2;
	}
	load.how = (enum how)how;
	load.hold_ns = strtoull(argv[5], NULL, 10) * 1000;
	error = getaddrinfo(argv[1], argv[2], &hints, &load.to);
	if (!error && argc == 8)
		error = getaddrinfo(argv[1], argv[7], &hints, &load.other);
	if (error)
		fail(argv[1], gai_strerror(error));
	load.epoll = epoll_create1(EPOLL_CLOEXEC);
	load.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	/* The program never reads the timer: epoll reports each setting. */
	if (epoll_ctl(load.epoll, EPOLL_CTL_ADD, load.timer, &e) < 0)
		fail("epoll_ctl", strerror(errno));
	list_init(&load.sleepers);
	load_scripts(&load);
	load.clients = xcalloc((size_t)load.nclients, sizeof(*load.clients));
	for (int i = 0; i < load.nclients; i++)
		client_init(&load, &load.clients[i], i);
	if (load.how == PASS)
		pass(&load, seconds);
	else
		contend(&load, seconds);

	for (int i = 0; i < load.nclients; i++)
		client_fini(&load.clients[i]);
	free((char *)load.acquire_sha.p);
	free((char *)load.release_sha.p);
	freeaddrinfo(load.to);
	if (load.other)
		freeaddrinfo(load.other);
	free(load.clients);
	return 0;
}
