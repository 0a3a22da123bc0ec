/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/redis_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "resp/write.h"

void redis_reply_error_text(struct buf *out, struct slice text)
{
	char *p = buf_reserve(out, text.n + 3);

	*p++ = '-';
	for (size_t i = 0; i < text.n; i++)
		*p++ = text.p[i] == '\r' || text.p[i] == '\n' ? ' ' : text.p[i];
	buf_added_to(out, resp_put_end(p));
}

void redis_reply_error(struct redis_call *x, const char *fmt, ...)
{
	struct buf text = BUF_INIT;
	struct slice trimmed;
	va_list args;

	va_start(args, fmt);
	buf_vprintf(&text, fmt, args);
	va_end(args);
	trimmed = buf_slice(&text);
	while (trimmed.n && strchr("\r\n", trimmed.p[trimmed.n - 1]))
		trimmed.n--;
	redis_reply_error_text(x->out, trimmed);
	buf_release(&text);
}

void redis_reply_syntax(struct redis_call *x)
{
	redis_reply_error(x, "ERR syntax error");
}

void redis_reply_wrong_type(struct redis_call *x)
{
	redis_reply_error(x,
	                  "WRONGTYPE Operation against a key holding the wrong kind of value");
}

void redis_reply_arity(struct redis_call *x)
{
	redis_reply_error(x, "ERR wrong number of arguments for '%s' command",
	                  x->command->name);
}

void redis_reply_status(struct redis_call *x, const char *text)
{
	buf_printf(x->out, "+%s\r\n", text);
}

void redis_reply_ok(struct redis_call *x)
{
	redis_reply_status(x, "OK");
}

void redis_reply_int(struct redis_call *x, long long n)
{
	buf_printf(x->out, ":%lld\r\n", n);
}

void redis_reply_bulk(struct redis_call *x, struct slice s)
{
	resp_write_bulk(x->out, s);
}

void redis_reply_text(struct redis_call *x, const char *s)
{
	resp_write_bulk_str(x->out, s);
}

void redis_reply_nil(struct redis_call *x)
{
	buf_puts(x->out, x->resp == 3 ? "_\r\n" : "$-1\r\n");
}

void redis_reply_nil_array(struct redis_call *x)
{
	buf_puts(x->out, x->resp == 3 ? "_\r\n" : "*-1\r\n");
}

void redis_reply_double(struct redis_call *x, double d)
{
	char text[64];

	if (isinf(d))
		snprintf(text, sizeof(text), "%s", d > 0 ? "inf" : "-inf");
	else
		snprintf(text, sizeof(text), "%.17g", d);
	if (x->resp == 3)
		buf_printf(x->out, ",%s\r\n", text);
	else
		redis_reply_text(x, text);
}

void redis_reply_array(struct redis_call *x, size_t n)
{
	buf_printf(x->out, "*%zu\r\n", n);
}

void redis_reply_map(struct redis_call *x, size_t n)
{
	buf_printf(x->out, x->resp == 3 ? "%%%zu\r\n" : "*%zu\r\n", x->resp == 3 ? n : 2 * n);
}

void redis_reply_set(struct redis_call *x, size_t n)
{
	buf_printf(x->out, x->resp == 3 ? "~%zu\r\n" : "*%zu\r\n", n);
}

/* --- numbers ------------------------------------------------------------------------------ */

bool redis_parse_int(struct slice s, long long *out)
{
	char text[24], again[24];
	char *end;

	if (s.n == 0 || s.n > 20)
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	errno = 0;
	*out = strtoll(text, &end, 10);
	snprintf(again, sizeof(again), "%lld", *out);
	return errno == 0 && slice_eq(s, slice_str(again));
}

bool redis_parse_double(struct slice s, double *out)
{
	char text[256];
	char *end;

	if (s.n == 0 || s.n >= sizeof(text) || strchr(" \t\n\v\f\r", *s.p))
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	errno = 0;
	*out = strtod(text, &end);
	return end == text + s.n && !isnan(*out) &&
	       !(errno == ERANGE && (isinf(*out) || fpclassify(*out) == FP_ZERO));
}

bool redis_arg_int_or(struct redis_call *x, size_t i, long long *out, const char *error)
{
	if (redis_parse_int(x->argv[i], out))
		return true;
	redis_reply_error(x, "%s", error);
	return false;
}

bool redis_arg_int(struct redis_call *x, size_t i, long long *out)
{
	return redis_arg_int_or(x, i, out, "ERR value is not an integer or out of range");
}

bool redis_arg_double(struct redis_call *x, size_t i, double *out, const char *error)
{
	if (redis_parse_double(x->argv[i], out))
		return true;
	redis_reply_error(x, "%s", error);
	return false;
}

bool redis_range(long long n, long long *first, long long *last)
{
	*first = *first < 0 ? (*first + n < 0 ? 0 : *first + n) : *first;
	*last = *last < 0 ? *last + n : *last;
	*last = *last >= n ? n - 1 : *last;
	return *first <= *last && *first < n;
}

bool redis_arg_is(const struct redis_call *x, size_t i, const char *word)
{
	return i < x->argc && slice_is(x->argv[i], word);
}
