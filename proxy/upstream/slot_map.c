/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/slot_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "net/address.h"

#define ADDRESS_MAX 300

void slot_map_init(struct slot_map *m, const struct slot_map_ops *ops, void *arg)
{
	memset(m, 0, sizeof(*m));
	m->ops = ops;
	m->arg = arg;
}

/* In the map no more; then its owner is told. */
static void drop_node(struct slot_map *m, size_t i)
{
	struct node *n = m->nodes[i].node;

	free(m->nodes[i].address);
	m->nodes[i] = m->nodes[--m->nnodes];
	for (size_t slot = 0; slot < SLOTS; slot++)
		if (m->slots[slot] == n)
			m->slots[slot] = NULL;
	m->ops->on_gone(m->arg, n);
}

void slot_map_fini(struct slot_map *m)
{
	for (size_t i = 0; i < m->nnodes; i++)
		free(m->nodes[i].address);
	free(m->nodes);
	m->nodes = NULL;
	m->nnodes = 0;
}

struct node *slot_map_any(const struct slot_map *m, size_t n)
{
	return m->nnodes ? m->nodes[n % m->nnodes].node : NULL;
}

static struct slot_map_node *find_node(const struct slot_map *m, const struct node *n)
{
	for (size_t i = 0; i < m->nnodes; i++)
		if (m->nodes[i].node == n)
			return &m->nodes[i];
	return NULL;
}

bool slot_map_has(const struct slot_map *m, const struct node *n)
{
	return find_node(m, n);
}

const char *slot_map_address(const struct slot_map *m, const struct node *n)
{
	const struct slot_map_node *found = find_node(m, n);

	return found ? found->address : NULL;
}

static struct slot_map_node *get_node(struct slot_map *m, const char *address)
{
	struct slot_map_node *n;

	for (size_t i = 0; i < m->nnodes; i++)
		if (strcmp(m->nodes[i].address, address) == 0)
			return &m->nodes[i];
	m->nodes = xrealloc(m->nodes, (m->nnodes + 1) * sizeof(*m->nodes));
	n = &m->nodes[m->nnodes++];
	*n = (struct slot_map_node){ .address = xstrdup(address) };
	n->node = m->ops->on_node(m->arg, address);
	return n;
}

/* IPv6 addresses come without brackets. Returns -1 when no address comes of it. */
static int write_address(char *out, size_t size, const char *host, size_t nhost, long long port)
{
	bool bare6 = memchr(host, ':', nhost) && host[0] != '[';
	int n;

	if (nhost == 0 || port <= 0 || port > 65535)
		return -1;
	n = snprintf(out, size, bare6 ? "[%.*s]:%lld" : "%.*s:%lld", (int)nhost, host, port);
	return n > 0 && (size_t)n < size && address_is_remote(out) ? 0 : -1;
}

struct node *slot_map_get(struct slot_map *m, struct slice address)
{
	const char *colon = NULL;
	char text[ADDRESS_MAX];
	long long port = 0;

	for (size_t i = 0; i < address.n; i++)
		if (address.p[i] == ':')
			colon = address.p + i;
	if (!colon)
		return NULL;
	for (const char *p = colon + 1; p < address.p + address.n; p++) {
		if (*p < '0' || *p > '9' || port > 65535)
			return NULL;
		port = port * 10 + (*p - '0');
	}
	if (write_address(text, sizeof(text), address.p, (size_t)(colon - address.p), port) < 0)
		return NULL;
	return get_node(m, text)->node;
}

struct node *slot_map_named(struct slot_map *m, const struct node *asked, struct slice error)
{
	const char *there = slot_map_address(m, asked);
	struct slice word, slot, address;
	char text[ADDRESS_MAX];

	if (!slice_cut(&error, ' ', &word) || !slice_cut(&error, ' ', &slot) ||
	    !slice_cut(&error, ' ', &address) || address.n == 0)
		return NULL;
	if (!slice_eq(word, SLICE_LIT("MOVED")) && !slice_eq(word, SLICE_LIT("ASK")))
		return NULL;
	if (address.p[0] == ':' && there) {
		snprintf(text, sizeof(text), "%.*s%.*s", (int)(strrchr(there, ':') - there),
		         there, (int)address.n, address.p);
		address = slice_str(text);
	}
	return slot_map_get(m, address);
}

void slot_map_move(struct slot_map *m, unsigned slot, struct node *n)
{
	if (m->slots[slot] == n)
		return;
	m->slots[slot] = n;
	m->version++;
	if (slot_map_is_migrating(m, slot)) {
		m->migrating[slot / 8] &= (uint8_t) ~(1u << slot % 8);
		m->nmigrating--;
	}
}

void slot_map_note_migrating(struct slot_map *m, unsigned slot)
{
	if (slot_map_is_migrating(m, slot))
		return;
	m->migrating[slot / 8] |= (uint8_t)(1u << slot % 8);
	m->nmigrating++;
}

void slot_map_forget_migrating(struct slot_map *m)
{
	memset(m->migrating, 0, sizeof(m->migrating));
	m->nmigrating = 0;
}

/* One range of the answer: first, last, primary [host, port, ...], replicas. Returns how many
 * slots that are; 0: it is none. */
static size_t read_range(struct slot_map *m, const redisReply *range, const char *asked)
{
	const redisReply *primary;
	const char *host = asked;
	char text[ADDRESS_MAX];
	struct slot_map_node *n;
	long long first, last;

	if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
	    range->element[0]->type != REDIS_REPLY_INTEGER ||
	    range->element[1]->type != REDIS_REPLY_INTEGER)
		return 0;
	first = range->element[0]->integer;
	last = range->element[1]->integer;
	primary = range->element[2];
	if (first < 0 || last >= SLOTS || first > last || primary->type != REDIS_REPLY_ARRAY ||
	    primary->elements < 2 || primary->element[1]->type != REDIS_REPLY_INTEGER)
		return 0;
	/* A node that does not know its own address leaves it out. */
	if (primary->element[0]->type == REDIS_REPLY_STRING && primary->element[0]->len &&
	    strcmp(primary->element[0]->str, "?") != 0)
		host = primary->element[0]->str;
	if (write_address(text, sizeof(text), host, strlen(host),
	                  primary->element[1]->integer) < 0)
		return 0;
	n = get_node(m, text);
	n->named = true;
	for (long long slot = first; slot <= last; slot++)
		slot_map_move(m, (unsigned)slot, n->node);
	return (size_t)(last - first + 1);
}

int slot_map_read(struct slot_map *m, const redisReply *slots, const char *asked)
{
	size_t nslots = 0;

	if (slots->type != REDIS_REPLY_ARRAY)
		return -1;
	for (size_t i = 0; i < m->nnodes; i++)
		m->nodes[i].named = false;
	for (size_t i = 0; i < slots->elements; i++)
		nslots += read_range(m, slots->element[i], asked);
	if (nslots == 0)
		return -1;
	for (size_t i = m->nnodes; i-- > 0;) {
		if (m->nodes[i].named)
			continue;
		m->version++;
		drop_node(m, i);
	}
	return 0;
}
