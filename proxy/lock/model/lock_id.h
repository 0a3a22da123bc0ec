/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_id: names a lock in a worker's tables: its database and its key, as bytes.
 */
#ifndef HASP_LOCK_MODEL_LOCK_ID_H
#define HASP_LOCK_MODEL_LOCK_ID_H

#include <limits.h>
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

#endif
