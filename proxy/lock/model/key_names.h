/* SPDX-License-Identifier: BSD-3-Clause
 *
 * key_names: the names of the keys that hasp keeps beside a lock. What these keys hold, the
 * scripts say.
 *
 *   lock key       owner                  record                 queue
 *   job            hasp:owner:{job}       hasp:fence:{job}       hasp:queue:{job}
 *   {app}:job      hasp:owner:{app}:job:  hasp:fence:{app}:job:  hasp:queue:{app}:job:
 *
 * In a cluster they hash to the lock's slot, with one exception that no name can cure: a key
 * that has a `}` but no hash tag (`a}b`, `{}a`), and the empty key. No two locks share a name:
 * the first form ends in `}`, the second in `:`.
 *
 * Source: https://redis.io/docs/reference/cluster-spec/#hash-tags
 */
#ifndef HASP_LOCK_MODEL_KEY_NAMES_H
#define HASP_LOCK_MODEL_KEY_NAMES_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

enum key_name {
	/* Of a rule's lock `<token> <value>`; of a verb's lock the tickets by which its owner
	 * took it again. */
	KEY_NAME_OWNER,
	/* The record of the last grant: `<token> <fencing token or -> <ticket>`. */
	KEY_NAME_FENCE,
	/* The tries that wait for the lock, in order. */
	KEY_NAME_QUEUE,
	/* Of a guarded key: the token of the owner that may write it. It is a lock by itself,
	 * and has a queue of its own. */
	KEY_NAME_GUARD,
	/* Of a guarded key: the owners shared by several connections that have read it and not
	 * written it. */
	KEY_NAME_READERS,
};

/* The counter that every fencing token comes from. */
#define KEY_NAME_FENCE_COUNTER "hasp:fence"

/* Whether Redis Cluster hashes only a part of the key: what is between the first `{` and the
 * first `}` behind it, unless that is nothing. */
bool key_names_has_tag(struct slice key);

/* Appends the name. */
void key_names_write(struct buf *out, enum key_name kind, struct slice key);

/* Appends `n` names of the same key, each as a RESP bulk. */
void key_names_write_bulks(struct buf *out, struct slice key, const enum key_name *kinds,
                           size_t n);
/* One. */
static inline void key_names_write_bulk(struct buf *out, enum key_name kind, struct slice key)
{
	key_names_write_bulks(out, key, &kind, 1);
}

/* The name of the queue of the key's guard, as a bulk. */
void key_names_write_guard_queue_bulk(struct buf *out, struct slice key);

#endif
