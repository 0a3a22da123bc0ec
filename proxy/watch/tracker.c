/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "watch/tracker_internal.h"

static void tracker_begin(struct tracker *d, double now)
{
	map_init_with(&d->key_patterns, d->secret);
	map_init_with(&d->places, d->secret);
	d->covered = (struct key_group){ .node = { .key = SLICE_LIT("") } };
	list_init(&d->covered.keys);
	d->began = now;
	d->round++;
	d->ncounted = 0;
	d->passed_over = 0;
}

struct tracker *tracker_new(const uint8_t secret[SIPHASH_SECRET_SIZE], size_t memory,
                            double now)
{
	struct tracker *d = xcalloc(1, sizeof(*d));

	memcpy(d->secret, secret, sizeof(d->secret));
	d->memory = memory;
	d->sampling = sampling_new(tracker_hash(d, SLICE_LIT("sampling")));
	d->used = tracker_cost(sizeof(*d->sampling)) + tracker_cost(sizeof(*d));
	list_init(&d->rules);
	for (size_t i = 0; i < KIN_SLOTS; i++) {
		list_init(&d->by_address[i]);
		list_init(&d->by_name[i]);
	}
	map_init_with(&d->keys, d->secret);
	tracker_begin(d, now);
	return d;
}

struct key_group *tracker_covered(struct tracker *d)
{
	return &d->covered;
}

/* --- clients ------------------------------------------------------------------------------ */

bool tracker_client_is_labelled(const struct tracker_client *c)
{
	return c->label;
}

void tracker_client_label(struct tracker_client *c, const char *label)
{
	size_t n = strlen(label) + 1;

	client_label_set(&c->label, NULL);
	c->label = xmalloc(sizeof(*c->label) + n);
	c->label->refs = 1;
	memcpy(c->label->text, label, n);
}

struct tracker_client *tracker_client_new(struct tracker *d, uint64_t address)
{
	struct tracker_client *c = xcalloc(1, sizeof(*c));

	c->id = ++d->nclients;
	c->round = d->round - 1;
	c->address = address;
	list_init(&c->holds);
	list_init(&c->reads);
	return c;
}

void tracker_client_count(struct tracker *d, struct tracker_client *c)
{
	if (c->round == d->round)
		return;
	d->ncounted++;
	c->round = d->round;
	c->wrote_at = 0;
	memset(c->looks, 0, sizeof(c->looks));
}

void tracker_client_rename(struct tracker_client *c, uint64_t name)
{
	if (c->name != name)
		client_label_set(&c->label, NULL);
	c->name = name;
}

void tracker_client_free(struct tracker *d, struct tracker_client *c, double now)
{
	c->is_closing = true;
	list_drain (struct held_lock, h, &c->holds, in_client)
		tracker_hold_leave(d, h, now);
	list_drain (struct last_read, r, &c->reads, in_client)
		tracker_last_read_free(d, r);
	client_label_set(&c->label, NULL);
	free(c);
}

/* --- rules ------------------------------------------------------------------------------- */

struct key_group *tracker_rule(struct tracker *t, enum observed_kind kind, const char *name,
                               bool by_value)
{
	struct observed_rule *rule;

	list_each (struct observed_rule, r, &t->rules, node) {
		if (r->kind == kind && strcmp(r->name, name) == 0) {
			r->by_value = by_value;
			return &r->group;
		}
	}
	rule = xcalloc(1, sizeof(*rule));
	rule->kind = kind;
	rule->name = xstrdup(name);
	rule->by_value = by_value;
	rule->group.rule = rule;
	rule->group.node.key = SLICE_LIT("");
	list_init(&rule->group.keys);
	if (kind == OBSERVED_LOCK)
		tracker_lock_sums(t, &rule->group);
	else
		tracker_guard_sums(t, &rule->group);
	list_append(&t->rules, &rule->node);
	return &rule->group;
}

/* --- the end ------------------------------------------------------------------------------ */

static void group_fini(struct tracker *d, struct key_group *s)
{
	list_drain (struct key, k, &s->keys, in_group)
		tracker_key_free(d, k);
	d->used -= s->lock ? tracker_cost(sizeof(*s->lock)) : 0;
	d->used -= s->guard ? tracker_cost(sizeof(*s->guard)) : 0;
	free(s->lock);
	free(s->guard);
}

/* Frees the patterns, and everything in them. */
static void tracker_empty(struct tracker *d)
{
	map_drain (&d->key_patterns, node) {
		struct key_group *s = container_of(node, struct key_group, node);

		group_fini(d, s);
		d->used -= tracker_cost(sizeof(*s)) + tracker_cost(s->node.key.n);
		free((char *)s->node.key.p);
		free(s);
	}
	group_fini(d, &d->covered);
	map_fini(&d->key_patterns);
	parts_free_places(d);
}

void tracker_clear(struct tracker *d, double now)
{
	tracker_empty(d);
	sampling_clear(d->sampling);
	tracker_begin(d, now);
}

void tracker_free(struct tracker *d)
{
	tracker_empty(d);
	list_shift_each (struct observed_rule, rule, &d->rules, node) {
		group_fini(d, &rule->group);
		free(rule->name);
		free(rule);
	}
	map_fini(&d->keys);
	free(d->sampling);
	free(d);
}
