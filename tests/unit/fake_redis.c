/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/fake_redis.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "tests/unit/testing.h"

const struct proof_secret fake_redis_secret = { "not very secret" };

struct sent_call {
	struct list node;
	struct fake_call call;
	struct buf args;
	control_fn *fn;
	void *arg;
};

struct control {
	bool up;
	struct list sent;
	size_t n;
};

struct subscriber {
	struct subscriber_opts opts;
	bool opened, up;
	const char *refusal;
	struct buf channels, told;
};

/* --- the clock -------------------------------------------------------------------- */

static double fake_clock(void *arg)
{
	return ((struct fake_redis *)arg)->now;
}

void fake_redis_advance(struct fake_redis *f, double seconds)
{
	double until = f->now + seconds;

	while (timers_first(&f->timers) <= until) {
		if (timers_first(&f->timers) > f->now)
			f->now = timers_first(&f->timers);
		timers_run(&f->timers, f->now);
	}
	f->now = until;
}

/* --- hasp's own connection ---------------------------------------------------------- */

void fake_redis_init(struct fake_redis *f)
{
	*f = (struct fake_redis){ .now = 1000 };
	f->timers.clock = fake_clock;
	f->timers.arg = f;
	f->control = calloc(1, sizeof(*f->control));
	f->control->up = true;
	list_init(&f->control->sent);
	f->node.control = f->control;
	f->topology.only = &f->node;
	list_init(&f->topology.nodes);
	list_append(&f->topology.nodes, &f->node.in_topology);
	f->script_jobs = script_jobs_new(&f->timers, &f->topology, &fake_redis_secret);
}

/* Takes the next bulk string off `*p`. */
static struct slice next_bulk(const char **p)
{
	char *text;
	size_t n;

	assert_int_equal(**p, '$');
	n = strtoul(*p + 1, &text, 10);
	*p = text + 2 + n + 2;
	return slice_of(text + 2, n);
}

/* The script is known by its hash, or by its text. */
static enum script_id script_of(struct slice command, struct slice body, bool *eval)
{
	*eval = slice_eq(command, SLICE_LIT("EVAL"));
	for (int id = 0; id < SCRIPT_COUNT; id++) {
		const struct script *s = script_get((enum script_id)id);
		if (slice_eq(*eval ? s->text : s->sha, body))
			return (enum script_id)id;
	}
	fail_msg("a call of no script");
	return SCRIPT_COUNT;
}

int control_call(struct control *c, int db, struct slice request, control_fn *fn, void *arg)
{
	const char *p = memchr(request.p, '\n', request.n), *end = request.p + request.n;
	struct sent_call *sent;
	struct slice command;
	char secret[SHA1_HEX + 1];

	if (!c->up)
		return -1;
	proof_secret_in(&fake_redis_secret, db, secret);
	sent = calloc(1, sizeof(*sent));
	p++;
	command = next_bulk(&p);
	sent->call.db = db;
	sent->call.script = SCRIPT_COUNT;
	if (p < end) {
		sent->call.script = script_of(command, next_bulk(&p), &sent->call.eval);
		next_bulk(&p); /* how many of the arguments are keys */
	} else {
		buf_append(&sent->args, command);
	}
	while (p < end) {
		struct slice word = next_bulk(&p);
		buf_puts(&sent->args, " ");
		if (slice_eq(word, slice_of(secret, SHA1_HEX)))
			word = SLICE_LIT("secret");
		buf_append(&sent->args, word);
	}
	buf_append(&sent->args, slice_of("", 1));
	sent->call.args = buf_head(&sent->args);
	sent->fn = fn;
	sent->arg = arg;
	list_append(&c->sent, &sent->node);
	c->n++;
	return 0;
}

bool control_is_up(const struct control *c)
{
	return c->up;
}

static const char *name_of(enum script_id script)
{
	return script == SCRIPT_COUNT ? "(no script)" : script_get(script)->name;
}

size_t fake_redis_ncalls(const struct fake_redis *f)
{
	return f->control->n;
}

struct fake_call fake_redis_next(const struct fake_redis *f, enum script_id script)
{
	const struct list *first = f->control->sent.next;
	const struct sent_call *sent = container_of(first, struct sent_call, node);

	if (list_empty(&f->control->sent))
		fail_msg("no call was made, but one of %s is due", name_of(script));
	assert_string_equal(name_of(sent->call.script), name_of(script));
	return sent->call;
}

static void answer_first(struct control *c, const redisReply *reply)
{
	struct list *node = list_shift(&c->sent);
	struct sent_call *sent;

	assert_non_null(node);
	sent = container_of(node, struct sent_call, node);
	c->n--;
	if (sent->fn)
		sent->fn(sent->arg, reply);
	buf_release(&sent->args);
	free(sent);
}

void fake_redis_answer(struct fake_redis *f, const char *text)
{
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	assert_non_null(reply);
	answer_first(f->control, reply);
	freeReplyObject(reply);
	redisReaderFree(reader);
}

void fake_redis_break(struct fake_redis *f)
{
	f->control->up = false;
	while (f->control->n)
		answer_first(f->control, NULL);
}

void fake_redis_repair(struct fake_redis *f)
{
	f->control->up = true;
	script_jobs_resume(f->script_jobs, &f->node);
}

void fake_redis_fini(struct fake_redis *f)
{
	script_jobs_stop(f->script_jobs);
	fake_redis_break(f);
	script_jobs_free(f->script_jobs);
	assert_int_equal(f->timers.n, 0);
	timers_fini(&f->timers);
	if (f->node.subscriber)
		subscriber_free(f->node.subscriber);
	free(f->control);
}

/* --- the subscriber ------------------------------------------------------------------ */

struct subscriber *subscriber_new(const struct subscriber_opts *opts)
{
	struct subscriber *s = calloc(1, sizeof(*s));

	s->opts = *opts;
	return s;
}

void subscriber_free(struct subscriber *s)
{
	buf_release(&s->channels);
	buf_release(&s->told);
	free(s);
}

void node_listen(struct node *n, const struct subscriber_opts *opts)
{
	n->subscriber = subscriber_new(opts);
}

void subscriber_open(struct subscriber *s)
{
	s->opened = true;
}

bool subscriber_was_opened(const struct subscriber *s)
{
	return s->opened;
}

bool subscriber_is_up(const struct subscriber *s)
{
	return s->up;
}

const char *subscriber_refusal(const struct subscriber *s)
{
	return s->refusal;
}

void subscriber_call(struct subscriber *s, const char *command, struct slice channel)
{
	if (!s->up)
		return;
	if (*command == 'S' && strcmp(command, "SUBSCRIBE") != 0)
		buf_puts(&s->channels, "s");
	buf_puts(&s->channels, strstr(command, "UNSUBSCRIBE") ? "-" : "+");
	buf_append(&s->channels, channel);
	buf_puts(&s->channels, " ");
}

void fake_redis_subscriber_up(struct subscriber *s)
{
	s->up = true;
	s->refusal = NULL;
	s->opts.on_up(s->opts.arg);
}

void fake_redis_subscriber_down(struct subscriber *s)
{
	s->up = false;
}

void fake_redis_subscriber_failed(struct subscriber *s, const char *refusal)
{
	s->up = false;
	s->refusal = refusal;
	s->opts.on_failed(s->opts.arg);
}

void fake_redis_subscribed(struct subscriber *s, const char *channel)
{
	s->opts.on_subscribed(s->opts.arg, slice_str(channel));
}

void fake_redis_publish(struct subscriber *s, const char *channel, const char *message)
{
	s->opts.on_message(s->opts.arg, slice_str(channel ? channel : s->opts.channel),
	                   slice_str(message));
}

const char *fake_redis_channels(struct subscriber *s)
{
	buf_clear(&s->told);
	buf_append(&s->told, buf_slice(&s->channels));
	buf_append(&s->told, slice_of("", 1));
	buf_clear(&s->channels);
	return buf_head(&s->told);
}
