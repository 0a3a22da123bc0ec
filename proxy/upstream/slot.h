/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slot: computes which of a cluster's 16,384 hash slots a key is in. The slot is the CRC16 of
 * the key, or of its hash tag: the bytes between the first `{` and the first `}` after it, if
 * there are any. Source: https://redis.io/docs/reference/cluster-spec/ ("Hash tags", "Appendix
 * A"), and keyHashSlot() of Redis.
 */
#ifndef HASP_UPSTREAM_SLOT_H
#define HASP_UPSTREAM_SLOT_H

#include <stdint.h>

#include "base/slice.h"

#define SLOTS 16384

/* Returns the slot of `key`, below SLOTS. */
uint16_t slot_of_key(struct slice key);

/* Returns the hash tag of `key`, without its braces; the whole key if it has none. */
struct slice slot_hashed_part(struct slice key);

/* Length of a string that slot_tag() returns, in bytes. */
#define SLOT_TAG_LEN 3

/* Returns a text of letters and digits that is in this slot. If a key cannot be a hash tag,
 * because it has a `}` or is empty, hasp's own keys for that key have this text as hash tag.
 * The texts must never change, because other hasps use them. Never freed. From any thread. */
struct slice slot_tag(uint16_t slot);

#endif
