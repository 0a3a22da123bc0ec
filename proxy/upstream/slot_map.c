/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/slot_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "net/address.h"
#include "upstream/decode.h"

#define ADDRESS_MAX 300
/* Limit of primaries in a map, because hasp connects to each, and a compromised node could name
 * any number. Redis supports clusters of about 1,000 nodes. */
#define PRIMARIES_MAX 1000u
/* Limit of importing nodes in the map, and of importing nodes that hasp looks up in one reply
 * to CLUSTER NODES. */
#define IMPORTING_MAX 100u

void slot_map_init(struct slot_map *m, const struct slot_map_ops *ops, void *arg)
{
	memset(m, 0, sizeof(*m));
	m->ops = ops;
	m->arg = arg;
}

/* Removes the node from the map, and then notifies its owner. */
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

struct slot_map_node *slot_map_find(const struct slot_map *m, const struct node *n)
{
	for (size_t i = 0; i < m->nnodes; i++)
		if (m->nodes[i].node == n)
			return &m->nodes[i];
	return NULL;
}

const char *slot_map_address(const struct slot_map *m, const struct node *n)
{
	const struct slot_map_node *found = slot_map_find(m, n);

	return found ? found->address : NULL;
}

struct slot_map_node *slot_map_find_address(const struct slot_map *m, const char *address)
{
	for (size_t i = 0; i < m->nnodes; i++)
		if (strcmp(m->nodes[i].address, address) == 0)
			return &m->nodes[i];
	return NULL;
}

static struct slot_map_node *get_node(struct slot_map *m, const char *address)
{
	struct slot_map_node *n = slot_map_find_address(m, address);
	struct node *node;

	if (n)
		return n;
	node = m->ops->on_node(m->arg, address);
	m->nodes = xrealloc(m->nodes, (m->nnodes + 1) * sizeof(*m->nodes));
	n = &m->nodes[m->nnodes++];
	*n = (struct slot_map_node){ .address = xstrdup(address), .node = node };
	m->version++;
	return n;
}

/* Writes HOST:PORT, or [HOST]:PORT for an IPv6 address without brackets. Returns -1 if the
 * address is invalid. */
static int write_address(char *out, size_t size, const char *host, size_t nhost, long long port)
{
	bool bare6;

	if (nhost == 0 || port <= 0 || port > 65535)
		return -1;
	bare6 = memchr(host, ':', nhost) && host[0] != '[';
	/* If the text is cut off, address_is_remote() fails, because the host is too long. */
	snprintf(out, size, bare6 ? "[%.*s]:%lld" : "%.*s:%lld", (int)nhost, host, port);
	return address_is_remote(out) ? 0 : -1;
}

/* Writes `address` (host:port) in the map's form. Returns -1 if it is invalid. */
static int copy_address(char *out, size_t size, struct slice address)
{
	const char *colon = NULL;
	uint64_t port;

	for (size_t i = 0; i < address.n; i++)
		if (address.p[i] == ':')
			colon = address.p + i;
	if (!colon ||
	    !slice_number(slice_of(colon + 1, (size_t)(address.p + address.n - colon) - 1),
	                  &port) ||
	    port > UINT16_MAX)
		return -1;
	return write_address(out, size, address.p, (size_t)(colon - address.p),
	                     (long long)port);
}

struct node *slot_map_get(struct slot_map *m, struct slice address)
{
	char text[ADDRESS_MAX];

	return copy_address(text, sizeof(text), address) < 0 ? NULL : get_node(m, text)->node;
}

/* Returns the only node with the port (":7000"); NULL: no node has it, or several have it. */
static const struct slot_map_node *find_port(const struct slot_map *m, struct slice port)
{
	const struct slot_map_node *found = NULL;

	for (size_t i = 0; i < m->nnodes; i++) {
		if (!slice_eq(slice_str(strrchr(m->nodes[i].address, ':')), port))
			continue;
		if (found)
			return NULL;
		found = &m->nodes[i];
	}
	return found;
}

struct node *slot_map_named(const struct slot_map *m, const struct node *asked,
                            struct slice error)
{
	const char *there = slot_map_address(m, asked);
	struct slice word, slot, address;
	const struct slot_map_node *found;
	char text[ADDRESS_MAX], whole[ADDRESS_MAX];

	if (!slice_cut(&error, ' ', &word) || !slice_cut(&error, ' ', &slot) ||
	    !slice_cut(&error, ' ', &address) || address.n == 0)
		return NULL;
	if (!slice_eq(word, SLICE_LIT("MOVED")) && !slice_eq(word, SLICE_LIT("ASK")))
		return NULL;
	if (slice_starts(address, SLICE_LIT("?:"))) {
		found = find_port(m, slice_of(address.p + 1, address.n - 1));
		return found ? found->node : NULL;
	}
	if (address.p[0] == ':' && there) {
		snprintf(whole, sizeof(whole), "%.*s%.*s", (int)(strrchr(there, ':') - there),
		         there, (int)address.n, address.p);
		address = slice_str(whole);
	}
	if (copy_address(text, sizeof(text), address) < 0)
		return NULL;
	found = slot_map_find_address(m, text);
	return found ? found->node : NULL;
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
	for (size_t i = 0; i < m->nnodes; i++)
		m->nodes[i].importing = false;
}

struct slot_range {
	long long first, last;
	char address[ADDRESS_MAX]; /* address of the primary */
};

/* Reads a range of the reply: first, last, primary [host, port, ...], replicas. Returns false
 * if it is invalid. */
static bool read_range(const redisReply *range, const char *asked, struct slot_range *r)
{
	const redisReply *primary;
	const char *host = asked;

	if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
	    range->element[0]->type != REDIS_REPLY_INTEGER ||
	    range->element[1]->type != REDIS_REPLY_INTEGER)
		return false;
	r->first = range->element[0]->integer;
	r->last = range->element[1]->integer;
	primary = range->element[2];
	if (r->first < 0 || r->last >= SLOTS || r->first > r->last ||
	    primary->type != REDIS_REPLY_ARRAY || primary->elements < 2 ||
	    primary->element[1]->type != REDIS_REPLY_INTEGER)
		return false;
	/* A node that does not know its own address leaves the host out. */
	if (primary->element[0]->type == REDIS_REPLY_STRING && primary->element[0]->len)
		host = primary->element[0]->str;
	/* If `?` stands for a host name, Redis adds metadata with the IP address. */
	if (strcmp(host, "?") == 0)
		host = reply_value(primary->elements > 3 ? primary->element[3] : NULL, "ip");
	if (!host || !*host)
		host = asked;
	return write_address(r->address, sizeof(r->address), host, strlen(host),
	                     primary->element[1]->integer) == 0;
}

/* True if there is a range, no slot is in two ranges, and there are not too many primaries. */
static bool is_possible(const struct slot_range *ranges, size_t n)
{
	const char *addresses[PRIMARIES_MAX];
	bool taken[SLOTS] = { false };
	size_t naddresses = 0, k;

	for (size_t i = 0; i < n; i++) {
		for (long long slot = ranges[i].first; slot <= ranges[i].last; slot++) {
			if (taken[slot])
				return false;
			taken[slot] = true;
		}
		for (k = 0; k < naddresses; k++)
			if (strcmp(addresses[k], ranges[i].address) == 0)
				break;
		if (k == PRIMARIES_MAX)
			return false;
		if (k == naddresses)
			addresses[naddresses++] = ranges[i].address;
	}
	return n > 0;
}

static void use_ranges(struct slot_map *m, const struct slot_range *ranges, size_t n)
{
	for (size_t i = 0; i < m->nnodes; i++)
		m->nodes[i].named = false;
	for (size_t i = 0; i < n; i++) {
		struct slot_map_node *named = get_node(m, ranges[i].address);

		named->named = true;
		for (long long slot = ranges[i].first; slot <= ranges[i].last; slot++)
			slot_map_move(m, (unsigned)slot, named->node);
	}
}

/* Keeps the primaries that the reply does not name but that still have slots: a node that has
 * just joined the cluster knows only a part of it. */
static void keep_unreplaced(struct slot_map *m)
{
	const struct node *last = NULL;

	if (m->nnodes > PRIMARIES_MAX)
		return;
	for (size_t slot = 0; slot < SLOTS; slot++) {
		if (!m->slots[slot] || m->slots[slot] == last)
			continue;
		last = m->slots[slot];
		slot_map_find(m, last)->named = true;
	}
}

int slot_map_read(struct slot_map *m, const redisReply *slots, const char *asked)
{
	struct slot_range *ranges;
	size_t n = 0;
	bool possible;

	if (slots->type != REDIS_REPLY_ARRAY || slots->elements > SLOTS)
		return -1;
	ranges = xcalloc(slots->elements + 1, sizeof(*ranges));
	for (size_t i = 0; i < slots->elements; i++)
		n += read_range(slots->element[i], asked, &ranges[n]);
	possible = is_possible(ranges, n);
	if (possible)
		use_ranges(m, ranges, n);
	free(ranges);
	if (!possible)
		return -1;
	keep_unreplaced(m);
	for (size_t i = m->nnodes; i-- > 0;) {
		if (m->nodes[i].named || m->nodes[i].importing)
			continue;
		m->version++;
		drop_node(m, i);
	}
	return 0;
}

/* --- CLUSTER NODES ------------------------------------------------------------------------ */

/* A line of the reply: ID HOST:PORT@BUS[,NAME,...] FLAGS PRIMARY PING PONG EPOCH STATE
 * SLOT... */
struct nodes_line {
	struct slice id, host;
	struct slice name; /* host name that the node announces; empty: none */
	long long port;
	bool is_asked; /* has the flag `myself`: the line describes the answering node */
	struct slice slots; /* the words from the first slot to the end */
};

/* Cuts the next line off `rest`. Returns false if it describes no node. */
static bool cut_line(struct slice *rest, struct nodes_line *l)
{
	struct slice line, word, port = SLICE_NONE;

	*l = (struct nodes_line){ .port = 0 };
	(void)slice_cut(rest, '\n', &line);
	if (!slice_cut(&line, ' ', &l->id) || !slice_cut(&line, ' ', &l->host) ||
	    !slice_cut(&line, ' ', &word))
		return false;
	for (struct slice flag; slice_cut(&word, ',', &flag);)
		l->is_asked |= slice_eq(flag, SLICE_LIT("myself"));
	/* Skip five words, from PRIMARY to STATE. */
	for (int skipped = 0; skipped < 5; skipped++)
		(void)slice_cut(&line, ' ', &word);
	l->slots = line;
	word = l->host;
	(void)slice_cut(&word, '@', &l->host);
	(void)slice_cut(&word, ',', &port);
	(void)slice_cut(&word, ',', &l->name);
	if (memchr(l->name.p ? l->name.p : "", '=', l->name.n))
		l->name = SLICE_NONE;
	for (size_t i = l->host.n; i-- > 0;) {
		if (l->host.p[i] != ':')
			continue;
		l->port = strtoll(l->host.p + i + 1, NULL, 10);
		l->host.n = i;
		return true;
	}
	return false;
}

/* The value of Redis' cluster-preferred-endpoint-type: which host CLUSTER SLOTS names for a
 * node. This is its IP address, its host name, or none, which means the host that was asked. */
enum endpoint { ENDPOINT_HOST, ENDPOINT_NAME, ENDPOINT_ASKED };

static int line_address(const struct nodes_line *l, enum endpoint kind, const char *asked,
                        char *out, size_t size)
{
	struct slice host = kind == ENDPOINT_HOST   ? l->host
	                    : kind == ENDPOINT_NAME ? l->name
	                                            : slice_str(asked);

	return write_address(out, size, host.p, host.n, l->port);
}

/* Finds the endpoint type by which the map has the address of the answering node; `l`: its
 * line. */
static enum endpoint endpoint_of(const struct slot_map *m, const struct nodes_line *l,
                                 const char *asked)
{
	char text[ADDRESS_MAX];

	for (int kind = ENDPOINT_HOST; kind <= ENDPOINT_ASKED; kind++)
		if (line_address(l, (enum endpoint)kind, asked, text, sizeof(text)) == 0 &&
		    slot_map_find_address(m, text))
			return (enum endpoint)kind;
	return ENDPOINT_HOST;
}

static void add_importing(struct slot_map *m, const char *nodes, struct slice id,
                          enum endpoint kind, const char *asked)
{
	struct slice rest = slice_str(nodes);
	struct nodes_line l;
	char text[ADDRESS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < m->nnodes; i++)
		n += m->nodes[i].importing;
	while (rest.n && n < IMPORTING_MAX)
		if (cut_line(&rest, &l) && slice_eq(l.id, id) &&
		    line_address(&l, kind, asked, text, sizeof(text)) == 0)
			get_node(m, text)->importing = true;
}

/* Records a migration: [SLOT->-ID], the slot moves to the node ID; or [SLOT-<-ID], the
 * answering node gets the slot from ID. Returns the ID in the first case, else SLICE_NONE. */
static struct slice read_migrating(struct slot_map *m, struct slice word)
{
	char *end;
	long slot;

	if (word.n < 5 || word.p[0] != '[' || word.p[word.n - 1] != ']')
		return SLICE_NONE;
	slot = strtol(word.p + 1, &end, 10);
	if (slot < 0 || slot >= SLOTS || end[0] != '-' || end + 4 > word.p + word.n)
		return SLICE_NONE;
	slot_map_note_migrating(m, (unsigned)slot);
	if (end[1] != '>')
		return SLICE_NONE;
	return slice_of(end + 3, (size_t)(word.p + word.n - 1 - end - 3));
}

void slot_map_read_migrating(struct slot_map *m, const char *nodes, const char *asked)
{
	struct slice rest = slice_str(nodes), word, id, last = SLICE_NONE;
	struct nodes_line l;
	enum endpoint kind;
	size_t nlookups = 0;

	while (rest.n) {
		if (!cut_line(&rest, &l) || !l.is_asked)
			continue;
		kind = endpoint_of(m, &l, asked);
		while (slice_cut(&l.slots, ' ', &word)) {
			id = read_migrating(m, word);
			if (id.n == 0 || slice_eq(id, last) || nlookups == IMPORTING_MAX)
				continue;
			nlookups++;
			last = id;
			add_importing(m, nodes, id, kind, asked);
		}
	}
}

/* --- the primaries ------------------------------------------------------------------------ */

/* Returns the primary in `v`; NULL: it is not there. */
static struct primary *find_primary(struct primary *v, size_t n, const struct node *node)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].node == node)
			return &v[i];
	return NULL;
}

/* Returns the node's lowest slot from `slot` on; SLOTS: it has none. */
static unsigned next_slot(const struct slot_map *m, const struct node *n, unsigned slot)
{
	while (slot < SLOTS && slot_map_node(m, slot) != n)
		slot++;
	return slot;
}

static int compare_slots(const void *a, const void *b)
{
	return ((const struct primary *)a)->slot - ((const struct primary *)b)->slot;
}

void primaries_update(struct primaries *p, const struct slot_map *m)
{
	struct primary *before = p->v;
	const struct node *last = NULL;
	size_t nbefore = before ? p->n : 0;

	if (p->v && p->version == m->version)
		return;
	p->v = xcalloc(m->nnodes + 1, sizeof(*p->v));
	p->n = 0;
	p->version = m->version;
	for (unsigned slot = 0; slot < SLOTS; slot++) {
		const struct node *n = slot_map_node(m, slot);
		const struct primary *was;
		unsigned kept = SLOTS;

		if (!n || n == last)
			continue;
		last = n;
		if (find_primary(p->v, p->n, n))
			continue;
		was = find_primary(before, nbefore, n);
		if (was)
			kept = next_slot(m, n, was->slot);
		p->v[p->n++] = (struct primary){ n, (uint16_t)(kept < SLOTS ? kept : slot) };
	}
	free(before);
	qsort(p->v, p->n, sizeof(*p->v), compare_slots);
}

const struct primary *primaries_after(const struct primaries *p, uint16_t slot)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].slot > slot)
			return &p->v[i];
	return NULL;
}

void primaries_fini(struct primaries *p)
{
	free(p->v);
	*p = (struct primaries){ 0 };
}
