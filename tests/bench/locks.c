/* SPDX-License-Identifier: BSD-3-Clause
 *
 * locks: a load of locks: each client takes a lock of its own and gives it back, or changes
 * a value of its own, over and over, one request in flight.
 *
 *   locks HOST PORT CLIENTS ROUNDS app|calls KIND
 *
 *   set     SET key value NX PX 30000, then DEL key
 *   setnx   SETNX key value, then DEL key
 *   value   as `set`, the key being `value:N` and the value its owner's
 *   waits   as `setnx`, the key being `waits:N`
 *   verb    LOCK key PX 30000, then UNLOCK key
 *   limit   the same with LIMIT 3: a place of a semaphore
 *   shared, exclusive
 *           the same with that side of a read-write lock
 *   guard   GET key, then SET key value, the key being `guard:N`
 *   plain   the same with a key `plain:N`, as have the following
 *   watch   WATCH key; GET key; MULTI, SET key value and EXEC, sent at once
 *   each    the same five commands, each when the one before it is answered
 *   multi   MULTI, SET key value, GET key, SET key value and EXEC, sent at once
 *   go-zero, redisson
 *           the scripts by which these libraries take a lock and release it, with the keys of
 *           `plain`: sent to Redis directly, they are what a lock costs without hasp
 *   followed
 *           as `go-zero`, with a key `value:N`, whose rule has owner = value
 *   app     as an application sends it: through hasp, with rules for `bench:*`, for `value:*`
 *           with owner = value and for `waits:*` with wait, and a guard for `guard:*`
 *   calls   (set, setnx, verb, limit, shared, exclusive) as hasp sends it: the EVALSHA calls
 *           of the same scripts, to Redis directly
 *
 * Prints answers per second, and the median and the 99th percentile of their latency in
 * milliseconds. An answer other than the one that an undisturbed client gets ends it with
 * status 1.
 */
#include <errno.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/sha1.h"
#include "lock/rewrite/rewrite.h"
#include "resp/write.h"
#include "tests/bench/talk.h"

#define LEASE_MS 30000
#define EVENTS 512
#define REPLY_MAX 512
/* Latencies are counted in steps of 10 us up to 1 s. */
#define STEP_NS 10000
#define LATENCIES 100000

/* The requests of a round, each sent when the one before is answered. */
#define STEPS_MAX 5

struct client {
	int fd;
	size_t step; /* index of the request that is in flight */
	struct buf requests[STEPS_MAX];
	char reply[REPLY_MAX];
	size_t nreply;
	uint64_t sent_ns;
};

struct kind;

struct load {
	const struct kind *kind;
	bool calls;
	struct commands *commands; /* NULL unless `calls` */
	struct addrinfo *to;
	int epoll;
	uint64_t left, done; /* `left`: rounds to begin; `done`: requests answered */
	int inflight;
	uint32_t latencies[LATENCIES];
};

struct kind {
	const char *name;
	const char *prefix; /* beginning of the keys' names */
	void (*write)(const struct load *load, struct client *c, struct slice key,
	              struct slice token);
	size_t nsteps;
	const char *answers[STEPS_MAX]; /* the expected replies; NULL: any integer > 0 */
	bool has_value; /* the key has a value before the load begins */
};

/* --- what is sent --------------------------------------------------------------- */

static const struct slice lease = SLICE_LIT("30000"), value = SLICE_LIT("xxx");

/* Loads the script into Redis, and fills in its SHA1. */
static void load_script(int fd, struct slice text, char sha1[static SHA1_HEX + 1])
{
	struct slice argv[] = { SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"), text };
	struct buf out = BUF_INIT;
	char reply[REPLY_MAX];

	resp_write_request(&out, argv, 3);
	write_all(fd, buf_slice(&out));
	if (read(fd, reply, sizeof(reply)) <= 0 || *reply != '$')
		fail("SCRIPT LOAD", "refused");
	buf_release(&out);
	sha1_hex(sha1, &text, 1);
}

static void load_scripts(const struct addrinfo *to)
{
	int fd = connect_to(to);
	char sha1[SHA1_HEX + 1];

	for (int i = 0; i < SCRIPT_COUNT; i++)
		load_script(fd, script_get((enum script_id)i)->text, sha1);
	close(fd);
}

static void write_verb(const struct load *load, struct buf *out, enum verb verb,
                       const struct resp_view *req, struct slice token)
{
	struct verbs verbs = { .reentrant = REENTRANT_COUNT, .lease_ms = LEASE_MS };
	struct lock_call call = { 0 };

	if (load->calls)
		rewrite_verb(out, verb, req, &verbs, token, &(struct rewrite_opts){ 0 }, &call);
	else
		resp_write_request(out, req->argv, req->argc);
}

static void write_verbs(const struct load *load, struct client *c, struct slice key,
                        struct slice token)
{
	struct slice lock[] = { SLICE_LIT("LOCK"), key, SLICE_LIT("PX"), lease };
	struct slice unlock[] = { SLICE_LIT("UNLOCK"), key };

	write_verb(load, &c->requests[0], VERB_LOCK, &(struct resp_view){ 4, lock }, token);
	write_verb(load, &c->requests[1], VERB_UNLOCK, &(struct resp_view){ 2, unlock }, token);
}

static void write_limits(const struct load *load, struct client *c, struct slice key,
                         struct slice token)
{
	struct slice lock[] = { SLICE_LIT("LOCK"), key,  SLICE_LIT("LIMIT"), SLICE_LIT("3"),
		                SLICE_LIT("PX"),   lease };
	struct slice unlock[] = { SLICE_LIT("UNLOCK"), key };

	write_verb(load, &c->requests[0], VERB_LOCK, &(struct resp_view){ 6, lock }, token);
	write_verb(load, &c->requests[1], VERB_UNLOCK, &(struct resp_view){ 2, unlock }, token);
}

static void write_side(const struct load *load, struct client *c, struct slice key,
                       struct slice token, struct slice side)
{
	struct slice lock[] = { SLICE_LIT("LOCK"), key, side, SLICE_LIT("PX"), lease };
	struct slice unlock[] = { SLICE_LIT("UNLOCK"), key };

	write_verb(load, &c->requests[0], VERB_LOCK, &(struct resp_view){ 5, lock }, token);
	write_verb(load, &c->requests[1], VERB_UNLOCK, &(struct resp_view){ 2, unlock }, token);
}

static void write_shared(const struct load *load, struct client *c, struct slice key,
                         struct slice token)
{
	write_side(load, c, key, token, SLICE_LIT("SHARED"));
}

static void write_exclusive(const struct load *load, struct client *c, struct slice key,
                            struct slice token)
{
	write_side(load, c, key, token, SLICE_LIT("EXCLUSIVE"));
}

/* Two locks at once; only an application sends them. */
static void write_several(const struct load *load, struct client *c, struct slice key,
                          struct slice token)
{
	char second[128];
	struct slice lock[] = { SLICE_LIT("MLOCK"), SLICE_LIT("2"),  key,
		                SLICE_NONE,         SLICE_LIT("PX"), lease };
	struct slice unlock[] = { SLICE_LIT("MUNLOCK"), SLICE_LIT("2"), key, SLICE_NONE };

	(void)load;
	(void)token;
	snprintf(second, sizeof(second), "%.*s:2", (int)key.n, key.p);
	lock[3] = unlock[3] = slice_str(second);
	resp_write_request(&c->requests[0], lock, 6);
	resp_write_request(&c->requests[1], unlock, 4);
}

static void write_ruled(const struct load *load, struct buf *out, const struct resp_view *req,
                        struct slice token)
{
	struct rule rule = { .owner = OWNER_CONNECTION, .lease_ms = LEASE_MS };
	struct lock_key key = { .arg = 1, .rule = &rule, .token = token };
	struct lock_call call = { 0 };

	if (!load->calls)
		resp_write_request(out, req->argv, req->argc);
	else if (rewrite_lock(out, commands_get(load->commands, req->argv[0]), req, &key, 1,
	                      &(struct rewrite_opts){ 0 }, &call) != REWRITE_CALL)
		fail("rewrite_lock", "no call");
}

static void write_set_nx(const struct load *load, struct client *c, struct slice key,
                         struct slice token)
{
	struct slice set[] = { SLICE_LIT("SET"), key,  SLICE_LIT("1"), SLICE_LIT("NX"),
		               SLICE_LIT("PX"),  lease };
	struct slice del[] = { SLICE_LIT("DEL"), key };

	write_ruled(load, &c->requests[0], &(struct resp_view){ 6, set }, token);
	write_ruled(load, &c->requests[1], &(struct resp_view){ 2, del }, token);
}

static void write_setnx(const struct load *load, struct client *c, struct slice key,
                        struct slice token)
{
	struct slice setnx[] = { SLICE_LIT("SETNX"), key, SLICE_LIT("1") };
	struct slice del[] = { SLICE_LIT("DEL"), key };

	write_ruled(load, &c->requests[0], &(struct resp_view){ 3, setnx }, token);
	write_ruled(load, &c->requests[1], &(struct resp_view){ 2, del }, token);
}

/* --- what libraries send ---------------------------------------------------------- */

/* core/stores/redis/lockscript.lua and delscript.lua of go-zero 1.6 */
static const char gozero_lock[] =
	"if redis.call(\"GET\", KEYS[1]) == ARGV[1] then\n"
	"    redis.call(\"SET\", KEYS[1], ARGV[1], \"PX\", ARGV[2])\n"
	"    return \"OK\"\n"
	"else\n"
	"    return redis.call(\"SET\", KEYS[1], ARGV[1], \"NX\", \"PX\", "
	"ARGV[2])\n"
	"end";
static const char gozero_unlock[] = "if redis.call(\"GET\", KEYS[1]) == ARGV[1] then\n"
				    "    return redis.call(\"DEL\", KEYS[1])\n"
				    "else\n"
				    "    return 0\n"
				    "end";

/* RedissonLock.tryLockInnerAsync() and unlockInnerAsync() of Redisson 3.17 */
static const char redisson_lock[] = "if (redis.call('exists', KEYS[1]) == 0) then "
				    "redis.call('hincrby', KEYS[1], ARGV[2], 1); "
				    "redis.call('pexpire', KEYS[1], ARGV[1]); "
				    "return nil; "
				    "end; "
				    "if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then "
				    "redis.call('hincrby', KEYS[1], ARGV[2], 1); "
				    "redis.call('pexpire', KEYS[1], ARGV[1]); "
				    "return nil; "
				    "end; "
				    "return redis.call('pttl', KEYS[1]);";
static const char redisson_unlock[] =
	"if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then "
	"return nil;"
	"end; "
	"local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); "
	"if (counter > 0) then "
	"redis.call('pexpire', KEYS[1], ARGV[2]); "
	"return 0; "
	"else "
	"redis.call('del', KEYS[1]); "
	"redis.call('publish', KEYS[2], ARGV[1]); "
	"return 1; "
	"end; "
	"return nil;";

/* Loads `script` and appends its call. */
static void write_script(const struct client *c, struct buf *out, const char *script,
                         size_t nkeys, const struct slice *args, size_t nargs)
{
	char sha1[SHA1_HEX + 1];

	load_script(c->fd, slice_str(script), sha1);
	resp_write_array(out, 3 + nargs);
	resp_write_bulk_str(out, "EVALSHA");
	resp_write_bulk_str(out, sha1);
	resp_write_bulk_int(out, (long long)nkeys);
	for (size_t i = 0; i < nargs; i++)
		resp_write_bulk(out, args[i]);
}

static void write_gozero(const struct load *load, struct client *c, struct slice key,
                         struct slice token)
{
	/* the token's last 16 characters */
	struct slice args[] = { key, slice_of(token.p + token.n - 16, 16), lease };

	(void)load;
	write_script(c, &c->requests[0], gozero_lock, 1, args, 3);
	write_script(c, &c->requests[1], gozero_unlock, 1, args, 2);
}

static void write_redisson(const struct load *load, struct client *c, struct slice key,
                           struct slice token)
{
	char channel[128], id[64];
	struct slice lock[] = { key, lease, SLICE_NONE };
	struct slice unlock[] = { key, SLICE_NONE, SLICE_LIT("0"), lease, SLICE_NONE };

	(void)load;
	snprintf(channel, sizeof(channel), "redisson_lock__channel:{%.*s}", (int)key.n, key.p);
	/* A UUID and the number of a thread. */
	snprintf(id, sizeof(id), "6c5f1ae2-9d0b-4c6e-8f3a-%.12s:1", token.p + token.n - 12);
	lock[2] = unlock[4] = slice_str(id);
	unlock[1] = slice_str(channel);
	write_script(c, &c->requests[0], redisson_lock, 1, lock, 3);
	write_script(c, &c->requests[1], redisson_unlock, 2, unlock, 5);
}

/* --- reads and writes ------------------------------------------------------------- */

static void write_set(struct buf *out, struct slice key)
{
	resp_write_request(out, (struct slice[]){ SLICE_LIT("SET"), key, value }, 3);
}

static void write_get(struct buf *out, struct slice key)
{
	resp_write_request(out, (struct slice[]){ SLICE_LIT("GET"), key }, 2);
}

static void write_pair(const struct load *load, struct client *c, struct slice key,
                       struct slice token)
{
	(void)load;
	(void)token;
	write_get(&c->requests[0], key);
	write_set(&c->requests[1], key);
}

static void write_word(struct buf *out, const char *word)
{
	resp_write_request(out, &(struct slice){ word, strlen(word) }, 1);
}

/* Spreads the transaction's commands over as many writes as the kind has steps. */
static void write_transaction(const struct load *load, struct client *c, struct slice key,
                              struct slice token)
{
	struct buf *last = &c->requests[load->kind->nsteps - 1];
	struct buf *set = load->kind->nsteps == STEPS_MAX ? last - 1 : last;

	(void)token;
	resp_write_request(&c->requests[0], (struct slice[]){ SLICE_LIT("WATCH"), key }, 2);
	write_get(&c->requests[1], key);
	write_word(&c->requests[2], "MULTI");
	write_set(set, key);
	write_word(last, "EXEC");
}

/* Three commands in one transaction. */
static void write_multi(const struct load *load, struct client *c, struct slice key,
                        struct slice token)
{
	struct buf *out = &c->requests[0];

	(void)load;
	(void)token;
	write_word(out, "MULTI");
	write_set(out, key);
	write_get(out, key);
	write_set(out, key);
	write_word(out, "EXEC");
}

#define HAS "$3\r\nxxx\r\n"

static const struct kind kinds[] = {
	{ "set", "bench", write_set_nx, 2, { "+OK\r\n", ":1\r\n" }, false },
	{ "setnx", "bench", write_setnx, 2, { ":1\r\n", ":1\r\n" }, false },
	{ "value", "value", write_set_nx, 2, { "+OK\r\n", ":1\r\n" }, false },
	{ "waits", "waits", write_setnx, 2, { ":1\r\n", ":1\r\n" }, false },
	{ "go-zero", "plain", write_gozero, 2, { "+OK\r\n", ":1\r\n" }, false },
	{ "followed", "value", write_gozero, 2, { "+OK\r\n", ":1\r\n" }, false },
	{ "redisson", "plain", write_redisson, 2, { "$-1\r\n", ":1\r\n" }, false },
	{ "verb", "verb", write_verbs, 2, { NULL, ":1\r\n" }, false },
	{ "limit", "verb", write_limits, 2, { NULL, ":1\r\n" }, false },
	{ "shared", "verb", write_shared, 2, { NULL, ":1\r\n" }, false },
	{ "exclusive", "verb", write_exclusive, 2, { NULL, ":1\r\n" }, false },
	{ "several", "verb", write_several, 2, { NULL, ":2\r\n" }, false },
	{ "guard", "guard", write_pair, 2, { HAS, "+OK\r\n" }, true },
	{ "plain", "plain", write_pair, 2, { HAS, "+OK\r\n" }, true },
	{ "multi",
	  "plain",
	  write_multi,
	  1,
	  { "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n" HAS "+OK\r\n" },
	  true },
	{ "watch",
	  "plain",
	  write_transaction,
	  3,
	  { "+OK\r\n", HAS, "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n" },
	  true },
	{ "each",
	  "plain",
	  write_transaction,
	  5,
	  { "+OK\r\n", HAS, "+OK\r\n", "+QUEUED\r\n", "*1\r\n+OK\r\n" },
	  true },
};

static void set_value(const struct client *c, struct slice key)
{
	struct buf out = BUF_INIT;
	char reply[REPLY_MAX];

	write_set(&out, key);
	write_all(c->fd, buf_slice(&out));
	if (read(c->fd, reply, sizeof(reply)) <= 0 || *reply != '+')
		fail("SET", "refused");
	buf_release(&out);
}

static void write_requests(const struct load *load, struct client *c, int n)
{
	char name[64], owner[96];

	snprintf(name, sizeof(name), "%s:%06d", load->kind->prefix, n);
	/* As long as an owner's name that hasp makes. */
	snprintf(owner, sizeof(owner), "connection:127.0.0.1:%05d/0/%032d", n, n);
	load->kind->write(load, c, slice_str(name), slice_str(owner));
	if (load->kind->has_value)
		set_value(c, slice_str(name));
}

/* --- the load ------------------------------------------------------------------- */

static void send_next(struct load *load, struct client *c)
{
	/* A round that was begun is finished. */
	if (c->step == 0 && load->left == 0)
		return;
	if (c->step == 0)
		load->left--;
	load->inflight++;
	c->nreply = 0;
	c->sent_ns = now_ns();
	write_all(c->fd, buf_slice(&c->requests[c->step]));
}

/* Returns 1 if the reply is the expected one, 0 if it is incomplete, -1 if it is another
 * one. */
static int judge(const struct load *load, const struct client *c)
{
	const char *expected = load->kind->answers[c->step];

	if (c->reply[c->nreply - 1] != '\n')
		return 0;
	if (!expected)
		return c->reply[0] == ':' && c->reply[1] >= '1' ? 1 : -1;
	if (strncmp(c->reply, expected, c->nreply) != 0)
		return -1;
	return c->nreply == strlen(expected);
}

static void on_readable(struct load *load, struct client *c)
{
	ssize_t n = read(c->fd, c->reply + c->nreply, sizeof(c->reply) - 1 - c->nreply);
	uint64_t step;
	int judgement;

	if (n <= 0)
		fail("read", n < 0 ? strerror(errno) : "closed");
	c->nreply += (size_t)n;
	c->reply[c->nreply] = '\0';
	judgement = judge(load, c);
	if (judgement < 0)
		fail("answer", c->reply);
	if (judgement == 0)
		return;
	step = (now_ns() - c->sent_ns) / STEP_NS;
	load->latencies[step < LATENCIES ? step : LATENCIES - 1]++;
	load->done++;
	load->inflight--;
	c->step = (c->step + 1) % load->kind->nsteps;
	send_next(load, c);
}

static void run(struct load *load, struct client *clients, int n, uint64_t rounds)
{
	struct epoll_event events[EVENTS];

	load->left = rounds;
	for (int i = 0; i < n; i++)
		send_next(load, &clients[i]);
	while (load->inflight) {
		int ready = epoll_wait(load->epoll, events, EVENTS, 10000);
		if (ready == 0)
			fail("no answer", "for 10 s");
		for (int i = 0; i < ready; i++)
			on_readable(load, events[i].data.ptr);
	}
}

static double percentile_ms(const struct load *load, double part)
{
	uint64_t counted = 0;
	size_t step = 0;

	while (step < LATENCIES - 1 &&
	       (double)(counted += load->latencies[step]) < part * (double)load->done)
		step++;
	return (double)(step + 1) * STEP_NS / 1e6;
}

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct load *load = xcalloc(1, sizeof(*load));
	struct client *clients;
	uint64_t began;
	int n, error;

	load->kind = argc == 7 ? find_kind(argv[6]) : NULL;
	if (!load->kind || (n = atoi(argv[3])) <= 0 || atoll(argv[4]) < n) {
		fputs("usage: locks HOST PORT CLIENTS ROUNDS app|calls KIND; the kinds are",
		      stderr);
		for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
			fprintf(stderr, " %s", kinds[i].name);
		fputc('\n', stderr);
		return 2;
	}
	load->calls = strcmp(argv[5], "calls") == 0;
	error = getaddrinfo(argv[1], argv[2], &hints, &load->to);
	if (error)
		fail(argv[1], gai_strerror(error));
	load->epoll = epoll_create1(EPOLL_CLOEXEC);
	clients = xcalloc((size_t)n, sizeof(*clients));
	if (load->calls) {
		load->commands = commands_new();
		load_scripts(load->to);
	}
	for (int i = 0; i < n; i++) {
		struct client *c = &clients[i];
		struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
		c->fd = connect_to(load->to);
		write_requests(load, c, i);
		if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, c->fd, &e) < 0)
			fail("epoll_ctl", strerror(errno));
	}
	began = now_ns();
	run(load, clients, n, (uint64_t)atoll(argv[4]));
	printf("%.0f %.3f %.3f\n", (double)load->done * 1e9 / (double)(now_ns() - began),
	       percentile_ms(load, 0.5), percentile_ms(load, 0.99));

	for (int i = 0; i < n; i++) {
		close(clients[i].fd);
		for (size_t k = 0; k < STEPS_MAX; k++)
			buf_release(&clients[i].requests[k]);
	}
	freeaddrinfo(load->to);
	free(clients);
	commands_free(load->commands);
	free(load);
	return 0;
}
