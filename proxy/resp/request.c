/* SPDX-License-Identifier: BSD-3-Clause */
#include "resp/request.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

enum { AT_START, AT_BULK, IN_BULK };

/* hasp keeps memory for this many arguments between requests. */
#define ARGS_KEPT ((size_t)1024)

/* Length of the longest header that scan_short_header() reads: `$16384` and its line end. */
#define SHORT_HEADER 8

/* Finds the `end` byte of a line as Redis does, with strchr(). A NUL hides all bytes after it,
 * so a line with a NUL counts as unfinished, until it is too long and refused. */
static enum resp_result find_line(const char *p, size_t n, char end, size_t *len)
{
	size_t max = n < REQUEST_LINE_MAX + 1 ? n : REQUEST_LINE_MAX + 1;
	const char *at = memchr(p, end, n);
	size_t upto = at ? (size_t)(at - p) : max;

	if (at && !memchr(p, '\0', upto)) {
		*len = upto;
		return RESP_OK;
	}
	return n > REQUEST_LINE_MAX ? RESP_BAD : RESP_MORE;
}

/* A complete header line. Functions pass it by value, so that it stays in registers. */
struct header {
	size_t size; /* length of the line with its end; 0: scan_any_header() must read it */
	size_t value;
};

/* Reads a header of three to five digits; `v` is the first digit. */
static struct header scan_longer_header(const char *p, size_t n, size_t v)
{
	size_t limit = n < SHORT_HEADER ? n : SHORT_HEADER, at = 2, digit;

	for (; p[at] != '\r'; at++) {
		digit = (unsigned char)p[at] - (size_t)'0';
		if (digit > 9 || v == 0 || at + 3 > limit)
			return (struct header){ 0, 0 };
		v = v * 10 + digit;
	}
	return (struct header){ at + 2, v };
}

/* Reads a header of one or two digits. */
static inline struct header scan_tiny_header(const char *p, size_t n, char type)
{
	size_t first, second;

	/* Only digits may come before the CR: strchr() of Redis stops at a NUL. */
	if (n < 5 || p[0] != type)
		return (struct header){ 0, 0 };
	first = (unsigned char)p[1] - (size_t)'0';
	second = (unsigned char)p[2] - (size_t)'0';
	if (first > 9)
		return (struct header){ 0, 0 };
	if (p[2] == '\r')
		return (struct header){ 4, first };
	if (p[3] == '\r' && second <= 9 && first)
		return (struct header){ 5, first * 10 + second };
	return (struct header){ 0, 0 };
}

/* Reads a header if it is short and whole, as nearly all headers are. */
static struct header scan_short_header(const char *p, size_t n, char type)
{
	struct header h = scan_tiny_header(p, n, type);

	if (h.size || n < 5 || p[0] != type || (unsigned char)p[1] - (unsigned)'0' > 9)
		return h;
	return scan_longer_header(p, n, (unsigned char)p[1] - (size_t)'0');
}

static enum resp_result scan_any_header(const char *p, size_t n, int64_t *value, size_t *size)
{
	size_t len = 0;
	enum resp_result r = find_line(p, n, '\r', &len);

	if (r == RESP_BAD)
		*size = n;
	if (r != RESP_OK)
		return r;
	if (len + 2 > n)
		return RESP_MORE;
	*size = len + 2;
	return len && slice_integer(slice_of(p + 1, len - 1), value) ? RESP_OK : RESP_BAD;
}

/* Reads a header such as `*3\r\n` or `$5\r\n`. Sets *value to the number, and *size to the
 * length of the line with its CR and the byte after that. */
static inline enum resp_result scan_header(const char *p, size_t n, int64_t *value,
                                           size_t *size)
{
	struct header h = scan_short_header(p, n, n && *p == '*' ? '*' : '$');

	*size = h.size;
	if (h.size == 0)
		return scan_any_header(p, n, value, size);
	*value = (int64_t)h.value;
	return RESP_OK;
}

/* Like isspace(), which Redis calls in the C locale. */
static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static int unhex(char c)
{
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* Returns the byte that an escape in double quotes stands for. `p`: the backslash. Sets *len to
 * the length of the escape, in bytes. */
static char unescape(const char *p, const char *end, size_t *len)
{
	static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
	const char *hit;

	if (end - p >= 4 && p[1] == 'x' && isxdigit((unsigned char)p[2]) &&
	    isxdigit((unsigned char)p[3])) {
		*len = 4;
		return (char)(unhex(p[2]) * 16 + unhex(p[3]));
	}
	*len = 2;
	hit = memchr(from, p[1], sizeof(from) - 1);
	return hit ? to[hit - from] : p[1];
}

/* Reads one argument of an inline request from `p` as Redis' sdssplitargs() does. If `text` is
 * not NULL, appends the argument to it. Returns the argument's end; NULL if a quote is not
 * closed, or not followed by a space. */
static const char *inline_arg(const char *p, const char *end, struct buf *text)
{
	char quote = 0;

	for (; p < end; p++) {
		char c = *p;

		if (quote && c == quote) {
			return p + 1 < end && !is_space(p[1]) ? NULL : p + 1;
		} else if (quote == '"' && c == '\\' && p + 1 < end) {
			size_t len;
			c = unescape(p, end, &len);
			p += len - 1;
		} else if (quote == '\'' && c == '\\' && p + 1 < end && p[1] == '\'') {
			c = *++p;
		} else if (!quote && (c == '"' || c == '\'')) {
			quote = c;
			continue;
		} else if (!quote && (c == ' ' || c == '\n' || c == '\r' || c == '\t')) {
			return p;
		}
		if (text)
			buf_append(text, slice_of(&c, 1));
	}
	return quote ? NULL : p;
}

static void push_arg(struct request_args *args, size_t i, struct slice arg)
{
	if (i == args->cap) {
		args->cap = args->cap ? args->cap * 2 : 16;
		args->argv = xrealloc(args->argv, args->cap * sizeof(*args->argv));
	}
	args->argv[i] = arg;
}

/* Splits an inline request (its line without LF or CRLF) into `args`. If that is NULL, only
 * counts the arguments. Returns the number of arguments; -1: unbalanced quotes. */
static long inline_split(const char *p, size_t n, struct request_args *args)
{
	const char *end = p + n;
	long argc = 0;

	if (args) {
		/* The slices point into args->text, so reserve all of its memory before. */
		buf_clear(&args->text);
		buf_reserve(&args->text, n + 1);
	}
	for (;;) {
		while (p < end && is_space(*p))
			p++;
		if (p == end)
			return argc;
		size_t from = args ? buf_len(&args->text) : 0;
		p = inline_arg(p, end, args ? &args->text : NULL);
		if (!p)
			return -1;
		if (args)
			push_arg(args, (size_t)argc,
			         slice_of(buf_head(&args->text) + from,
			                  buf_len(&args->text) - from));
		argc++;
	}
}

static enum resp_result scan_inline(struct request_scan *s, const char *p, size_t n,
                                    size_t *used, struct request_args *args)
{
	size_t lf = 0;
	long argc;
	enum resp_result r = find_line(p, n, '\n', &lf);

	if (r == RESP_BAD)
		*used = n;
	if (r != RESP_OK)
		return r;
	*used = lf + 1;
	argc = inline_split(p, lf > 0 && p[lf - 1] == '\r' ? lf - 1 : lf, args);
	if (args)
		args->argc = argc > 0 ? (size_t)argc : 0;
	s->empty = argc == 0;
	s->unbalanced = argc < 0;
	return argc < 0 ? RESP_BAD : RESP_OK;
}

/* Reads the first header of a request. RESP_OK: the request has no argument, and ends here. */
static enum resp_result scan_count(struct request_scan *s, const char *p, size_t n,
                                   size_t *used)
{
	int64_t value = 0;
	size_t size = 0;
	enum resp_result r = scan_header(p, n, &value, &size);

	if (r == RESP_OK && value > INT_MAX)
		r = RESP_BAD;
	if (r != RESP_MORE)
		*used = size;
	if (r != RESP_OK)
		return r;
	s->empty = value <= 0;
	if (s->empty)
		return RESP_OK;
	s->argc = s->left = (uint32_t)value;
	s->bulk = 0;
	s->state = AT_BULK;
	return RESP_MORE;
}

/* Skips the rest of an argument, or as much of it as there is. */
static void skip_bulk(struct request_scan *s, size_t n, size_t *at)
{
	size_t take = s->skip < n - *at ? (size_t)s->skip : n - *at;

	*at += take;
	s->skip -= take;
	if (s->skip == 0)
		s->state = s->left ? AT_BULK : AT_START;
}

/* Reads the header of an argument at p[*at]. */
static enum resp_result begin_bulk(struct request_scan *s, const char *p, size_t n, size_t *at)
{
	size_t size = 0;
	int64_t value = 0;
	enum resp_result r = scan_header(p + *at, n - *at, &value, &size);

	if (r == RESP_OK && (p[*at] != '$' || value < 0))
		r = RESP_BAD;
	if (r != RESP_MORE)
		*at += size;
	if (r != RESP_OK)
		return r;
	s->left--;
	s->bulk = (uint64_t)value;
	s->skip = (uint64_t)value + 2;
	s->state = IN_BULK;
	return RESP_OK;
}

/* Scans the arguments of a request, from p[*at] on. */
static enum resp_result scan_bulks(struct request_scan *s, const char *p, size_t n, size_t *at,
                                   struct request_args *args)
{
	enum resp_result r;

	for (;;) {
		if (s->state == IN_BULK)
			skip_bulk(s, n, at);
		if (s->state == AT_START)
			return RESP_OK;
		if (*at == n)
			return RESP_MORE;
		r = begin_bulk(s, p, n, at);
		if (r != RESP_OK)
			return r;
		if (args && s->bulk <= n - *at)
			push_arg(args, args->argc++, slice_of(p + *at, (size_t)s->bulk));
	}
}

enum resp_result request_scan(struct request_scan *s, const char *p, size_t n, size_t *used,
                              struct request_args *args)
{
	enum resp_result r;

	*used = 0;
	if (args)
		args->argc = 0;
	if (n == 0)
		return RESP_MORE;
	if (s->state == AT_START) {
		if (*p != '*')
			return scan_inline(s, p, n, used, args);
		r = scan_count(s, p, n, used);
		if (s->state == AT_START)
			return r;
	}
	return scan_bulks(s, p, n, used, args);
}

/* Sets *arg to the argument with header `h` at p[*at]. Returns false if it is incomplete. */
static inline bool take_arg(const char *p, size_t n, size_t *at, struct header h,
                            struct slice *arg)
{
	*at += h.size;
	if (h.size == 0 || n - *at < h.value + 2)
		return false;
	*arg = slice_of(p + *at, h.value);
	*at += h.value + 2;
	return true;
}

/* Scans the arguments from number `i` on; that argument begins at p[at]. */
__attribute__((noinline)) static size_t scan_short_args(const char *p, size_t n, size_t at,
                                                        size_t i, size_t argc,
                                                        struct request_args *args)
{
	for (; i < argc; i++)
		if (!take_arg(p, n, &at, scan_short_header(p + at, n - at, '$'),
		              &args->argv[i]))
			return 0;
	args->argc = argc;
	return at;
}

/* Like scan_short_args(), but while headers are tiny, makes no call and saves no register. */
static inline size_t scan_args(const char *p, size_t n, size_t at, size_t i, size_t argc,
                               struct request_args *args)
{
	for (; i < argc; i++) {
		struct header h = scan_tiny_header(p + at, n - at, '$');
		if (h.size == 0)
			return scan_short_args(p, n, at, i, argc, args);
		if (!take_arg(p, n, &at, h, &args->argv[i]))
			return 0;
	}
	args->argc = argc;
	return at;
}

size_t request_scan_simple(const char *p, size_t n, struct request_args *args)
{
	struct header h = scan_short_header(p, n, '*');

	/* Grow `args` only for received arguments, not for those that a header announces. */
	if (h.size == 0 || h.value == 0 || h.value > args->cap)
		return 0;
	return scan_args(p, n, h.size, 0, h.value, args);
}

size_t request_scan_rest(const char *p, size_t n, size_t at, size_t argc,
                         struct request_args *args)
{
	return at <= n ? scan_args(p, n, at, 1, argc, args) : 0;
}

struct resp_view request_view(struct request_args *args, const char *p, size_t n, bool *whole)
{
	struct request_scan s = { 0 };
	size_t used;

	/* An argument is complete without its line end. */
	*whole = request_scan(&s, p, n, &used, args) == RESP_OK ||
	         (s.argc && s.argc == args->argc);
	return (struct resp_view){ args->argc, args->argv };
}

void request_args_trim(struct request_args *args)
{
	buf_trim(&args->text);
	if (args->cap <= ARGS_KEPT)
		return;
	args->cap = ARGS_KEPT;
	args->argv = xrealloc(args->argv, args->cap * sizeof(*args->argv));
}

void request_args_fini(struct request_args *args)
{
	free(args->argv);
	buf_release(&args->text);
	*args = (struct request_args){ 0 };
}
