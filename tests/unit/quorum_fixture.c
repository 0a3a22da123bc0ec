/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/quorum_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/testing.h"

static double clock_of(void *arg)
{
	return ((struct fake_quorum *)arg)->now;
}

static void take_call(void *arg, size_t server, struct slice request, struct quorum_call *call)
{
	struct fake_quorum *f = arg;

	assert_true(request.n > 0);
	list_append(&f->calls[server], &call->node);
	f->nsent++;
}

static int64_t unix_us(void *arg)
{
	return (int64_t)(clock_of(arg) * 1e6);
}

static void all_up(struct fake_quorum *f)
{
	for (size_t i = 0; i < SERVERS; i++)
		assert_true(quorum_on_up(f->q, i, "first", OLD) == 0);
}

int quorum_fixture_setup(void **state)
{
	struct fake_quorum *f = calloc(1, sizeof(*f));
	static char *const addresses[SERVERS] = { "a:1", "b:1", "c:1", "d:1", "e:1" };
	struct quorum_opts opts = {
		.timers = &f->timers,
		.name = "q",
		.nservers = SERVERS,
		.addresses = addresses,
		.timeout_ms = 1000,
		.restart_delay_ms = DELAY_MS,
		.send = take_call,
		.unix_us = unix_us,
		.arg = f,
	};

	f->now = 1000;
	f->timers = (struct timers){ .clock = clock_of, .arg = f };
	for (size_t i = 0; i < SERVERS; i++)
		list_init(&f->calls[i]);
	f->holds = holds_new(&f->timers, NULL);
	hold_owner_init(&f->owner);
	f->stats = stats_new(1);
	f->section = opts.stats = stats_section(f->stats, STATS_QUORUM, "q", 0);
	f->q = quorum_new(&opts);
	quorum_keep_holds(f->q, f->holds, false);
	all_up(f);
	*state = f;
	return 0;
}

void answer_one(struct fake_quorum *f, size_t server, const redisReply *reply)
{
	struct list *node = list_shift(&f->calls[server]);

	assert_non_null(node);
	quorum_on_answer(f->q, container_of(node, struct quorum_call, node), reply);
}

void answer_number(struct fake_quorum *f, size_t server, int64_t n)
{
	answer_one(f, server, &(redisReply){ .type = REDIS_REPLY_INTEGER, .integer = n });
}

void answer_row(struct fake_quorum *f, size_t server, const char *value)
{
	redisReply text = { .type = REDIS_REPLY_STRING,
		            .str = (char *)value,
		            .len = strlen(value) };
	redisReply ttl = { .type = REDIS_REPLY_INTEGER, .integer = 5000 };

	answer_one(f, server,
	           &(redisReply){ .type = REDIS_REPLY_ARRAY,
	                          .elements = 2,
	                          .element = (redisReply *[]){ &text, &ttl } });
}

void go_down(struct fake_quorum *f, size_t server)
{
	quorum_on_down(f->q, server);
	while (!list_empty(&f->calls[server]))
		answer_one(f, server, NULL);
}

int quorum_fixture_teardown(void **state)
{
	struct fake_quorum *f = *state;

	end_owner(f, false);
	assert_int_equal(f->owner.nbytes, 0);
	for (size_t i = 0; i < SERVERS; i++)
		go_down(f, i);
	quorum_free(f->q);
	holds_free(f->holds);
	timers_fini(&f->timers);
	stats_free(f->stats);
	free(f);
	return 0;
}

void advance(struct fake_quorum *f, double seconds)
{
	f->now += seconds;
	timers_run(&f->timers, f->now);
}

size_t due_at(const struct fake_quorum *f, size_t server)
{
	size_t n = 0;

	for (const struct list *at = f->calls[server].next; at != &f->calls[server];
	     at = at->next)
		n++;
	return n;
}

void on_done(void *arg, const struct quorum_result *r)
{
	struct fake_quorum *f = arg;

	f->is_done = true;
	f->op = NULL;
	f->result = *r;
	/* As client/quorum_op.c does with a result. */
	if (f->lock_request && r->verdict != QUORUM_UNREACHED)
		hold_apply_voted(f->holds, &f->owner, f->lock_request, &r->lock);
	else
		lock_request_free(f->lock_request);
	f->lock_request = NULL;
}

void ask_for(struct fake_quorum *f, const struct quorum_ask *opts)
{
	const struct verbs verbs = { .on_disconnect = DISCONNECT_RELEASE,
		                     .max_hold_ms = f->max_hold_ms };
	const struct lock_call call = {
		.script = SCRIPT_TAKE,
		.effect = LOCK_EFFECT_TAKES,
		.key = opts->key,
		.lease_ms = opts->lease_ms,
		.leased = f->leased,
	};
	const struct hold_terms terms = {
		.verbs = &verbs,
		.token = opts->claim.owner,
		.stats = f->section,
	};

	f->is_done = false;
	if (opts->request == QUORUM_LOCK)
		f->lock_request = lock_request_voted(f->holds, &call, &terms);
	f->op = quorum_op_new(f->q, opts);
	quorum_op_start(f->op);
}

void end_owner(struct fake_quorum *f, bool release)
{
	if (f->op)
		quorum_op_cancel(f->op);
	f->op = NULL;
	lock_request_free(f->lock_request);
	f->lock_request = NULL;
	hold_owner_end(&f->owner, release);
}

void ask_quorum(struct fake_quorum *f, enum quorum_request request, int64_t wait_ms)
{
	const struct quorum_ask opts = {
		.request = request,
		.key = SLICE_LIT("key"),
		.claim = { .owner = SLICE_LIT("me") },
		.lease_ms = LEASE_MS,
		.wait_ms = wait_ms,
		.done = on_done,
		.arg = f,
	};

	ask_for(f, &opts);
}

void expect_done(const struct fake_quorum *f, enum quorum_verdict verdict)
{
	assert_true(f->is_done);
	assert_int_equal(f->result.verdict, verdict);
}

void answer_all(struct fake_quorum *f, int64_t n)
{
	for (size_t i = 0; i < SERVERS; i++)
		answer_number(f, i, n);
}

void take(struct fake_quorum *f)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	answer_all(f, 7);
	for (size_t i = 0; i < 3; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_WON);
}
