/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reply: finds where a server's replies begin and end, in RESP2 and RESP3, and reports some
 * facts about each. Allocates nothing; a frame may come in pieces of any size. The scan is
 * stricter than hiredis: it checks every length and line end, to detect a server that does not
 * send RESP. Not supported: RESP3's streamed strings and arrays (`$?`, `*?`), which no Redis
 * sends. Source: https://github.com/redis/redis-specifications (RESP2, RESP3).
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
	bool has_nil; /* true if an element is nil */
	long long integer; /* value of the last integer (`:`) in the frame; 0: there is none */
};

static inline bool resp_reply_is_error(const struct resp_reply *r)
{
	return r->type == '-' || r->type == '!';
}

/* The scan keeps this many bytes of an aggregate's first element. In a message, that is its
 * kind; the longest kind is "punsubscribe". */
#define REPLY_FIRST_MAX 14

/* The position of a scan in a reply. If all is zero, a reply begins. */
struct reply_scan {
	uint64_t pending; /* number of values still to come, including the one being scanned */
	uint64_t skip; /* bytes of payload still to come */
	uint64_t number; /* the digits of the header's number read so far */
	struct resp_reply reply;
	uint8_t state; /* a state of reply.c */
	char type; /* type of the header that is being read */
	char sign; /* sign of `number`; 0: it has none */
	uint8_t ndigits; /* number of digits in `number` */
	bool begun; /* the reply's own header was read; attributes come before it */
	bool own; /* the reply's own header is being read, not an element's */
	bool in_first; /* the aggregate's first element is being read */
	uint8_t nfirst; /* bytes in `first` */
	char first[REPLY_FIRST_MAX]; /* the beginning of the aggregate's first element */
};

/* Continues to scan one reply with the `n` bytes at `p`. Sets *used to the number of bytes that
 * belong to it. RESP_OK: the reply ended; s->reply and s->first describe it until the next
 * call. RESP_MORE: the reply continues after these bytes. RESP_BAD: the bytes are no reply. */
enum resp_result reply_scan(struct reply_scan *s, const char *p, size_t n, size_t *used)
	__attribute__((warn_unused_result));

/* The last simple reply of a connection. The next reply often has the same header, and so the
 * same length. If all is zero, there was no reply yet. */
struct reply_alike {
	uint64_t head; /* the reply's header, which decides its length; then zeros */
	uint64_t mask; /* 0xff for each byte of `head` that is from the reply */
	size_t len; /* length of the whole reply; 0: there was none */
};

/* True if the `n` bytes at `p` begin with a whole reply like the last one. */
static inline bool reply_is_alike(const struct reply_alike *last, const char *p, size_t n)
{
	uint64_t head;

	if (n < sizeof(head) || n < last->len || last->len == 0)
		return false;
	memcpy(&head, p, sizeof(head));
	return (head & last->mask) == last->head && p[last->len - 2] == '\r' &&
	       p[last->len - 1] == '\n';
}

/* Skips whole, simple replies: simple strings, positive integers, strings and nil. reply_scan()
 * must scan all others, including errors. Returns the number of skipped replies, at most `max`;
 * *used is their length. Pass the same `last` for all replies of a connection. */
uint32_t reply_skip_simple(struct reply_alike *last, const char *p, size_t n, uint32_t max,
                           size_t *used);

/* True if the scan is at the beginning of a reply, and has scanned none of its bytes. */
bool reply_scan_at_start(const struct reply_scan *s);

static inline struct slice reply_scan_first(const struct reply_scan *s)
{
	return slice_of(s->first, s->nfirst);
}

/* Returns the elements of `frame`, a whole reply, for reply_next(). Empty if the reply is no
 * array, set or push, or has no elements. */
struct slice reply_elements(struct slice frame);

/* Removes the first of the `elements`, and describes it in *out as a reply. Returns false if
 * there is none, or if it is not whole. */
bool reply_next(struct slice *elements, struct resp_reply *out);

#endif
