/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/fatal.h"

void random_bytes(void *out, size_t n)
{
	char *p = out;

	while (n) {
		ssize_t got = getrandom(p, n, 0);
		/* End the process: a token that a peer can guess protects nothing. */
		HASP_ASSERT(got > 0 || errno == EINTR);
		if (got < 0)
			continue;
		p += got;
		n -= (size_t)got;
	}
}
