/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/args.h"

bool args_integer(struct slice s, int64_t *v)
{
	bool negative = s.n > 0 && s.p[0] == '-';
	size_t i = negative ? 1 : 0;
	int64_t n = 0;

	if (s.n == 1 && s.p[0] == '0') {
		*v = 0;
		return true;
	}
	if (i == s.n || s.p[i] < '1' || s.p[i] > '9')
		return false;
	/* Compute the negative number: int64_t has one more of these than positive ones. */
	for (; i < s.n; i++) {
		int digit = s.p[i] - '0';

		if (digit < 0 || digit > 9)
			return false;
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_sub_overflow(n, digit, &n))
			return false;
	}
	if (!negative && n == INT64_MIN)
		return false;
	*v = negative ? n : -n;
	return true;
}

/* Ignores the case, which is one bit; from 'A' on, names have only letters. */
static bool is_alike(char a, char b)
{
	return a == b || ((a ^ b) == ('a' ^ 'A') && b >= 'A');
}

bool args_is_option(struct slice s, const char *name)
{
	size_t i = 0;

	while (i < s.n && name[i] && is_alike(s.p[i], name[i]))
		i++;
	return !name[i] && (i == s.n || !s.p[i]);
}

bool args_ms(int64_t n, bool seconds, int64_t *ms)
{
	if (seconds && __builtin_mul_overflow(n, 1000, &n))
		return false;
	*ms = n;
	return n <= ARGS_MS_MAX;
}
