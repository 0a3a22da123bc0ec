/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/observe/tracker.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/observe/tracker_internal.h"

#define KEY_PRINTED_MAX 64

/* --- who ------------------------------------------------------------------------ */

static struct client_label *client_label_new(const char *text)
{
	size_t n = strlen(text) + 1;
	struct client_label *client_label = xmalloc(sizeof(*client_label) + n);

	client_label->refs = 1;
	memcpy(client_label->text, text, n);
	return client_label;
}

static void client_label_unref(struct client_label *client_label)
{
	if (client_label && --client_label->refs == 0)
		free(client_label);
}

void client_label_set(struct client_label **at, struct client_label *client_label)
{
	if (client_label)
		client_label->refs++;
	client_label_unref(*at);
	*at = client_label;
}

struct tracker_client *tracker_client_new(const char *called)
{
	struct tracker_client *c = xcalloc(1, sizeof(*c));

	c->client_label = client_label_new(called);
	list_init(&c->accesses);
	return c;
}

void tracker_client_rename(struct tracker_client *c, const char *called)
{
	client_label_unref(c->client_label);
	c->client_label = client_label_new(called);
}

void tracker_client_free(struct tracker_client *c)
{
	while (!list_empty(&c->accesses))
		tracker_access_free(container_of(c->accesses.next, struct access, node));
	client_label_unref(c->client_label);
	free(c);
}

/* --- rules ---------------------------------------------------------------------- */

struct tracker_rule *tracker_rule(struct tracker *w, enum tracker_kind kind, const char *name)
{
	struct tracker_rule *rule;
	struct list *at;

	for (at = w->rules.next; at != &w->rules; at = at->next) {
		rule = container_of(at, struct tracker_rule, node);
		if (rule->kind == kind && strcmp(rule->name, name) == 0)
			return rule;
	}
	rule = xcalloc(1, sizeof(*rule));
	rule->kind = kind;
	rule->name = xstrdup(name);
	list_append(&w->rules, &rule->node);
	return rule;
}

void tracker_rule_by_value(struct tracker_rule *rule, bool by_value)
{
	rule->by_value = by_value;
}

/* --- marks ---------------------------------------------------------------------- */

/* Writes what a mark is found by to `room`. */
static struct slice access_id(const struct tracker_act *a, const struct tracked_key *s,
                              struct buf *room)
{
	uintptr_t at = (uintptr_t)s;

	buf_append(room, slice_of(&at, sizeof(at)));
	buf_append(room, a->token);
	return buf_slice(room);
}

void tracker_access_free(struct access *m)
{
	struct tracker *w = m->tracker;

	map_remove(&w->accesses_by_id, &m->by_id);
	list_remove(&m->recent);
	list_remove(&m->node);
	list_remove(&m->of_key);
	free((char *)m->by_id.key.p);
	free(m);
}

struct access *tracker_access(const struct tracker_act *a, struct tracked_key *s)
{
	struct buf room = BUF_INIT;
	struct map_node *node = map_get(&a->tracker->accesses_by_id, access_id(a, s, &room));

	buf_release(&room);
	return node ? container_of(node, struct access, by_id) : NULL;
}

static void forget_access(struct tracker *w)
{
	struct access *m = container_of(w->accesses.next, struct access, recent);

	m->tracked_key->rule->forgotten_accesses++;
	tracker_access_free(m);
}

struct access *tracker_access_make(const struct tracker_act *a, struct tracked_key *s)
{
	struct tracker *w = a->tracker;
	struct access *m = tracker_access(a, s);
	struct buf room = BUF_INIT;
	struct slice id;

	if (!m) {
		if (w->accesses_by_id.n >= w->limits.naccesses)
			forget_access(w);
		m = xcalloc(1, sizeof(*m));
		id = access_id(a, s, &room);
		m->by_id.key = slice_of(xmemdup(id.p, id.n), id.n);
		buf_release(&room);
		m->tracker = w;
		m->tracked_key = s;
		list_init(&m->recent);
		list_init(&m->node);
		list_init(&m->of_key);
		list_append(&s->accesses, &m->of_key);
		map_put(&w->accesses_by_id, &m->by_id);
	}
	list_remove(&m->recent);
	list_append(&w->accesses, &m->recent);
	/* Of several that are one owner, the mark goes with the last. */
	list_remove(&m->node);
	list_append(&a->client->accesses, &m->node);
	return m;
}

/* --- keys ----------------------------------------------------------------------- */

struct key_id {
	struct tracker_rule *rule;
	int64_t db;
};

static struct slice key_id(const struct tracker_act *a, struct buf *room)
{
	struct key_id head = { a->rule, a->db };

	buf_append(room, slice_of(&head, sizeof(head)));
	buf_append(room, a->key);
	return buf_slice(room);
}

struct slice tracked_key_name(const struct tracked_key *s)
{
	struct slice id = s->by_id.key;

	return slice_of(id.p + sizeof(struct key_id), id.n - sizeof(struct key_id));
}

static void tracked_key_free(struct tracker *w, struct tracked_key *s)
{
	while (!list_empty(&s->accesses))
		tracker_access_free(container_of(s->accesses.next, struct access, of_key));
	map_remove(&w->keys, &s->by_id);
	list_remove(&s->node);
	s->rule->nkeys--;
	client_label_unref(s->last);
	client_label_unref(s->by);
	client_label_unref(s->of);
	client_label_unref(s->holds);
	free((char *)s->holder.p);
	free((char *)s->by_id.key.p);
	free(s);
}

static void forget_key(struct tracker *w)
{
	struct list *from = list_empty(&w->clean) ? &w->harmed : &w->clean;
	struct tracked_key *s = container_of(from->next, struct tracked_key, node);

	s->rule->forgotten_keys++;
	tracked_key_free(w, s);
}

static struct tracked_key *tracked_key_new(struct tracker *w, struct tracker_rule *rule,
                                           struct slice id)
{
	struct tracked_key *s = xcalloc(1, sizeof(*s));

	s->rule = rule;
	s->by_id.key = slice_of(xmemdup(id.p, id.n), id.n);
	list_init(&s->node);
	list_init(&s->accesses);
	list_append(&w->clean, &s->node);
	map_put(&w->keys, &s->by_id);
	rule->nkeys++;
	return s;
}

struct tracked_key *tracker_key(const struct tracker_act *a)
{
	struct tracker *w = a->tracker;
	struct buf room = BUF_INIT;
	struct map_node *node;
	struct list *to;
	struct tracked_key *s;
	struct slice id;

	if (a->key.n > TRACKER_KEY_MAX) {
		a->rule->too_long++;
		return NULL;
	}
	id = key_id(a, &room);
	node = map_get(&w->keys, id);
	if (node) {
		s = container_of(node, struct tracked_key, by_id);
		to = s->by ? &w->harmed : &w->clean;
		list_remove(&s->node);
		list_append(to, &s->node);
	} else {
		if (w->keys.n >= w->limits.nkeys)
			forget_key(w);
		s = tracked_key_new(w, a->rule, id);
	}
	buf_release(&room);
	return s;
}

void tracker_harmed(const struct tracker_act *a, struct tracked_key *s, struct client_label *by,
                    struct client_label *of)
{
	client_label_set(&s->by, by);
	client_label_set(&s->of, of);
	list_remove(&s->node);
	list_append(&a->tracker->harmed, &s->node);
}

/* --- lines ---------------------------------------------------------------------- */

void tracker_print_key(struct buf *out, struct slice key)
{
	size_t n = key.n > KEY_PRINTED_MAX ? KEY_PRINTED_MAX : key.n;

	buf_puts(out, "\"");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)key.p[i];
		if (c == '"' || c == '\\')
			buf_printf(out, "\\%c", c);
		else if (c < ' ' || c >= 0x7f)
			buf_printf(out, "\\x%02x", c);
		else
			buf_printf(out, "%c", c);
	}
	buf_puts(out, key.n > n ? "...\"" : "\"");
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

bool tracker_event_begin(const struct tracker_act *a, enum event e, const struct tracked_key *s,
                         const struct client_label *of)
{
	struct tracker_rule *rule = s->rule;
	uint32_t suppressed;

	if (!log_limit_pass(&rule->limits[e], a->now, a->tracker->limits.burst, &suppressed))
		return false;
	buf_printf(a->told, "observe %s=%s event=%s key=",
	           rule->kind == TRACKER_GUARD ? "guard" : "lock", rule->name, events[e].name);
	tracker_print_key(a->told, tracked_key_name(s));
	buf_printf(a->told, " by=\"%s\"", a->client->client_label->text);
	if (events[e].role && of)
		buf_printf(a->told, " %s=\"%s\"", events[e].role, of->text);
	buf_printf(a->told, " suppressed=%u", suppressed);
	return true;
}

void tracker_event_end(const struct tracker_act *a)
{
	buf_puts(a->told, "\n");
}

/* --- all ------------------------------------------------------------------------ */

struct tracker *tracker_new(uint64_t seed, const struct tracker_limits *limits)
{
	struct tracker *w = xcalloc(1, sizeof(*w));

	HASP_ASSERT(limits->nkeys && limits->naccesses);
	w->limits = *limits;
	list_init(&w->rules);
	map_init(&w->keys, seed);
	map_init(&w->accesses_by_id, ~seed);
	list_init(&w->clean);
	list_init(&w->harmed);
	list_init(&w->accesses);
	return w;
}

void tracker_free(struct tracker *w)
{
	struct list *node;

	while (!list_empty(&w->clean))
		tracked_key_free(w, container_of(w->clean.next, struct tracked_key, node));
	while (!list_empty(&w->harmed))
		tracked_key_free(w, container_of(w->harmed.next, struct tracked_key, node));
	while ((node = list_shift(&w->rules))) {
		struct tracker_rule *rule = container_of(node, struct tracker_rule, node);
		free(rule->name);
		free(rule);
	}
	map_fini(&w->keys);
	map_fini(&w->accesses_by_id);
	free(w);
}
