/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/subscriptions.h"

static const struct {
	const char *name;
	enum command_session of;
} acknowledged[] = {
	{ "subscribe", SESSION_SUBSCRIBE },   { "unsubscribe", SESSION_UNSUBSCRIBE },
	{ "psubscribe", SESSION_PSUBSCRIBE }, { "punsubscribe", SESSION_PUNSUBSCRIBE },
	{ "ssubscribe", SESSION_SSUBSCRIBE }, { "sunsubscribe", SESSION_SUNSUBSCRIBE },
};

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

/* An acknowledgement tells how many channels and patterns together are subscribed now, or how
 * many shard channels. */
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

/* True: it was the last one. */
static bool count_ack(struct subscriptions *s, struct acks *head)
{
	if (head->due == 0)
		head->due = *number_of(s, head->of);
	if (head->due <= 1)
		return true;
	head->due--;
	return false;
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
	/* In RESP3 an array is always an answer, whatever it begins with. */
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
