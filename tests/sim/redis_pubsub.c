/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/redis_internal.h"

#include "base/glob.h"
#include "resp/write.h"

static const struct {
	const char *subscribed, *unsubscribed, *message;
} words[REDIS_SUBSCRIPTIONS] = {
	[REDIS_CHANNELS] = { "subscribe", "unsubscribe", "message" },
	[REDIS_PATTERNS] = { "psubscribe", "punsubscribe", "pmessage" },
	[REDIS_SHARD_CHANNELS] = { "ssubscribe", "sunsubscribe", "smessage" },
};

size_t redis_conn_nsubscriptions(const struct sim_redis_conn *c)
{
	size_t n = 0;

	for (int i = 0; i < REDIS_SUBSCRIPTIONS; i++)
		n += c->subscriptions[i].n;
	return n;
}

static void write_push(struct buf *out, int resp, size_t n, const char *word)
{
	buf_printf(out, "%c%zu\r\n", resp == 3 ? '>' : '*', n);
	resp_write_bulk_str(out, word);
}

/* --- subscriptions ------------------------------------------------------------------------ */

/* `name`: NULL when there was nothing to unsubscribe. */
static void reply_subscription(struct redis_call *x, int kind, const char *word,
                               const struct slice *name)
{
	const struct redis_items *of = x->c->subscriptions;

	write_push(x->out, x->resp, 3, word);
	if (name)
		redis_reply_bulk(x, *name);
	else
		redis_reply_nil(x);
	redis_reply_int(x, (long long)(kind == REDIS_SHARD_CHANNELS
	                                       ? of[kind].n
	                                       : of[REDIS_CHANNELS].n + of[REDIS_PATTERNS].n));
}

/* The option of these commands is the kind. */
static void redis_subscribe(struct redis_call *x)
{
	int kind = x->command->option;
	struct redis_items *names = &x->c->subscriptions[kind];

	for (size_t i = 1; i < x->argc; i++) {
		if (redis_items_find(names, x->argv[i]) == names->n)
			redis_items_add(names, names->n, x->argv[i]);
		reply_subscription(x, kind, words[kind].subscribed, &x->argv[i]);
	}
}

static void redis_unsubscribe(struct redis_call *x)
{
	int kind = x->command->option;
	struct redis_items *names = &x->c->subscriptions[kind];
	const char *word = words[kind].unsubscribed;

	for (size_t i = 1; i < x->argc; i++) {
		size_t at = redis_items_find(names, x->argv[i]);
		if (at < names->n)
			redis_items_remove(names, at);
		reply_subscription(x, kind, word, &x->argv[i]);
	}
	if (x->argc > 1)
		return;
	if (names->n == 0)
		reply_subscription(x, kind, word, NULL);
	while (names->n) {
		struct slice name = names->v[0].name;
		struct buf copy = BUF_INIT;
		buf_append(&copy, name);
		redis_items_remove(names, 0);
		name = buf_slice(&copy);
		reply_subscription(x, kind, word, &name);
		buf_release(&copy);
	}
}

void redis_subscriptions_end(struct sim_redis_conn *c)
{
	for (int i = 0; i < REDIS_SUBSCRIPTIONS; i++)
		redis_items_clear(&c->subscriptions[i]);
}

/* --- messages ----------------------------------------------------------------------------- */

/* `pattern`: of a subscription by pattern, else NULL. */
static void push_message(struct sim_redis_conn *c, int kind, const struct slice *pattern,
                         struct slice channel, struct slice message)
{
	struct buf out = BUF_INIT;

	write_push(&out, c->resp, pattern ? 4 : 3, words[kind].message);
	if (pattern)
		resp_write_bulk(&out, *pattern);
	resp_write_bulk(&out, channel);
	resp_write_bulk(&out, message);
	c->send(c->arg, buf_head(&out), buf_len(&out));
	buf_release(&out);
}

/* Returns how many subscriptions of this kind got the message. */
static long long publish_to(struct redis_call *x, int kind)
{
	long long n = 0;

	for (struct list *at = x->s->conns.next; at != &x->s->conns; at = at->next) {
		struct sim_redis_conn *c = container_of(at, struct sim_redis_conn, node);
		const struct redis_items *names = &c->subscriptions[kind];
		for (size_t i = 0; i < names->n; i++) {
			struct slice name = names->v[i].name;
			bool is_pattern = kind == REDIS_PATTERNS;
			if (is_pattern ? !glob_match(name, x->argv[1])
			               : !slice_eq(name, x->argv[1]))
				continue;
			push_message(c, kind, is_pattern ? &name : NULL, x->argv[1],
			             x->argv[2]);
			n++;
		}
	}
	return n;
}

static void redis_publish(struct redis_call *x)
{
	long long n = publish_to(x, REDIS_CHANNELS);

	redis_reply_int(x, n + publish_to(x, REDIS_PATTERNS));
}

static void redis_spublish(struct redis_call *x)
{
	redis_reply_int(x, publish_to(x, REDIS_SHARD_CHANNELS));
}

/* --- PUBSUB ------------------------------------------------------------------------------- */

/* The names to which somebody is subscribed, in order. */
static void all_subscriptions(const struct sim_redis *s, int kind, struct redis_items *names)
{
	for (struct list *at = s->conns.next; at != &s->conns; at = at->next) {
		const struct redis_items *of =
			&container_of(at, struct sim_redis_conn, node)->subscriptions[kind];
		for (size_t i = 0; i < of->n; i++)
			if (redis_items_find(names, of->v[i].name) == names->n)
				redis_items_add(names, names->n, of->v[i].name);
	}
	redis_items_sort(names);
}

static void redis_pubsub_channels(struct redis_call *x)
{
	int kind = x->command->option;
	struct redis_items names = { 0 };

	if (x->argc > 3) {
		redis_reply_error(
			x,
			"ERR unknown subcommand or wrong number of arguments for '%.*s'. "
			"Try PUBSUB HELP.",
			(int)x->argv[1].n, x->argv[1].p);
		return;
	}
	all_subscriptions(x->s, kind, &names);
	for (size_t i = names.n; x->argc == 3 && i-- > 0;)
		if (!glob_match(x->argv[2], names.v[i].name))
			redis_items_remove(&names, i);
	redis_reply_array(x, names.n);
	for (size_t i = 0; i < names.n; i++)
		redis_reply_bulk(x, names.v[i].name);
	redis_items_clear(&names);
}

static void redis_pubsub_numsub(struct redis_call *x)
{
	int kind = x->command->option;

	redis_reply_array(x, 2 * (x->argc - 2));
	for (size_t i = 2; i < x->argc; i++) {
		long long n = 0;
		for (struct list *at = x->s->conns.next; at != &x->s->conns; at = at->next) {
			const struct redis_items *of = &container_of(at, struct sim_redis_conn,
			                                             node)
			                                        ->subscriptions[kind];
			n += redis_items_find(of, x->argv[i]) < of->n;
		}
		redis_reply_bulk(x, x->argv[i]);
		redis_reply_int(x, n);
	}
}

static void redis_pubsub_numpat(struct redis_call *x)
{
	struct redis_items names = { 0 };

	all_subscriptions(x->s, REDIS_PATTERNS, &names);
	redis_reply_int(x, (long long)names.n);
	redis_items_clear(&names);
}

#define SUBSCRIBING (REDIS_PUBSUB | REDIS_NOSCRIPT | REDIS_IN_SUBSCRIBED)

const struct redis_command redis_pubsub_commands[] = {
	{ "subscribe", -2, SUBSCRIBING, 0, 0, 0, redis_subscribe, 0 },
	{ "psubscribe", -2, SUBSCRIBING, 0, 0, 0, redis_subscribe, REDIS_PATTERNS },
	{ "ssubscribe", -2, SUBSCRIBING, 1, -1, 1, redis_subscribe, REDIS_SHARD_CHANNELS },
	{ "unsubscribe", -1, SUBSCRIBING, 0, 0, 0, redis_unsubscribe, 0 },
	{ "punsubscribe", -1, SUBSCRIBING, 0, 0, 0, redis_unsubscribe, REDIS_PATTERNS },
	{ "sunsubscribe", -1, SUBSCRIBING, 1, -1, 1, redis_unsubscribe, REDIS_SHARD_CHANNELS },
	{ "publish", 3, REDIS_PUBSUB, 0, 0, 0, redis_publish, 0 },
	{ "spublish", 3, REDIS_PUBSUB, 1, 1, 1, redis_spublish, 0 },
	{ "pubsub", -2, REDIS_CONTAINER, 0, 0, 0, NULL, 0 },
	{ "pubsub|channels", -2, REDIS_PUBSUB, 0, 0, 0, redis_pubsub_channels, 0 },
	{ "pubsub|shardchannels", -2, REDIS_PUBSUB, 0, 0, 0, redis_pubsub_channels,
	  REDIS_SHARD_CHANNELS },
	{ "pubsub|numsub", -2, REDIS_PUBSUB, 0, 0, 0, redis_pubsub_numsub, 0 },
	{ "pubsub|shardnumsub", -2, REDIS_PUBSUB, 0, 0, 0, redis_pubsub_numsub,
	  REDIS_SHARD_CHANNELS },
	{ "pubsub|numpat", 2, REDIS_PUBSUB, 0, 0, 0, redis_pubsub_numpat, 0 },
	{ 0 },
};
