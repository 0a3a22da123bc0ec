/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reply: finds where a server's replies begin and end, in RESP2 and RESP3, and
 * tells of each what can be told without keeping it. Allocates nothing, copies
 * nothing; a frame may come in pieces of any size. Stricter than hiredis: every
 * length and line end is checked, since a server that is out of step must be
 * noticed and not guessed at. Not known: RESP3's streamed strings and
 * aggregates (`$?`, `*?`), which no Redis sends.
 * Source: https://github.com/redis/redis-specifications (RESP2, RESP3).
 */
#ifndef HASP_RESP_REPLY_H
#define HASP_RESP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"
#include "resp/request.h"

struct resp_reply {
	char type; /* first byte of the frame: '+', '-', ':', '$', '*', '_' ... */
	bool nil; /* `$-1`, `*-1` or RESP3's `_` */
	long long integer; /* the value of the frame's last ':', else 0 */
};

static inline bool resp_reply_is_error(const struct resp_reply *r)
{
	return r->type == '-' || r->type == '!';
}

/* Enough of an aggregate's first element to tell what kind of message it is:
 * "punsubscribe" is the longest of Redis' own. */
#define REPLY_FIRST_MAX 14

/* The place in a reply up to which bytes were scanned. All zero: at the
 * beginning of one. */
struct reply_scan {
	uint64_t pending; /* values still to come, the one being read included */
	uint64_t skip; /* bytes of payload still to come */
	uint64_t number; /* the header's number as far as read, without its sign */
	struct resp_reply reply;
	uint8_t state;
	char type; /* of the header being read */
	char sign; /* of `number`; 0: none was given */
	uint8_t ndigits;
	bool begun; /* the reply's own header was seen (attributes come before) */
	bool own; /* that one is being read, and no element's */
	bool in_first; /* reading the aggregate's first element */
	uint8_t nfirst;
	char first[REPLY_FIRST_MAX];
};

/* Goes on scanning one reply with the `n` bytes at `p`; *used is how many of them
 * belong to it. RESP_OK: it ended; s->reply and s->first tell of it until the next call. */
enum resp_result reply_scan(struct reply_scan *s, const char *p, size_t n, size_t *used)
	__attribute__((warn_unused_result));

/* What follows a reply is most often one like it: the same header, and so the same length. All
 * zero: none was seen yet. */
struct reply_alike {
	uint64_t head; /* the first bytes of a reply, as far as its length depends on them */
	uint64_t mask; /* which they are */
	size_t len; /* of the whole reply; 0: none */
};

/* Are the `n` bytes at `p` a whole reply, or more, of which the first is as the last one was?
 */
static inline bool reply_is_alike(const struct reply_alike *last, const char *p, size_t n)
{
	uint64_t head;

	if (n < sizeof(head) || n < last->len || last->len == 0)
		return false;
	memcpy(&head, p, sizeof(head));
	return (head & last->mask) == last->head && p[last->len - 2] == '\r' &&
	       p[last->len - 1] == '\n';
}

/* Passes over replies that are whole and simple: simple strings, positive integers, strings and
 * nil; what else there is, also an error, is for reply_scan(). Returns how many there were, at
 * most `max`; *used is their length. `last` is of the same connection, call after call. */
uint32_t reply_skip_simple(struct reply_alike *last, const char *p, size_t n, uint32_t max,
                           size_t *used);

/* At the beginning of a reply: not one of its bytes was seen. */
bool reply_scan_at_start(const struct reply_scan *s);

static inline struct slice reply_scan_first(const struct reply_scan *s)
{
	return slice_of(s->first, s->nfirst);
}

/* The elements of the aggregate that is the whole reply at `frame`, for reply_next(): empty
 * when it is none, or has none. */
struct slice reply_elements(struct slice frame);

/* Takes the first of the `elements`, told as a reply of its own. False when there is none, or
 * it is not whole. */
bool reply_next(struct slice *elements, struct resp_reply *out);

#endif
