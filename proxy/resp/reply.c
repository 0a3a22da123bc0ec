/* SPDX-License-Identifier: BSD-3-Clause */
#include "resp/reply.h"

#include <string.h>

/* No reply of Redis has more values than this. A reply with more counts as RESP_BAD. */
#define PENDING_MAX ((uint64_t)1 << 40)
#define NUMBER_DIGITS_MAX 19
/* Length of the longest header that scan_simple() reads: a type and 18 digits, which cannot
 * overflow. Fencing tokens have 16 digits. */
#define SIMPLE_MAX ((size_t)19)

enum {
	AT_TYPE, /* before a header; the state of a scan that is all zero */
	IN_NUMBER, /* in the digits of a header */
	IN_LINE, /* in a line; only its end matters */
	AT_LF, /* after a header's CR */
	AT_LINE_LF, /* after a CR in a line; the CR may be part of the text */
	IN_PAYLOAD,
	AT_PAYLOAD_CR,
	AT_PAYLOAD_LF,
	ENDED, /* the last call returned RESP_OK: the next one begins a reply */
};

bool reply_scan_at_start(const struct reply_scan *s)
{
	return s->state == ENDED || (s->state == AT_TYPE && s->pending == 0);
}

/* Ends a value. Returns true if it was the last one of the reply. */
static bool value_ended(struct reply_scan *s)
{
	s->in_first = false;
	s->state = --s->pending ? AT_TYPE : ENDED;
	return s->pending == 0;
}

/* Handles the first byte of a header. */
static bool on_type(struct reply_scan *s, char type)
{
	static const char lines[] = "+-,(#_", numbers[] = ":$*=!%~>|";

	/* If the first element names the kind of a message, it is a bulk string. */
	s->in_first = s->in_first && type == '$';
	s->own = !s->begun && s->pending == 1 && type != '|';
	if (s->own) {
		s->begun = true;
		s->reply.type = type;
		s->reply.nil = type == '_';
	} else if (type == '_') {
		s->reply.has_nil = true;
	}
	s->type = type;
	s->number = 0;
	s->ndigits = 0;
	s->sign = 0;
	if (memchr(numbers, type, sizeof(numbers) - 1))
		s->state = IN_NUMBER;
	else if (memchr(lines, type, sizeof(lines) - 1))
		s->state = IN_LINE;
	else
		return false;
	return true;
}

static enum resp_result on_aggregate(struct reply_scan *s, uint64_t n)
{
	if (s->type == '%' || s->type == '|')
		n *= 2;
	if (n > PENDING_MAX || s->pending + n > PENDING_MAX)
		return RESP_BAD;
	s->pending += n;
	if (s->type == '|') {
		/* After an attribute's pairs comes the value that the attribute describes. */
		s->state = AT_TYPE;
		return RESP_MORE;
	}
	if (value_ended(s))
		return RESP_OK;
	s->in_first = s->own;
	return RESP_MORE;
}

/* Handles the number of a header. RESP_OK: the number ended the reply. */
static enum resp_result on_number(struct reply_scan *s)
{
	uint64_t n = s->number;

	if (s->type == ':') {
		/* Negate before the conversion, because the smallest integer has no positive
		 * counterpart. */
		s->reply.integer = (long long)(s->sign == '-' ? 0 - n : n);
		return value_ended(s) ? RESP_OK : RESP_MORE;
	}
	if (s->sign) {
		if (n != 1 || (s->type != '$' && s->type != '*'))
			return RESP_BAD;
		s->reply.nil |= s->own;
		s->reply.has_nil |= !s->own;
		return value_ended(s) ? RESP_OK : RESP_MORE;
	}
	if (s->type != '$' && s->type != '=' && s->type != '!')
		return on_aggregate(s, n);
	s->skip = n;
	s->state = n ? IN_PAYLOAD : AT_PAYLOAD_CR;
	return RESP_MORE;
}

static bool on_digit(struct reply_scan *s, char c)
{
	uint64_t max = (uint64_t)INT64_MAX + (s->sign == '-');

	/* RESP3 allows a sign before an integer: `:+5`. */
	if (s->ndigits == 0 && !s->sign && (c == '-' || (c == '+' && s->type == ':'))) {
		s->sign = c;
		return true;
	}
	if (c < '0' || c > '9' || ++s->ndigits > NUMBER_DIGITS_MAX)
		return false;
	s->number = s->number * 10 + (uint64_t)(c - '0');
	return s->number <= max;
}

static void keep_first(struct reply_scan *s, const char *p, size_t n)
{
	size_t space = REPLY_FIRST_MAX - s->nfirst;

	if (!s->in_first)
		return;
	if (n > space)
		n = space;
	memcpy(s->first + s->nfirst, p, n);
	s->nfirst = (uint8_t)(s->nfirst + n);
}

/* Skips the rest of a line or payload; returns the number of bytes skipped. */
static size_t skip_text(struct reply_scan *s, const char *p, size_t n)
{
	size_t take;

	if (s->state == IN_LINE) {
		const char *cr = memchr(p, '\r', n);
		if (!cr)
			return n;
		s->state = AT_LINE_LF;
		return (size_t)(cr - p) + 1;
	}
	take = s->skip < n ? (size_t)s->skip : n;
	keep_first(s, p, take);
	s->skip -= take;
	if (s->skip == 0)
		s->state = AT_PAYLOAD_CR;
	return take;
}

/* Scans one byte, in a state in which each byte matters. */
static enum resp_result on_byte(struct reply_scan *s, char c)
{
	switch (s->state) {
	case AT_TYPE:
		return on_type(s, c) ? RESP_MORE : RESP_BAD;
	case IN_NUMBER:
		if (c == '\r' && s->ndigits) {
			s->state = AT_LF;
			return RESP_MORE;
		}
		return on_digit(s, c) ? RESP_MORE : RESP_BAD;
	case AT_LF:
		return c == '\n' ? on_number(s) : RESP_BAD;
	case AT_LINE_LF:
		if (c == '\n')
			return value_ended(s) ? RESP_OK : RESP_MORE;
		if (c != '\r')
			s->state = IN_LINE;
		return RESP_MORE;
	case AT_PAYLOAD_CR:
		s->state = AT_PAYLOAD_LF;
		return c == '\r' ? RESP_MORE : RESP_BAD;
	default: /* AT_PAYLOAD_LF */
		if (c != '\n')
			return RESP_BAD;
		return value_ended(s) ? RESP_OK : RESP_MORE;
	}
}

static size_t scan_status(const char *p, size_t n)
{
	const char *cr = memchr(p, '\r', n);

	return cr && cr + 1 < p + n && cr[1] == '\n' ? (size_t)(cr - p) + 2 : 0;
}

/* Scans a whole value that is one short line or one string, as most replies and elements are.
 * Returns the value's length; 0: on_byte() must scan it. *number: the number in the header, if
 * any. */
__attribute__((always_inline)) static inline size_t scan_simple(const char *p, size_t n,
                                                                uint64_t *number)
{
	size_t at = 1, max = n < SIMPLE_MAX ? n : SIMPLE_MAX;
	uint64_t len = 0;
	unsigned digit;

	if (*p == '+')
		return scan_status(p, n);
	if (*p != '$' && *p != ':')
		return 0;
	while (at < max && (digit = (unsigned)(unsigned char)p[at] - '0') <= 9) {
		len = len * 10 + digit;
		at++;
	}
	if (at == 1)
		return n >= 5 && memcmp(p, "$-1\r\n", 5) == 0 ? 5 : 0;
	if (n < at + 2 || p[at] != '\r' || p[at + 1] != '\n')
		return 0;
	*number = len;
	at += 2;
	if (*p == ':')
		return at;
	if (n - at < len + 2 || p[at + len] != '\r' || p[at + len + 1] != '\n')
		return 0;
	return at + len + 2;
}

/* Skips a reply that differs from the last one. Not inline, so that the caller saves no
 * registers for replies that are alike. */
__attribute__((noinline)) static size_t skip_unlike(struct reply_alike *a, const char *p,
                                                    size_t n)
{
	uint64_t number;
	size_t len = scan_simple(p, n, &number), header = len;

	if (len == 0)
		return 0;
	if (*p == '$' && p[1] != '-')
		header = (size_t)((const char *)memchr(p, '\n', len) - p) + 1;
	if (header > sizeof(a->head))
		return len;
	*a = (struct reply_alike){ .len = len };
	memset(&a->mask, 0xff, header);
	memcpy(&a->head, p, header);
	return len;
}

uint32_t reply_skip_simple(struct reply_alike *last, const char *p, size_t n, uint32_t max,
                           size_t *used)
{
	size_t at = 0, len;
	uint32_t count = 0;

	for (; count < max && at < n; count++) {
		len = reply_is_alike(last, p + at, n - at) ? last->len
		                                           : skip_unlike(last, p + at, n - at);
		if (len == 0)
			break;
		at += len;
	}
	*used = at;
	return count;
}

static void describe_simple(struct reply_scan *s, const char *p, uint64_t number)
{
	s->reply.type = *p;
	s->reply.nil = *p == '$' && p[1] == '-';
	if (*p == ':')
		s->reply.integer = (long long)number;
	s->state = ENDED;
}

/* Scans an element that is whole and simple. Returns its length; 0: on_byte() must scan it.
 * Sets *r to RESP_OK if the reply ends with the element. */
static size_t scan_element(struct reply_scan *s, const char *p, size_t n, enum resp_result *r)
{
	uint64_t number = 0;
	size_t len;

	/* keep_first() needs the bytes of a string that may name the kind of a message. */
	if (s->state != AT_TYPE || !s->begun || (s->in_first && *p == '$'))
		return 0;
	len = scan_simple(p, n, &number);
	if (len == 0)
		return 0;
	if (*p == ':')
		s->reply.integer = (long long)number;
	s->reply.has_nil |= *p == '$' && p[1] == '-';
	if (value_ended(s))
		*r = RESP_OK;
	return len;
}

/* Scans any reply. Not inline, so that reply_scan() saves no registers for the simple replies
 * that it scans by scan_simple(). */
__attribute__((noinline)) static enum resp_result scan_bytes(struct reply_scan *s,
                                                             const char *p, size_t n,
                                                             size_t *used)
{
	size_t at = 0, len;
	enum resp_result r = RESP_MORE;

	while (at < n && r == RESP_MORE) {
		if (s->state == IN_LINE || s->state == IN_PAYLOAD)
			at += skip_text(s, p + at, n - at);
		else if ((len = scan_element(s, p + at, n - at, &r)))
			at += len;
		else
			r = on_byte(s, p[at++]);
	}
	*used = at;
	return r;
}

enum resp_result reply_scan(struct reply_scan *s, const char *p, size_t n, size_t *used)
{
	uint64_t number = 0;

	if (n && reply_scan_at_start(s)) {
		*s = (struct reply_scan){ .pending = 1 };
		*used = scan_simple(p, n, &number);
		if (*used) {
			describe_simple(s, p, number);
			return RESP_OK;
		}
	}
	return scan_bytes(s, p, n, used);
}

struct slice reply_elements(struct slice frame)
{
	const char *lf;
	size_t header;

	if (frame.n == 0 || (*frame.p != '*' && *frame.p != '~' && *frame.p != '>'))
		return SLICE_NONE;
	lf = memchr(frame.p, '\n', frame.n);
	if (!lf)
		return SLICE_NONE;
	header = (size_t)(lf - frame.p) + 1;
	return slice_of(lf + 1, frame.n - header);
}

bool reply_next(struct slice *elements, struct resp_reply *out)
{
	struct reply_scan scan = { 0 };
	size_t used;

	if (elements->n == 0 || reply_scan(&scan, elements->p, elements->n, &used) != RESP_OK)
		return false;
	*out = scan.reply;
	elements->p += used;
	elements->n -= used;
	return true;
}
