/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scan_cursor: the cursor of a SCAN that goes through one primary of a cluster after the other.
 * To the client it is a number like Redis' own, below 2^63, with these parts:
 *
 *   62                                  20 19    14 13             0
 *   | the cursor of Redis at the node     | mark   | the node's slot |
 *
 * The lowest slot of a node identifies it, so that a replica which takes its place has the same
 * identity. SCAN visits the nodes by rising slot. A cursor of Redis has no meaning for another
 * server. So the mark, some bits of a hash of the node's name, shows whether the node is still
 * the same one. If not, SCAN starts again with that node, and may return an element more than
 * once. Source: https://redis.io/commands/scan ("SCAN guarantees").
 */
#ifndef HASP_CLUSTER_SCAN_CURSOR_H
#define HASP_CLUSTER_SCAN_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "resp/request.h"

struct scan_cursor {
	uint64_t at; /* the cursor of Redis; 0: SCAN begins at this node */
	uint16_t slot; /* the node's slot, by which SCAN orders the nodes: see slot_map.h */
	uint8_t mark; /* scan_cursor_mark() of the node */
};

/* Returns the mark of the node with this name or address, which is never 0: the cursor 0 tells
 * the client that SCAN has ended. */
uint8_t scan_cursor_mark(struct slice name);

/* Reads the cursor that a client has sent; like Redis, it accepts any number. Returns false if
 * Redis would refuse the cursor. If all of *c is then zero, a SCAN begins. */
bool scan_cursor_read(struct slice text, struct scan_cursor *c)
	__attribute__((warn_unused_result));

/* Appends the client's request `req` with the node's own cursor. */
void scan_cursor_request(const struct resp_view *req, const struct scan_cursor *c,
                         struct buf *out);

/* Reads the cursor of a node's whole reply. Returns false if the reply is an error, or no reply
 * to SCAN. */
bool scan_cursor_of_reply(struct slice reply, uint64_t *at) __attribute__((warn_unused_result));

/* Appends a node's reply, with `c` in place of the node's cursor; if `c` is NULL, with 0,
 * because this was the last node. If the cursor of Redis is too large, appends an error. */
void scan_cursor_reply(struct slice reply, const struct scan_cursor *c, struct buf *out);

#endif
