/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sidecar: the names of the keys that hasp keeps beside a lock. Pure naming;
 * what they hold is the scripts' business.
 *
 *   lock key       sidecar                record                 queue
 *   job            hasp:owner:{job}       hasp:fence:{job}       hasp:queue:{job}
 *   {app}:job      hasp:owner:{app}:job:  hasp:fence:{app}:job:  hasp:queue:{app}:job:
 *
 * In a cluster they hash to the lock's slot, with one exception that no name can
 * cure: a key that has a `}` but no hash tag (`a}b`, `{}a`), and the empty key.
 * No two locks share a name: the first form ends in `}`, the second in `:`.
 * Source: https://redis.io/docs/reference/cluster-spec/#hash-tags
 */
#ifndef HASP_LOCK_MODEL_KEY_NAMES_H
#define HASP_LOCK_MODEL_KEY_NAMES_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

enum key_name {
	KEY_NAME_OWNER, /* `<token> <value>` of a rule's lock; of a verbs' one, the tickets by
	                  which its owner got it again */
	KEY_NAME_FENCE, /* the record: `<token> <fencing token or -> <ticket>` of who was let in
	                 */
	KEY_NAME_QUEUE, /* who waits for the lock, in order */
	KEY_NAME_GUARD, /* of a guarded key: the token of who may write it. It is a lock by
	                  itself, and has a queue of its own */
	KEY_NAME_READERS, /* of a guarded key: the owners that several connections share, who
	                    have read it and not written */
};

/* The counter that every fencing token comes from. */
#define KEY_NAME_FENCE_COUNTER "hasp:fence"

/* Whether Redis Cluster hashes only a part of the key: what is between the first
 * `{` and the first `}` behind it, unless that is nothing. */
bool key_names_has_tag(struct slice key);

/* Appends the sidecar's name. */
void key_names_write(struct buf *out, enum key_name kind, struct slice key);

/* The same as one RESP bulk. */
void key_names_write_bulk(struct buf *out, enum key_name kind, struct slice key);

/* The queue of the key's guard, as a bulk: the sidecar of a sidecar. */
void key_names_write_guard_queue_bulk(struct buf *out, struct slice key);

#endif
