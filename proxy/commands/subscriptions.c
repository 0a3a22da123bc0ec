/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/subscriptions.h"

static const struct frame {
	const char *name; /* the frame's first element */
	enum frame_kind kind;
	enum command_session of; /* (acknowledgements) the command */
} frames[] = {
	{ "subscribe", FRAME_ACK, SESSION_SUBSCRIBE },
	{ "unsubscribe", FRAME_ACK, SESSION_UNSUBSCRIBE },
	{ "psubscribe", FRAME_ACK, SESSION_PSUBSCRIBE },
	{ "punsubscribe", FRAME_ACK, SESSION_PUNSUBSCRIBE },
	{ "ssubscribe", FRAME_SHARD_ACK, SESSION_SSUBSCRIBE },
	{ "sunsubscribe", FRAME_SHARD_ACK, SESSION_SUNSUBSCRIBE },
	{ "message", FRAME_PUBLISHED, SESSION_DEFAULT },
	{ "pmessage", FRAME_PUBLISHED, SESSION_DEFAULT },
	{ "smessage", FRAME_SHARD_PUBLISHED, SESSION_DEFAULT },
};

/* Returns the row of a frame with this first element; NULL: there is none. */
static const struct frame *find_frame(struct slice first)
{
	for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++)
		if (slice_eq(first, slice_str(frames[i].name)))
			return &frames[i];
	return NULL;
}

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
	enum command_session of = (enum command_session)c->facts.session;

	if (of < SESSION_SUBSCRIBE || of > SESSION_SUNSUBSCRIBE || !command_arity_ok(c, argc))
		return (struct acks){ 0 };
	return (struct acks){ of, argc - 1 };
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
	s->any = s->channels || s->patterns || s->shards;
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
	struct slice header;
	size_t len = 0, n = rest->n;

	*bulk = SLICE_NONE;
	if (!slice_cut(rest, '\n', &header) || header.n == n)
		return SIZE_MAX;
	if (*header.p != '$')
		return 0;
	for (const char *p = header.p + 1; *p >= '0' && *p <= '9'; p++)
		len = len * 10 + (size_t)(*p - '0');
	*bulk = slice_of(rest->p, rest->n < len ? rest->n : len);
	*rest = rest->n < len + 2 ? SLICE_NONE : slice_of(rest->p + len + 2, rest->n - len - 2);
	return len;
}

/* As take_bulk(). Returns false if the string is not complete. */
static bool take_whole_bulk(struct slice *rest, struct slice *bulk)
{
	size_t len = take_bulk(rest, bulk);

	return len != SIZE_MAX && bulk->n == len;
}

enum frame_kind frame_kind(struct slice beginning)
{
	struct slice rest = beginning, word;
	const struct frame *f;
	size_t len;

	if (!slice_cut(&rest, '\n', &word) || word.n == beginning.n ||
	    !take_whole_bulk(&rest, &word))
		return FRAME_UNKNOWN;
	f = find_frame(word);
	if (!f)
		return FRAME_OTHER;
	if (f->kind != FRAME_PUBLISHED)
		return f->kind;
	/* In `pmessage`, the pattern comes before the channel. */
	if (*f->name == 'p' && !take_whole_bulk(&rest, &word))
		return FRAME_UNKNOWN;
	len = take_bulk(&rest, &word);
	if (len == SIZE_MAX || (word.n < len && word.n < event_prefixes[0].n))
		return FRAME_UNKNOWN;
	return channel_has_key_events(word) ? FRAME_KEY_EVENT : FRAME_PUBLISHED;
}

bool subscriptions_frame(struct subscriptions *s, const struct reply_scan *frame,
                         struct acks *head, bool resp3, bool *ended)
{
	bool awaited = head && head->of;
	const struct frame *f;

	*ended = false;
	/* In RESP3 an array is always the reply to a request, whatever its first element is. */
	if (frame->reply.type != '>' && (frame->reply.type != '*' || resp3))
		return false;
	f = find_frame(reply_scan_first(frame));
	if (f && f->of && (awaited || s->any)) {
		if (awaited && head->of == f->of)
			*ended = count_ack(s, head);
		count(s, f->of, frame->reply.integer);
		return true;
	}
	return frame->reply.type == '>' || (f && !f->of && s->any);
}
