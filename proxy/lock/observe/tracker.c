/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker: its clients, rules, keys and accesses, each found by name, bounded in number, and
 * forgotten when it was not used for longest; and the lines about what happens to them.
 */
#include "lock/observe/tracker.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/quote.h"
#include "lock/observe/tracker_internal.h"

#define KEY_PRINTED_MAX 64

/* --- clients -------------------------------------------------------------------- */

static struct client_name *client_name_new(const char *text)
{
	size_t n = strlen(text) + 1;
	struct client_name *name = xmalloc(sizeof(*name) + n);

	name->refs = 1;
	memcpy(name->text, text, n);
	return name;
}

static void client_name_unref(struct client_name *name)
{
	if (name && --name->refs == 0)
		free(name);
}

void client_name_set(struct client_name **at, struct client_name *name)
{
	if (name)
		name->refs++;
	client_name_unref(*at);
	*at = name;
}

struct tracker_client *tracker_client_new(const char *called)
{
	struct tracker_client *c = xcalloc(1, sizeof(*c));

	c->name = client_name_new(called);
	list_init(&c->accesses);
	return c;
}

void tracker_client_rename(struct tracker_client *c, const char *called)
{
	client_name_unref(c->name);
	c->name = client_name_new(called);
}

void tracker_client_free(struct tracker_client *c)
{
	while (!list_empty(&c->accesses))
		tracker_access_free(container_of(c->accesses.next, struct access, node));
	client_name_unref(c->name);
	free(c);
}

/* --- rules ---------------------------------------------------------------------- */

struct tracker_rule *tracker_rule(struct tracker *t, enum tracker_kind kind, const char *name)
{
	struct tracker_rule *rule;
	struct list *at;

	for (at = t->rules.next; at != &t->rules; at = at->next) {
		rule = container_of(at, struct tracker_rule, node);
		if (rule->kind == kind && strcmp(rule->name, name) == 0)
			return rule;
	}
	rule = xcalloc(1, sizeof(*rule));
	rule->kind = kind;
	rule->name = xstrdup(name);
	list_append(&t->rules, &rule->node);
	return rule;
}

void tracker_rule_by_value(struct tracker_rule *rule, bool by_value)
{
	rule->by_value = by_value;
}

/* --- accesses ------------------------------------------------------------------- */

/* Writes what an access is found by to `scratch`. */
static struct slice access_id(const struct tracker_act *a, const struct tracked_key *k,
                              struct buf *scratch)
{
	uintptr_t at = (uintptr_t)k;

	buf_append(scratch, slice_of(&at, sizeof(at)));
	buf_append(scratch, a->token);
	return buf_slice(scratch);
}

void tracker_access_free(struct access *acc)
{
	struct tracker *t = acc->tracker;

	map_remove(&t->accesses_by_id, &acc->by_id);
	list_remove(&acc->recent);
	list_remove(&acc->node);
	list_remove(&acc->of_key);
	free((char *)acc->by_id.key.p);
	free(acc);
}

struct access *tracker_access(const struct tracker_act *a, struct tracked_key *k)
{
	struct buf scratch = BUF_INIT;
	struct map_node *node = map_get(&a->tracker->accesses_by_id, access_id(a, k, &scratch));

	buf_release(&scratch);
	return node ? container_of(node, struct access, by_id) : NULL;
}

static void forget_access(struct tracker *t)
{
	struct access *acc = container_of(t->accesses.next, struct access, recent);

	acc->tracked_key->rule->forgotten_accesses++;
	tracker_access_free(acc);
}

struct access *tracker_access_get(const struct tracker_act *a, struct tracked_key *k)
{
	struct tracker *t = a->tracker;
	struct access *acc = tracker_access(a, k);
	struct buf scratch = BUF_INIT;
	struct slice id;

	if (!acc) {
		if (t->accesses_by_id.n >= t->limits.naccesses)
			forget_access(t);
		acc = xcalloc(1, sizeof(*acc));
		id = access_id(a, k, &scratch);
		acc->by_id.key = slice_of(xmemdup(id.p, id.n), id.n);
		buf_release(&scratch);
		acc->tracker = t;
		acc->tracked_key = k;
		list_init(&acc->recent);
		list_init(&acc->node);
		list_init(&acc->of_key);
		list_append(&k->accesses, &acc->of_key);
		map_put(&t->accesses_by_id, &acc->by_id);
	}
	list_remove(&acc->recent);
	list_append(&t->accesses, &acc->recent);
	/* Where several clients are one owner, the access ends with the last of them. */
	list_remove(&acc->node);
	list_append(&a->client->accesses, &acc->node);
	return acc;
}

/* --- keys ----------------------------------------------------------------------- */

struct key_id {
	struct tracker_rule *rule;
	int64_t db;
};

static struct slice key_id(const struct tracker_act *a, struct buf *scratch)
{
	struct key_id head = { a->rule, a->db };

	buf_append(scratch, slice_of(&head, sizeof(head)));
	buf_append(scratch, a->key);
	return buf_slice(scratch);
}

struct slice tracked_key_name(const struct tracked_key *k)
{
	struct slice id = k->by_id.key;

	return slice_of(id.p + sizeof(struct key_id), id.n - sizeof(struct key_id));
}

static void tracked_key_free(struct tracker *t, struct tracked_key *k)
{
	while (!list_empty(&k->accesses))
		tracker_access_free(container_of(k->accesses.next, struct access, of_key));
	map_remove(&t->keys, &k->by_id);
	list_remove(&k->node);
	k->rule->nkeys--;
	client_name_unref(k->last);
	client_name_unref(k->by);
	client_name_unref(k->of);
	client_name_unref(k->holds);
	free((char *)k->holder.p);
	free((char *)k->by_id.key.p);
	free(k);
}

static void forget_key(struct tracker *t)
{
	struct list *from = list_empty(&t->clean) ? &t->harmed : &t->clean;
	struct tracked_key *k = container_of(from->next, struct tracked_key, node);

	k->rule->forgotten_keys++;
	tracked_key_free(t, k);
}

static struct tracked_key *tracked_key_new(struct tracker *t, struct tracker_rule *rule,
                                           struct slice id)
{
	struct tracked_key *k = xcalloc(1, sizeof(*k));

	k->rule = rule;
	k->by_id.key = slice_of(xmemdup(id.p, id.n), id.n);
	list_init(&k->node);
	list_init(&k->accesses);
	list_append(&t->clean, &k->node);
	map_put(&t->keys, &k->by_id);
	rule->nkeys++;
	return k;
}

struct tracked_key *tracker_key(const struct tracker_act *a)
{
	struct tracker *t = a->tracker;
	struct buf scratch = BUF_INIT;
	struct map_node *node;
	struct list *to;
	struct tracked_key *k;
	struct slice id;

	if (a->key.n > TRACKER_KEY_MAX) {
		a->rule->too_long++;
		return NULL;
	}
	id = key_id(a, &scratch);
	node = map_get(&t->keys, id);
	if (node) {
		k = container_of(node, struct tracked_key, by_id);
		to = k->by ? &t->harmed : &t->clean;
		list_remove(&k->node);
		list_append(to, &k->node);
	} else {
		if (t->keys.n >= t->limits.nkeys)
			forget_key(t);
		k = tracked_key_new(t, a->rule, id);
	}
	buf_release(&scratch);
	return k;
}

void tracker_harmed(const struct tracker_act *a, struct tracked_key *k, struct client_name *by,
                    struct client_name *of)
{
	client_name_set(&k->by, by);
	client_name_set(&k->of, of);
	list_remove(&k->node);
	list_append(&a->tracker->harmed, &k->node);
}

/* --- lines ---------------------------------------------------------------------- */

void tracker_print_key(struct buf *out, struct slice key)
{
	struct quoted q = { "" };

	buf_puts(out, quote(&q, key, KEY_PRINTED_MAX));
}

/* The event's name, and what `of` is to it. */
static const struct {
	const char *name;
	const char *role;
} events[EVENTS] = {
	[EVENT_LOST_UPDATE] = { "lost_update", "overwritten" },
	[EVENT_NO_EXPIRY] = { "lock_without_expiry", NULL },
	[EVENT_DELETED] = { "lock_of_another_deleted", "holder" },
	[EVENT_CHANGED] = { "lock_of_another_changed", "holder" },
	[EVENT_OUTLIVED] = { "lock_outlived_lease", "holder" },
};

bool tracker_event_begin(const struct tracker_act *a, enum event e, const struct tracked_key *k,
                         const struct client_name *of)
{
	struct tracker_rule *rule = k->rule;
	uint32_t suppressed;

	if (!log_limit_pass(&rule->limits[e], a->now, a->tracker->limits.burst, &suppressed))
		return false;
	buf_printf(a->told, "%s mode=observe %s=%s key=", events[e].name,
	           rule->kind == TRACKER_GUARD ? "guard" : "lock", rule->name);
	tracker_print_key(a->told, tracked_key_name(k));
	buf_printf(a->told, " by=%s", QUOTE_STR(a->client->name->text));
	if (events[e].role && of)
		buf_printf(a->told, " %s=%s", events[e].role, QUOTE_STR(of->text));
	buf_printf(a->told, " suppressed=%u", suppressed);
	return true;
}

void tracker_event_end(const struct tracker_act *a)
{
	buf_puts(a->told, "\n");
}

/* --- all ------------------------------------------------------------------------ */

struct tracker *tracker_new(const struct tracker_limits *limits)
{
	struct tracker *t = xcalloc(1, sizeof(*t));

	HASP_ASSERT(limits->nkeys && limits->naccesses);
	t->limits = *limits;
	list_init(&t->rules);
	map_init(&t->keys);
	map_init(&t->accesses_by_id);
	list_init(&t->clean);
	list_init(&t->harmed);
	list_init(&t->accesses);
	return t;
}

void tracker_free(struct tracker *t)
{
	struct list *node;

	while (!list_empty(&t->clean))
		tracked_key_free(t, container_of(t->clean.next, struct tracked_key, node));
	while (!list_empty(&t->harmed))
		tracked_key_free(t, container_of(t->harmed.next, struct tracked_key, node));
	while ((node = list_shift(&t->rules))) {
		struct tracker_rule *rule = container_of(node, struct tracker_rule, node);
		free(rule->name);
		free(rule);
	}
	map_fini(&t->keys);
	map_fini(&t->accesses_by_id);
	free(t);
}
