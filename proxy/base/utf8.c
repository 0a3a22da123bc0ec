/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/utf8.h"

#include <stdint.h>

size_t utf8_length(struct slice s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char first = s.n ? (unsigned char)*s.p : 0x80;
	size_t n = first < 0x80       ? 1
	           : first >> 5 == 6  ? 2
	           : first >> 4 == 14 ? 3
	           : first >> 3 == 30 ? 4
	                              : 0;
	uint32_t code = first & (0x7fu >> n);

	if (n < 2 || n > s.n)
		return n == 1;
	for (size_t i = 1; i < n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c >> 6 != 2)
			return 0;
		code = code << 6 | (c & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return n;
}
