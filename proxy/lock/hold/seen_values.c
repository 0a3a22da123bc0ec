/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/hold/seen_values.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/list.h"
#include "base/map.h"
#include "lock/model/lock_id.h"
#include "resp/reply.h"

/* How many reads of a connection hasp remembers if it needs only the times of the reads. */
#define READS_KEPT 8

struct seen_read {
	/* lock_id_hash(). (If two keys have the same hash, hasp takes a read of one for a read
	 * of the other. Only a hint in the log depends on that.) */
	uint64_t hash;
	double at;
};

struct seen_values {
	struct map by_id; /* entries by database and key */
	struct list entries; /* entries, the oldest first */
	size_t nbytes; /* memory of all entries, in bytes */
	size_t nreads; /* number of noted reads; read i is at reads[i % READS_KEPT] */
	struct seen_read reads[READS_KEPT];
};

/* The bytes of the id and the value follow the struct. */
struct seen_entry {
	struct map_node by_id;
	struct list node;
	enum seen_value what;
	struct slice value;
};

static size_t entry_nbytes(const struct seen_entry *e)
{
	return sizeof(*e) + e->by_id.key.n + e->value.n;
}

static void entry_remove(struct seen_values *all, struct seen_entry *e)
{
	all->nbytes -= entry_nbytes(e);
	map_remove(&all->by_id, &e->by_id);
	list_remove(&e->node);
	free(e);
}

static struct seen_entry *find(const struct seen_values *all, int db, struct slice key)
{
	struct buf id = BUF_INIT;
	struct map_node *node = map_get(&all->by_id, lock_id_write(&id, db, key));

	buf_release(&id);
	return node ? container_of(node, struct seen_entry, by_id) : NULL;
}

static struct seen_values *seen_values_new(void)
{
	struct seen_values *all = xcalloc(1, sizeof(*all));

	map_init(&all->by_id);
	list_init(&all->entries);
	return all;
}

static void add_entry(struct seen_values *all, int db, struct slice key, enum seen_value what,
                      struct slice value)
{
	struct buf id = BUF_INIT;
	struct slice name = lock_id_write(&id, db, key);
	struct seen_entry *e = xmalloc(sizeof(*e) + name.n + value.n);
	char *bytes = (char *)(e + 1);

	memcpy(bytes, name.p, name.n);
	if (value.n)
		memcpy(bytes + name.n, value.p, value.n);
	*e = (struct seen_entry){
		.by_id.key = slice_of(bytes, name.n),
		.what = what,
		.value = slice_of(bytes + name.n, value.n),
	};
	buf_release(&id);
	map_put(&all->by_id, &e->by_id);
	list_append(&all->entries, &e->node);
	all->nbytes += entry_nbytes(e);
}

void seen_values_put(struct seen_values **all, int db, struct slice key, enum seen_value what,
                     struct slice value)
{
	struct seen_entry *e = *all ? find(*all, db, key) : NULL;

	if (e)
		entry_remove(*all, e);
	/* (The scripts take an empty token for none, and would compare nothing.) */
	if (what == SEEN_NOTHING || (what == SEEN_VALUE && value.n == 0) ||
	    value.n > SEEN_VALUE_MAX || key.n > SEEN_VALUES_BYTES / 2)
		return;
	if (!*all)
		*all = seen_values_new();
	add_entry(*all, db, key, what, value);
	while ((*all)->by_id.n > SEEN_VALUES_MAX || (*all)->nbytes > SEEN_VALUES_BYTES)
		entry_remove(*all, list_take(&(*all)->entries, struct seen_entry, node));
}

enum seen_value seen_values_find(const struct seen_values *all, int db, struct slice key,
                                 struct slice *value)
{
	const struct seen_entry *e = all ? find(all, db, key) : NULL;

	if (!e)
		return SEEN_NOTHING;
	*value = e->value;
	return e->what;
}

void seen_values_each(const struct seen_values *all, seen_values_fn *fn, void *arg)
{
	if (!all)
		return;
	list_each (const struct seen_entry, e, &all->entries, node) {
		fn(arg, lock_id_db(e->by_id.key), lock_id_key(e->by_id.key), e->what, e->value);
	}
}

/* Returns the index of the read with this hash; READS_KEPT: there is none. */
static size_t find_noted(const struct seen_values *all, uint64_t hash)
{
	for (size_t i = 0; i < READS_KEPT && i < all->nreads; i++)
		if (all->reads[i].hash == hash)
			return i;
	return READS_KEPT;
}

void seen_values_note_read(struct seen_values **all, int db, struct slice key, double at)
{
	uint64_t hash = lock_id_hash(db, key);
	size_t i;

	if (!*all)
		*all = seen_values_new();
	i = find_noted(*all, hash);
	if (i == READS_KEPT)
		i = (*all)->nreads++ % READS_KEPT;
	(*all)->reads[i] = (struct seen_read){ hash, at };
}

double seen_values_read_at(const struct seen_values *all, int db, struct slice key)
{
	size_t i = all && all->nreads ? find_noted(all, lock_id_hash(db, key)) : READS_KEPT;

	return i < READS_KEPT ? all->reads[i].at : -1;
}

size_t seen_values_nbytes(const struct seen_values *all)
{
	if (!all)
		return 0;
	return sizeof(*all) + map_nbytes(&all->by_id) + all->nbytes;
}

void seen_values_free(struct seen_values *all)
{
	if (!all)
		return;
	list_drain (struct seen_entry, e, &all->entries, node)
		entry_remove(all, e);
	map_fini(&all->by_id);
	free(all);
}

/* --- reads whose replies are due --------------------------------------------------------- */

struct value_read {
	bool each;
	struct buf keys; /* for each key: its index and length, as size_t, and its bytes */
};

struct value_read *value_read_new(bool each)
{
	struct value_read *r = xcalloc(1, sizeof(*r));

	r->each = each;
	return r;
}

size_t value_read_nbytes(const struct value_read *r)
{
	return sizeof(*r) + buf_len(&r->keys);
}

void value_read_free(struct value_read *r)
{
	if (!r)
		return;
	buf_release(&r->keys);
	free(r);
}

void value_read_add(struct value_read *r, size_t i, struct slice key)
{
	size_t head[2] = { i, key.n };

	buf_append(&r->keys, slice_of((const char *)head, sizeof(head)));
	buf_append(&r->keys, key);
}

/* Takes the next key off `rest`. */
static struct slice next_key(struct slice *rest, size_t *i)
{
	size_t head[2];
	struct slice key;

	memcpy(head, rest->p, sizeof(head));
	*i = head[0];
	key = slice_of(rest->p + sizeof(head), head[1]);
	*rest = slice_of(key.p + key.n, rest->n - sizeof(head) - key.n);
	return key;
}

/* Notes the value in `frame`, a whole reply. Anything but a string is no value. */
static void put_frame(struct seen_values **all, int db, struct slice key, struct slice frame)
{
	const char *end = memchr(frame.p, '\n', frame.n);
	size_t head = end ? (size_t)(end - frame.p) + 1 : frame.n;
	bool known = frame.p[0] == '$' && frame.n >= head + 2;

	seen_values_put(all, db, key, known ? SEEN_VALUE : SEEN_NOTHING,
	                known ? slice_of(frame.p + head, frame.n - head - 2) : SLICE_NONE);
}

static void put_each(struct slice keys, struct seen_values **all, int db, struct slice frame)
{
	struct slice elements = reply_elements(frame), at = elements;
	struct resp_reply reply;
	size_t ntaken = 0, i;

	while (keys.n) {
		struct slice key = next_key(&keys, &i);
		for (; ntaken <= i; ntaken++) {
			at = elements;
			if (!reply_next(&elements, &reply))
				return;
		}
		put_frame(all, db, key, slice_of(at.p, at.n - elements.n));
	}
}

void value_read_complete(const struct value_read *r, struct seen_values **all, int db,
                         struct slice frame)
{
	struct slice keys = buf_slice(&r->keys);
	size_t i;

	if (keys.n == 0 || db < 0 || frame.n == 0 || frame.p[0] == '-' || frame.p[0] == '!')
		return;
	if (r->each)
		put_each(keys, all, db, frame);
	else
		put_frame(all, db, next_key(&keys, &i), frame);
}
