/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/witness.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/witnesses.h"

#define KEY_PRINTED_MAX 64

/* --- who ------------------------------------------------------------------------ */

static struct who *who_new(const char *text)
{
	size_t n = strlen(text) + 1;
	struct who *who = xmalloc(sizeof(*who) + n);

	who->refs = 1;
	memcpy(who->text, text, n);
	return who;
}

static void who_unref(struct who *who)
{
	if (who && --who->refs == 0)
		free(who);
}

void who_set(struct who **at, struct who *who)
{
	if (who)
		who->refs++;
	who_unref(*at);
	*at = who;
}

struct witness_client *witness_client_new(const char *called)
{
	struct witness_client *c = xcalloc(1, sizeof(*c));

	c->who = who_new(called);
	list_init(&c->marks);
	return c;
}

void witness_client_call(struct witness_client *c, const char *called)
{
	who_unref(c->who);
	c->who = who_new(called);
}

void witness_client_free(struct witness_client *c)
{
	while (!list_empty(&c->marks))
		witness_unmark(container_of(c->marks.next, struct mark, node));
	who_unref(c->who);
	free(c);
}

/* --- rules ---------------------------------------------------------------------- */

struct witness_rule *witness_rule(struct witness *w, enum witness_kind kind, const char *name)
{
	struct witness_rule *rule;
	struct list *at;

	for (at = w->rules.next; at != &w->rules; at = at->next) {
		rule = container_of(at, struct witness_rule, node);
		if (rule->kind == kind && strcmp(rule->name, name) == 0)
			return rule;
	}
	rule = xcalloc(1, sizeof(*rule));
	rule->kind = kind;
	rule->name = xstrdup(name);
	list_append(&w->rules, &rule->node);
	return rule;
}

void witness_rule_by_value(struct witness_rule *rule, bool by_value)
{
	rule->by_value = by_value;
}

/* --- marks ---------------------------------------------------------------------- */

/* Writes what a mark is found by to `room`. */
static struct slice mark_id(const struct witness_act *a, const struct seen *s, struct buf *room)
{
	uintptr_t at = (uintptr_t)s;

	buf_append(room, slice_of(&at, sizeof(at)));
	buf_append(room, a->token);
	return buf_slice(room);
}

void witness_unmark(struct mark *m)
{
	struct witness *w = m->witness;

	map_remove(&w->marks_by_id, &m->by_id);
	list_remove(&m->recent);
	list_remove(&m->node);
	list_remove(&m->of_key);
	free((char *)m->by_id.key.p);
	free(m);
}

struct mark *witness_mark(const struct witness_act *a, struct seen *s)
{
	struct buf room = BUF_INIT;
	struct map_node *node = map_get(&a->witness->marks_by_id, mark_id(a, s, &room));

	buf_release(&room);
	return node ? container_of(node, struct mark, by_id) : NULL;
}

static void forget_mark(struct witness *w)
{
	struct mark *m = container_of(w->marks.next, struct mark, recent);

	m->seen->rule->forgotten_marks++;
	witness_unmark(m);
}

struct mark *witness_mark_make(const struct witness_act *a, struct seen *s)
{
	struct witness *w = a->witness;
	struct mark *m = witness_mark(a, s);
	struct buf room = BUF_INIT;
	struct slice id;

	if (!m) {
		if (w->marks_by_id.n >= w->limits.nmarks)
			forget_mark(w);
		m = xcalloc(1, sizeof(*m));
		id = mark_id(a, s, &room);
		m->by_id.key = slice_of(xmemdup(id.p, id.n), id.n);
		buf_release(&room);
		m->witness = w;
		m->seen = s;
		list_init(&m->recent);
		list_init(&m->node);
		list_init(&m->of_key);
		list_append(&s->marks, &m->of_key);
		map_put(&w->marks_by_id, &m->by_id);
	}
	list_remove(&m->recent);
	list_append(&w->marks, &m->recent);
	/* Of several that are one owner, the mark goes with the last. */
	list_remove(&m->node);
	list_append(&a->client->marks, &m->node);
	return m;
}

/* --- keys ----------------------------------------------------------------------- */

struct key_id {
	struct witness_rule *rule;
	int64_t db;
};

static struct slice key_id(const struct witness_act *a, struct buf *room)
{
	struct key_id head = { a->rule, a->db };

	buf_append(room, slice_of(&head, sizeof(head)));
	buf_append(room, a->key);
	return buf_slice(room);
}

struct slice seen_key(const struct seen *s)
{
	struct slice id = s->by_id.key;

	return slice_of(id.p + sizeof(struct key_id), id.n - sizeof(struct key_id));
}

static void seen_free(struct witness *w, struct seen *s)
{
	while (!list_empty(&s->marks))
		witness_unmark(container_of(s->marks.next, struct mark, of_key));
	map_remove(&w->keys, &s->by_id);
	list_remove(&s->node);
	s->rule->nkeys--;
	who_unref(s->last);
	who_unref(s->by);
	who_unref(s->of);
	who_unref(s->holds);
	free((char *)s->holder.p);
	free((char *)s->by_id.key.p);
	free(s);
}

static void forget_key(struct witness *w)
{
	struct list *from = list_empty(&w->clean) ? &w->hurt : &w->clean;
	struct seen *s = container_of(from->next, struct seen, node);

	s->rule->forgotten_keys++;
	seen_free(w, s);
}

static struct seen *seen_new(struct witness *w, struct witness_rule *rule, struct slice id)
{
	struct seen *s = xcalloc(1, sizeof(*s));

	s->rule = rule;
	s->by_id.key = slice_of(xmemdup(id.p, id.n), id.n);
	list_init(&s->node);
	list_init(&s->marks);
	list_append(&w->clean, &s->node);
	map_put(&w->keys, &s->by_id);
	rule->nkeys++;
	return s;
}

struct seen *witness_seen(const struct witness_act *a)
{
	struct witness *w = a->witness;
	struct buf room = BUF_INIT;
	struct map_node *node;
	struct list *to;
	struct seen *s;
	struct slice id;

	if (a->key.n > WITNESS_KEY_MAX) {
		a->rule->too_long++;
		return NULL;
	}
	id = key_id(a, &room);
	node = map_get(&w->keys, id);
	if (node) {
		s = container_of(node, struct seen, by_id);
		to = s->by ? &w->hurt : &w->clean;
		list_remove(&s->node);
		list_append(to, &s->node);
	} else {
		if (w->keys.n >= w->limits.nkeys)
			forget_key(w);
		s = seen_new(w, a->rule, id);
	}
	buf_release(&room);
	return s;
}

void witness_hurt(const struct witness_act *a, struct seen *s, struct who *by, struct who *of)
{
	who_set(&s->by, by);
	who_set(&s->of, of);
	list_remove(&s->node);
	list_append(&a->witness->hurt, &s->node);
}

/* --- lines ---------------------------------------------------------------------- */

void witness_print_key(struct buf *out, struct slice key)
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

bool witness_tell(const struct witness_act *a, enum event e, const struct seen *s,
                  const struct who *of)
{
	struct witness_rule *rule = s->rule;
	uint32_t suppressed;

	if (!log_limit_pass(&rule->limits[e], a->now, a->witness->limits.burst, &suppressed))
		return false;
	buf_printf(a->told, "observe %s=%s event=%s key=",
	           rule->kind == WITNESS_GUARD ? "guard" : "lock", rule->name, events[e].name);
	witness_print_key(a->told, seen_key(s));
	buf_printf(a->told, " by=\"%s\"", a->client->who->text);
	if (events[e].role && of)
		buf_printf(a->told, " %s=\"%s\"", events[e].role, of->text);
	buf_printf(a->told, " suppressed=%u", suppressed);
	return true;
}

void witness_tell_end(const struct witness_act *a)
{
	buf_puts(a->told, "\n");
}

/* --- all ------------------------------------------------------------------------ */

struct witness *witness_new(uint64_t seed, const struct witness_limits *limits)
{
	struct witness *w = xcalloc(1, sizeof(*w));

	HASP_ASSERT(limits->nkeys && limits->nmarks);
	w->limits = *limits;
	list_init(&w->rules);
	map_init(&w->keys, seed);
	map_init(&w->marks_by_id, ~seed);
	list_init(&w->clean);
	list_init(&w->hurt);
	list_init(&w->marks);
	return w;
}

void witness_free(struct witness *w)
{
	struct list *node;

	while (!list_empty(&w->clean))
		seen_free(w, container_of(w->clean.next, struct seen, node));
	while (!list_empty(&w->hurt))
		seen_free(w, container_of(w->hurt.next, struct seen, node));
	while ((node = list_shift(&w->rules))) {
		struct witness_rule *rule = container_of(node, struct witness_rule, node);
		free(rule->name);
		free(rule);
	}
	map_fini(&w->keys);
	map_fini(&w->marks_by_id);
	free(w);
}
