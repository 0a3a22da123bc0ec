/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/subscriptions.h"

static const struct {
	const char *name;
	enum command_session of;
} acknowledged[] = {
	{ "subscribe", SESSION_SUBSCRIBE },   { "unsubscribe", SESSION_UNSUBSCRIBE },
	{ "psubscribe", SESSION_PSUBSCRIBE }, { "punsubscribe", SESSION_PUNSUBSCRIBE },
	{ "ssubscribe", SESSION_SSUBSCRIBE }, { "sunsubscribe", SESSION_SUNSUBSCRIBE },
};

static const struct slice event_prefixes[] = { SLICE_LIT("__keyspace@"),
	                                       SLICE_LIT("__keyevent@") };

bool channel_has_key_events(struct slice channel)
{
	return slice_starts(channel, event_prefixes[0]) ||
	       slice_starts(channel, event_prefixes[1]);
}

bool pattern_has_key_events(struct slice pattern)
{
	struct slice fixed = slice_of(pattern.p, 0);

	while (fixed.n < pattern.n && !memchr("*?[\\", fixed.p[fixed.n], 4))
		fixed.n++;
	for (size_t i = 0; i < 2; i++)
		if (slice_starts(fixed, event_prefixes[i]) ||
		    (fixed.n < pattern.n && slice_starts(event_prefixes[i], fixed)))
			return true;
	return false;
}

struct acks acks_of(const struct command *c, size_t argc)
{
	for (size_t i = 0; i < sizeof(acknowledged) / sizeof(*acknowledged); i++)
		if (c->facts.session == acknowledged[i].of && command_arity_ok(c, argc))
			return (struct acks){ acknowledged[i].of, argc - 1 };
	return (struct acks){ 0 };
}

static uint32_t *number_of(struct subscriptions *s, enum command_session of)
{
	if (of == SESSION_SUBSCRIBE || of == SESSION_UNSUBSCRIBE)
		return &s->channels;
	return of == SESSION_PSUBSCRIBE || of == SESSION_PUNSUBSCRIBE ? &s->patterns
	                                                              : &s->shards;
}

/* Stores the number that an acknowledgement reports: of channels and patterns together, or of
 * shard channels. */
static void count(struct subscriptions *s, enum command_session of, long long total)
{
	uint32_t *n = number_of(s, of);

	if (total < 0 || total > UINT32_MAX)
		return;
	if (n == &s->channels)
		total -= s->patterns;
	else if (n == &s->patterns)
		total -= s->channels;
	*n = total > 0 ? (uint32_t)total : 0;
}

/* Counts an acknowledgement. Returns true if it was the last one. */
static bool count_ack(struct subscriptions *s, struct acks *head)
{
	if (head->due == 0)
		head->due = *number_of(s, head->of);
	if (head->due <= 1)
		return true;
	head->due--;
	return false;
}

/* Cuts a bulk string off `rest`, as far as it has arrived. Returns the string's whole length;
 * SIZE_MAX: its header is not complete; 0: another value, or an empty string. */
static size_t take_bulk(struct slice *rest, struct slice *bulk)
{
	const char *lf = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
	size_t len = 0;

	*bulk = SLICE_NONE;
	if (!lf)
		return SIZE_MAX;
	if (*rest->p != '$')
		return 0;
	for (const char *p = rest->p + 1; *p >= '0' && *p <= '9'; p++)
		len = len * 10 + (size_t)(*p - '0');
	lf++;
	*rest = slice_of(lf, rest->n - (size_t)(lf - rest->p));
	*bulk = slice_of(rest->p, rest->n < len ? rest->n : len);
	*rest = rest->n < len + 2 ? SLICE_NONE : slice_of(rest->p + len + 2, rest->n - len - 2);
	return len;
}

/* Returns the kind of a message; `rest` begins with the name of its channel. */
static enum frame_kind message_kind(struct slice rest)
{
	struct slice channel;
	size_t len = take_bulk(&rest, &channel);

	if (len == SIZE_MAX || (channel.n < len && channel.n < event_prefixes[0].n))
		return FRAME_UNKNOWN;
	return channel_has_key_events(channel) ? FRAME_KEY_EVENT : FRAME_PUBLISHED;
}

enum frame_kind frame_kind(struct slice beginning)
{
	const char *lf = memchr(beginning.p, '\n', beginning.n);
	struct slice rest, first;
	size_t len;

	if (!lf)
		return FRAME_UNKNOWN;
	lf++;
	rest = slice_of(lf, beginning.n - (size_t)(lf - beginning.p));
	len = take_bulk(&rest, &first);
	if (len == SIZE_MAX || first.n < len)
		return FRAME_UNKNOWN;
	if (slice_eq(first, SLICE_LIT("message")))
		return message_kind(rest);
	if (slice_eq(first, SLICE_LIT("smessage")))
		return FRAME_SHARD_PUBLISHED;
	if (slice_eq(first, SLICE_LIT("pmessage"))) {
		struct slice pattern;
		len = take_bulk(&rest, &pattern);
		if (len == SIZE_MAX || pattern.n < len)
			return FRAME_UNKNOWN;
		return message_kind(rest);
	}
	for (size_t i = 0; i < sizeof(acknowledged) / sizeof(*acknowledged); i++)
		if (slice_eq(first, slice_str(acknowledged[i].name)))
			return acknowledged[i].of == SESSION_SSUBSCRIBE ||
			                       acknowledged[i].of == SESSION_SUNSUBSCRIBE
			               ? FRAME_SHARD_ACK
			               : FRAME_ACK;
	return FRAME_OTHER;
}

static bool is_published(const struct subscriptions *s, struct slice first)
{
	return subscriptions_any(s) && (slice_eq(first, SLICE_LIT("message")) ||
	                                slice_eq(first, SLICE_LIT("pmessage")) ||
	                                slice_eq(first, SLICE_LIT("smessage")));
}

bool subscriptions_frame(struct subscriptions *s, const struct reply_scan *frame,
                         struct acks *head, bool resp3, bool *ended)
{
	struct slice first = reply_scan_first(frame);
	bool awaited = head && head->of;

	*ended = false;
	/* In RESP3 an array is always the reply to a request, whatever its first element is. */
	if (frame->reply.type != '>' && (frame->reply.type != '*' || resp3))
		return false;
	for (size_t i = 0; i < sizeof(acknowledged) / sizeof(*acknowledged); i++) {
		if (!slice_eq(first, slice_str(acknowledged[i].name)))
			continue;
		if (!awaited && !subscriptions_any(s))
			break;
		if (awaited && head->of == acknowledged[i].of)
			*ended = count_ack(s, head);
		count(s, acknowledged[i].of, frame->reply.integer);
		return true;
	}
	return frame->reply.type == '>' || is_published(s, first);
}
