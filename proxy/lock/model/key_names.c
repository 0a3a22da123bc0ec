/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/model/key_names.h"

#include <string.h>

#include "upstream/slot.h"

static const struct slice prefixes[] = {
	[KEY_NAME_OWNER] = { "hasp:owner:", sizeof("hasp:owner:") - 1 },
	[KEY_NAME_QUEUE] = { "hasp:queue:", sizeof("hasp:queue:") - 1 },
	[KEY_NAME_FENCE] = { "hasp:fence:", sizeof("hasp:fence:") - 1 },
	[KEY_NAME_GUARD] = { "hasp:guard:", sizeof("hasp:guard:") - 1 },
};

/* All prefixes are as long as this one. */
#define PREFIX_LEN (sizeof("hasp:owner:") - 1)

/* How many bytes a name may have between its prefix and the key. */
#define BEFORE_MAX (SLOT_TAG_LEN + 2)

/* How many bytes put_name() may write besides the key's. */
#define KEY_NAME_SPACE ((size_t)20)
_Static_assert(PREFIX_LEN + BEFORE_MAX + 1 <= KEY_NAME_SPACE, "all names fit");

struct affixes {
	char before[BEFORE_MAX];
	unsigned char nbefore;
	char behind;
};

static const struct affixes tagged = { "", 0, ':' };
static const struct affixes braced = { "{", 1, '}' };

static struct affixes slotted(struct slice key)
{
	struct affixes a = { "{...}", BEFORE_MAX, '!' };

	memcpy(a.before + 1, slot_tag(slot_of_key(key)).p, SLOT_TAG_LEN);
	return a;
}

static bool has_hash_tag(struct slice key)
{
	return slot_hashed_part(key).p != key.p;
}

/* True if a key without a hash tag becomes one when braces are put around it. */
static bool can_be_braced(struct slice key)
{
	return key.n && !memchr(key.p, '}', key.n);
}

static inline bool has_brace(struct slice key)
{
	return key.n && memchr(key.p, '{', key.n);
}

static struct affixes affixes_of(enum key_naming naming, struct slice key)
{
	if (has_hash_tag(key))
		return tagged;
	if (naming == KEY_NAMING_CLUSTER && !can_be_braced(key))
		return slotted(key);
	return braced;
}

uint16_t key_names_slot(enum key_naming naming, struct slice key)
{
	return naming == KEY_NAMING_CLUSTER ? slot_of_key(key) : 0;
}

static inline char *put_prefix(char *p, struct slice prefix)
{
	memcpy(p, prefix.p, PREFIX_LEN);
	return p + PREFIX_LEN;
}

/* The length of a name in bytes. */
static size_t name_len(struct slice prefix, const struct affixes *a, size_t len)
{
	return prefix.n + a->nbefore + len + 1;
}

/* Writes the name. Returns its end. */
static inline char *put_name(char *p, struct slice prefix, const struct affixes *a,
                             struct slice key)
{
	p = put_prefix(p, prefix);
	/* (Copies the whole array: a copy of constant length is one instruction.) */
	memcpy(p, a->before, sizeof(a->before));
	p += a->nbefore;
	if (key.n)
		memcpy(p, key.p, key.n);
	p += key.n;
	*p++ = a->behind;
	return p;
}

void key_names_write(struct buf *out, enum key_naming naming, enum key_name kind,
                     struct slice key)
{
	struct affixes a = affixes_of(naming, key);
	char *p = buf_reserve(out, KEY_NAME_SPACE + key.n);

	buf_added_to(out, put_name(p, prefixes[kind], &a, key));
}

/* The counter's name on a server, as a bulk. */
#define COUNTER_BULK "$10\r\n" KEY_NAME_FENCE_COUNTER "\r\n"
#define COUNTER_BULK_LEN (sizeof(COUNTER_BULK) - 1)
_Static_assert(sizeof(KEY_NAME_FENCE_COUNTER) - 1 == 10, "its length");

/* Inlined, so that the compiler knows the constant parts of `a`. */
__attribute__((always_inline)) static inline char *put_bulks(char *p, const struct affixes *a,
                                                             struct slice key,
                                                             const enum key_name *kinds,
                                                             size_t n)
{
	size_t header = 0, len = 0;
	char *last = NULL;

	for (size_t i = 0; i < n; i++) {
		char *bulk = p, *name;
		if (kinds[i] == KEY_NAME_COUNTER) {
			memcpy(p, COUNTER_BULK, COUNTER_BULK_LEN);
			p += COUNTER_BULK_LEN;
			continue;
		}
		if (last) {
			/* The name differs from the last one in the prefix only. */
			memcpy(p, last, len);
			put_prefix(p + header, prefixes[kinds[i]]);
			p += len;
			continue;
		}
		name = resp_put_header(p, '$', name_len(prefixes[kinds[i]], a, key.n));
		p = resp_put_end(put_name(name, prefixes[kinds[i]], a, key));
		header = (size_t)(name - bulk);
		len = (size_t)(p - bulk);
		last = bulk;
	}
	return p;
}

/* Writes the name of a key that exists once in each slot: `name`, and in a cluster the slot's
 * tag. */
static char *put_slot_name(char *p, enum key_naming naming, struct slice name, struct slice key)
{
	struct affixes a = naming == KEY_NAMING_SERVER ? braced : slotted(key);
	size_t ntag = naming == KEY_NAMING_SERVER ? 0 : sizeof(a.before);

	p = resp_put_header(p, '$', name.n + ntag);
	memcpy(p, name.p, name.n);
	memcpy(p + name.n, a.before, ntag);
	return resp_put_end(p + name.n + ntag);
}

size_t key_names_space(struct slice key, size_t n)
{
	return n * (RESP_BULK_SPACE + KEY_NAME_SPACE + key.n);
}

char *key_names_put_bulks(char *p, enum key_naming naming, struct slice key,
                          const enum key_name *kinds, size_t n)
{
	struct affixes a;

	/* Most keys have no brace. */
	if (naming == KEY_NAMING_SERVER && !has_brace(key))
		return put_bulks(p, &braced, key, kinds, n);
	a = affixes_of(naming, key);
	for (size_t i = 0; i < n; i++)
		if (kinds[i] == KEY_NAME_COUNTER && naming == KEY_NAMING_CLUSTER)
			p = put_slot_name(p, naming, SLICE_LIT(KEY_NAME_FENCE_COUNTER), key);
		else
			p = put_bulks(p, &a, key, &kinds[i], 1);
	return p;
}

void key_names_write_bulks(struct buf *out, enum key_naming naming, struct slice key,
                           const enum key_name *kinds, size_t n)
{
	char *p = buf_reserve(out, key_names_space(key, n));

	buf_added_to(out, key_names_put_bulks(p, naming, key, kinds, n));
}

void key_names_write_bulk(struct buf *out, enum key_naming naming, enum key_name kind,
                          struct slice key)
{
	key_names_write_bulks(out, naming, key, &kind, 1);
}

/* Returns the affixes of the name of a guard's queue. The queue's name has the guard's name in
 * place of a lock's key. A guard's name has a hash tag, except for `hasp:guard:{}` and
 * `hasp:guard:{}...}`. */
static const struct affixes *queue_affixes(const struct affixes *guard, struct slice key)
{
	if (guard->behind == '}' && (key.n == 0 || *key.p == '}'))
		return &braced;
	return &tagged;
}

__attribute__((always_inline)) static inline char *put_guard_queue(char *p,
                                                                   const struct affixes *inner,
                                                                   const struct affixes *outer,
                                                                   struct slice key)
{
	struct slice queue = prefixes[KEY_NAME_QUEUE], guard = prefixes[KEY_NAME_GUARD];
	size_t len = name_len(guard, inner, key.n);

	p = resp_put_header(p, '$', name_len(queue, outer, len));
	p = put_prefix(p, queue);
	memcpy(p, outer->before, outer->nbefore);
	p = put_name(p + outer->nbefore, guard, inner, key);
	*p++ = outer->behind;
	return resp_put_end(p);
}

char *key_names_put_guard_queue_bulk(char *p, enum key_naming naming, struct slice key)
{
	struct affixes inner;

	if (naming == KEY_NAMING_SERVER && key.n && *key.p != '}' && !has_brace(key))
		return put_guard_queue(p, &braced, &tagged, key);
	inner = affixes_of(naming, key);
	return put_guard_queue(p, &inner, queue_affixes(&inner, key), key);
}

void key_names_write_ack_bulk(struct buf *out, enum key_naming naming, struct slice key)
{
	char *p = buf_reserve(out, key_names_space(key, 1));

	buf_added_to(out, put_slot_name(p, naming, SLICE_LIT(KEY_NAME_ACK), key));
}
