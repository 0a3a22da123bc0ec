/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/args.h"

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
