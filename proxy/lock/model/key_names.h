/* SPDX-License-Identifier: BSD-3-Clause
 *
 * key_names: the names of the keys that hasp keeps beside a lock.
 *
 *   lock key       owner                  record                 queue
 *   job            hasp:owner:{job}       hasp:fence:{job}       hasp:queue:{job}
 *   {app}:job      hasp:owner:{app}:job:  hasp:fence:{app}:job:  hasp:queue:{app}:job:
 *
 * In a cluster, these names hash to the same slot as the lock. For the empty key, and for a key
 * with a `}` but no hash tag (`a}b`, `{}a`), braces around the key would be no tag, or a
 * different tag. In a cluster, the names beside such a key have a tag that hashes to the key's
 * slot, and each slot has a counter of its own:
 *
 *   a}b            hasp:owner:{4w2}a}b!                          the counter: hasp:fence{4w2}
 *
 * No two locks share a name: the first form ends in `}`, the second in `:`, the third in `!`.
 *
 * Source: https://redis.io/docs/reference/cluster-spec/#hash-tags
 */
#ifndef HASP_LOCK_MODEL_KEY_NAMES_H
#define HASP_LOCK_MODEL_KEY_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "resp/write.h"

enum key_name {
	/* For a rule's lock: `<token> <value>`. For a verbs' lock: the tickets of the tries by
	 * which its owner has taken the lock again. */
	KEY_NAME_OWNER,
	/* The record of the last grant: `<token> <fencing token or -> <ticket>`. */
	KEY_NAME_FENCE,
	/* The tries that wait for the lock, in order. */
	KEY_NAME_QUEUE,
	/* The guard of a key: the token of the owner that may write the key. The guard is a
	 * lock, and has a queue of its own. */
	KEY_NAME_GUARD,
	/* The counter of the fencing tokens, which many locks share. */
	KEY_NAME_COUNTER,
};

/* How hasp names the keys. Two versions of hasp at one server must use the same names, so a
 * cluster's names differ only where the cluster needs it. */
enum key_naming {
	KEY_NAMING_SERVER, /* names without a slot's tag, and one counter for all locks */
	KEY_NAMING_CLUSTER,
};

/* Returns the key's slot: one call may name only keys of one slot. On a server all keys are in
 * slot 0. */
uint16_t key_names_slot(enum key_naming naming, struct slice key);

/* The counter of the fencing tokens on a server; in a cluster the slot's tag follows. */
#define KEY_NAME_FENCE_COUNTER "hasp:fence"

/* Appends the name of a key beside `key`, of any kind but the counter. */
void key_names_write(struct buf *out, enum key_naming naming, enum key_name kind,
                     struct slice key);

/* Writes the `n` names that belong to one key to `p`, each as a RESP bulk. Returns the end of
 * the bytes. The names take at most key_names_space() bytes. */
char *key_names_put_bulks(char *p, enum key_naming naming, struct slice key,
                          const enum key_name *kinds, size_t n);
size_t key_names_space(struct slice key, size_t n);

/* Appends `n` names of the same key, each as a RESP bulk. */
void key_names_write_bulks(struct buf *out, enum key_naming naming, struct slice key,
                           const enum key_name *kinds, size_t n);
/* Appends one name as a RESP bulk. */
void key_names_write_bulk(struct buf *out, enum key_naming naming, enum key_name kind,
                          struct slice key);

/* Writes the name of the queue of the key's guard to `p`, as a RESP bulk, and returns the end
 * of the bytes. They take at most the space of two names. */
char *key_names_put_guard_queue_bulk(char *p, enum key_naming naming, struct slice key);

/* hasp writes this key before WAIT, so that WAIT has a write to wait for. A server has one such
 * key; in a cluster, each slot has one. */
#define KEY_NAME_ACK "hasp:ack"
void key_names_write_ack_bulk(struct buf *out, enum key_naming naming, struct slice key);

#endif
