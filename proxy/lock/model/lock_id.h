/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_id: names a lock in a worker's tables: its database and its key, as bytes.
 */
#ifndef HASP_LOCK_MODEL_LOCK_ID_H
#define HASP_LOCK_MODEL_LOCK_ID_H

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"

/* The number used in place of a database for locks that are at the servers of a quorum. */
#define LOCK_DB_QUORUM INT_MAX

/* Returns the database as logs and lists show it. */
static inline int lock_db_shown(int db)
{
	return db == LOCK_DB_QUORUM ? 0 : db;
}

/* Writes the id to `scratch`, in place of its old content; valid until `scratch` changes. */
static inline struct slice lock_id_write(struct buf *scratch, int db, struct slice key)
{
	char *p;

	buf_clear(scratch);
	p = buf_reserve(scratch, sizeof(db) + key.n);
	memcpy(p, &db, sizeof(db));
	if (key.n)
		memcpy(p + sizeof(db), key.p, key.n);
	buf_added(scratch, sizeof(db) + key.n);
	return slice_of(p, sizeof(db) + key.n);
}

static inline int lock_id_db(struct slice id)
{
	int db;

	memcpy(&db, id.p, sizeof(db));
	return db;
}

static inline struct slice lock_id_key(struct slice id)
{
	return slice_of(id.p + sizeof(int), id.n - sizeof(int));
}

static inline uint64_t lock_id_hash_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / the golden ratio */
	return hash ^ hash >> 32;
}

/* Returns the hash of the bytes whose hash is `hash`, followed by `s`. Without a secret, so
 * that all workers compute the same. Use it only where names that collide do no harm. */
static inline uint64_t lock_id_hash_more(uint64_t hash, struct slice s)
{
	uint64_t word = 0;

	/* The length shows where one slice ends and the next begins. */
	hash = lock_id_hash_word(hash, s.n);
	for (size_t i = 0; i + sizeof(word) <= s.n; i += sizeof(word)) {
		memcpy(&word, s.p + i, sizeof(word));
		hash = lock_id_hash_word(hash, word);
	}
	/* The last word may contain bytes of the word before it. */
	if (s.n >= sizeof(word))
		memcpy(&word, s.p + s.n - sizeof(word), sizeof(word));
	else
		for (size_t i = 0; i < s.n; i++)
			word = word << 8 | (unsigned char)s.p[i];
	return lock_id_hash_word(hash, word);
}

static inline uint64_t lock_id_hash(int db, struct slice key)
{
	return lock_id_hash_more((uint64_t)db, key);
}

#endif
