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
#ifndef HASP_LOCK_SIDECAR_H
#define HASP_LOCK_SIDECAR_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

enum sidecar {
	SIDECAR_OWNER, /* `<token> <value>` of a rule's lock; of a verbs' one, the tickets by
	                  which its owner got it again */
	SIDECAR_FENCE, /* the record: `<token> <fencing token or -> <ticket>` of who was let in
	                */
	SIDECAR_QUEUE, /* who waits for the lock, in order */
	SIDECAR_GUARD, /* of a guarded key: the token of who may write it. It is a lock by
	                  itself, and has a queue of its own */
	SIDECAR_READERS, /* of a guarded key: the owners that several connections share, who
	                    have read it and not written */
};

/* The counter that every fencing token comes from. */
#define SIDECAR_FENCE_COUNTER "hasp:fence"

/* Whether Redis Cluster hashes only a part of the key: what is between the first
 * `{` and the first `}` behind it, unless that is nothing. */
bool sidecar_key_has_tag(struct slice key);

/* Appends the sidecar's name. */
void sidecar_write(struct buf *out, enum sidecar kind, struct slice key);

/* The same as one RESP bulk. */
void sidecar_write_bulk(struct buf *out, enum sidecar kind, struct slice key);

/* The queue of the key's guard, as a bulk: the sidecar of a sidecar. */
void sidecar_write_guard_queue_bulk(struct buf *out, struct slice key);

#endif
