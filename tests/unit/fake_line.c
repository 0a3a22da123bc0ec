/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/fake_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/testing.h"

/* Redis' time when a waiter is queued, in ms. */
#define REDIS_MS 500000

int fake_line_set_up(void **state)
{
	struct fake_line *f = calloc(1, sizeof(*f));

	fake_redis_init(&f->redis);
	f->all = waiters_new(&f->redis.timers, &f->redis.topology, f->redis.script_jobs,
	                     &f->board, &fake_line_ops);
	fake_redis_subscriber_up(f->redis.node.subscriber);
	*state = f;
	return 0;
}

int fake_line_tear_down(void **state)
{
	struct fake_line *f = *state;

	script_jobs_stop(f->redis.script_jobs);
	fake_redis_break(&f->redis);
	assert_int_equal(f->board.total, 0);
	waiters_free(f->all);
	fake_redis_fini(&f->redis);
	free(f);
	return 0;
}

/* --- clients -------------------------------------------------------------------------- */

static void on_ready(void *owner)
{
	((struct client *)owner)->told = "ready";
}

static void end_waiter(struct client *c)
{
	if (c->stays)
		return;
	waiter_end(c->waiter);
	c->waiter = NULL;
}

static void on_granted(void *owner, long long fence, double since)
{
	struct client *c = owner;

	c->told = "granted";
	c->fence = fence;
	c->since = since;
	end_waiter(c);
}

static void on_timed_out(void *owner)
{
	struct client *c = owner;

	c->told = "timed out";
	end_waiter(c);
}

static void on_lost(void *owner)
{
	struct client *c = owner;

	c->told = "lost";
}

static void on_overdue(void *owner)
{
	struct client *c = owner;

	c->told = "overdue";
}

const struct waiter_ops fake_line_ops = {
	.on_ready = on_ready,
	.on_granted = on_granted,
	.on_timed_out = on_timed_out,
	.on_overdue = on_overdue,
	.on_lost = on_lost,
};

struct client *client_come(struct fake_line *f)
{
	struct client *c = calloc(1, sizeof(*c));

	c->told = "";
	c->waiter = waiter_new(f->all, WAIT_MS, c);
	return c;
}

void client_leave(struct client *c)
{
	waiter_end(c->waiter);
	free(c);
}

const char *client_told(struct client *c)
{
	const char *told = c->told;

	c->told = "";
	return told;
}

static void send_for(struct client *c, const char *key)
{
	assert_int_equal(waiter_ready(c->waiter, slice_str(key)), TRY_READY);
	waiter_sent(c->waiter, waiters_ticket(c->waiter->all));
}

void client_send(struct client *c)
{
	send_for(c, "key");
}

void client_queued(struct client *c, const char *key, int place)
{
	struct attempt t = { .id = { .kind = LOCK_KIND_COUNT,
		                     .key = slice_str(key),
		                     .token = SLICE_LIT("token") },
		             .lease_ms = LEASE_MS };
	char line[64];

	snprintf(line, sizeof(line), "+QUEUED %d %d 3000", place, REDIS_MS);
	assert_int_equal(waiter_queued(c->waiter, 0, &t, slice_str(line)), 0);
}

void client_answered_late(struct client *c, const char *key)
{
	char ticket[64];

	snprintf(ticket, sizeof(ticket), "%s", c->waiter->ticket);
	client_answered_late_as(c, key, ticket);
}

void client_answered_late_as(struct client *c, const char *key, const char *ticket)
{
	struct attempt t = { .id = { .kind = LOCK_KIND_COUNT,
		                     .key = slice_str(key),
		                     .token = SLICE_LIT("token") },
		             .ticket = slice_str(ticket),
		             .lease_ms = LEASE_MS };

	waiter_answered_late(c->waiter, 0, &t);
}

struct client *client_in_line(struct fake_line *f, const char *key, int place)
{
	struct client *c = client_come(f);

	send_for(c, key);
	client_queued(c, key, place);
	assert_string_equal(client_told(c), "");
	return c;
}

void client_notify(struct client *c, int ms)
{
	client_notify_as(c, ms, "key", 0);
}

void client_notify_as(struct client *c, int ms, const char *key, int db)
{
	struct slice secret = script_jobs_opts(c->waiter->all->script_jobs, db).secret;
	char text[128], what[32], proof[SHA1_HEX + 1], message[sizeof(text) + sizeof(proof)];
	struct slice parts[] = { secret, SLICE_NONE, slice_str(key), SLICE_NONE, secret };

	snprintf(text, sizeof(text), "%s 77 %d", c->waiter->ticket, REDIS_MS + ms);
	snprintf(what, sizeof(what), "grant %zu ", strlen(key));
	parts[1] = slice_str(what);
	parts[3] = slice_str(text);
	sha1_hex(proof, parts, 5);
	snprintf(message, sizeof(message), "%s %s", text, proof);
	fake_redis_publish(c->waiter->at->node->subscriber, NULL, message);
}

void client_forge(struct client *c, int ms)
{
	char message[160];

	snprintf(message, sizeof(message), "%s 77 %d %040d", c->waiter->ticket, REDIS_MS + ms,
	         0);
	fake_redis_publish(c->waiter->at->node->subscriber, NULL, message);
}

/* --- calls ---------------------------------------------------------------------------- */

static struct fake_call expect_call(struct fake_line *f, enum script_id script,
                                    const struct client *c)
{
	struct fake_call call = fake_redis_next(&f->redis, script);
	char ticket[64];

	snprintf(ticket, sizeof(ticket), " %s ", c ? c->waiter->ticket : "");
	if (!strstr(call.args, ticket))
		fail_msg("the call is not about \"%s\":%s", ticket, call.args);
	return call;
}

struct fake_call expect_probe(struct fake_line *f, const struct client *c)
{
	return expect_call(f, SCRIPT_POLL, c);
}

struct fake_call expect_leave(struct fake_line *f, const struct client *c, bool undo)
{
	struct fake_call call = expect_call(f, SCRIPT_DEQUEUE, c);

	assert_non_null(strstr(call.args, undo ? " undo" : " tell"));
	return call;
}

void expect_quiet(struct fake_line *f)
{
	assert_int_equal(fake_redis_ncalls(&f->redis), 0);
}

static void answer_with(struct fake_line *f, const char *what, int ms)
{
	char text[64];

	snprintf(text, sizeof(text), "*3\r\n$%zu\r\n%s\r\n:%d\r\n:78\r\n", strlen(what), what,
	         ms);
	fake_redis_answer(&f->redis, text);
}

void answer_queued(struct fake_line *f, int held_ms)
{
	answer_with(f, "queued", held_ms);
}

void answer_granted(struct fake_line *f, int left_ms)
{
	answer_with(f, "granted", left_ms);
}

void answer_gone(struct fake_line *f)
{
	answer_with(f, "gone", 3000);
}

void answer_unknown(struct fake_line *f)
{
	fake_redis_answer(&f->redis, "-ERR what\r\n");
}
