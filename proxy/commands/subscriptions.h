/* SPDX-License-Identifier: BSD-3-Clause
 *
 * subscriptions: counts the subscriptions of one connection, and classifies the frames that
 * Redis sends for them. Redis acknowledges each channel of a SUBSCRIBE by a frame, in RESP3 by
 * a push; there is no other reply. Source: https://redis.io/docs/manual/pubsub/
 *
 * A node forwards published messages to all other nodes, but sends a keyspace notification only
 * to its own subscribers. So hasp subscribes to channels of keyspace notifications at every
 * node. Source: https://redis.io/docs/manual/keyspace-notifications/ ("Events in a cluster")
 */
#ifndef HASP_COMMANDS_SUBSCRIPTIONS_H
#define HASP_COMMANDS_SUBSCRIPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "commands/command.h"
#include "resp/reply.h"

/* The numbers of subscriptions of each kind. */
struct subscriptions {
	uint32_t channels, patterns, shards;
	bool any; /* one of the numbers is not 0 */
};

/* True if keyspace notifications come on this channel. */
bool channel_has_key_events(struct slice channel);
/* True if the pattern may match a channel of keyspace notifications. */
bool pattern_has_key_events(struct slice pattern);

/* The acknowledgements that a request waits for. If all is zero, it waits for none. */
struct acks {
	enum command_session of; /* SESSION_SUBSCRIBE or a similar one; 0: none */
	size_t due; /* number of due frames; 0: one for each subscription, but at least one */
};

/* Returns the acknowledgements due to a command with `argc` arguments, its name included. If
 * none are due, all is zero. */
struct acks acks_of(const struct command *c, size_t argc);

/* The kind of a frame for a subscriber, by its first bytes. */
enum frame_kind {
	FRAME_UNKNOWN, /* more bytes are needed */
	FRAME_OTHER,
	FRAME_ACK, /* acknowledges a channel or a pattern */
	FRAME_SHARD_ACK,
	FRAME_KEY_EVENT, /* a keyspace notification */
	FRAME_PUBLISHED, /* a message that a client published */
	FRAME_SHARD_PUBLISHED,
};

enum frame_kind frame_kind(struct slice beginning);

/* Handles a frame. `head`: the acknowledgements that the oldest request waits for; NULL: no
 * request. `resp3`: the connection uses RESP3. Returns true if the frame is a message or an
 * acknowledgement, not a reply. Sets *ended if it was the last acknowledgement of `head`. */
bool subscriptions_frame(struct subscriptions *s, const struct reply_scan *frame,
                         struct acks *head, bool resp3, bool *ended);

#endif
