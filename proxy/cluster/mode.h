/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mode: changes fields in which a server says that it is part of a cluster, because clients
 * would then look for the other nodes: `mode` of HELLO; `redis_mode` (Valkey: `server_mode`)
 * and `cluster_enabled` of INFO. Also changes the id of the client's connection, which each
 * node counts by itself.
 */
#ifndef HASP_CLUSTER_MODE_H
#define HASP_CLUSTER_MODE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* Appends a whole reply to HELLO or INFO, as a server gives it that is no cluster's. */
void mode_hide(struct slice reply, struct buf *out);

/* Appends a whole reply to CLIENT ID, CLIENT INFO or HELLO with `id` in place of the node's id.
 * A reply without an id stays as it is. */
void mode_replace_id(struct slice reply, uint64_t id, struct buf *out);

#endif
