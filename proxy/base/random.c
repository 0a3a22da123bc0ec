/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/random.h"

#include <unistd.h>

#include "base/fatal.h"

void random_bytes(void *out, size_t n)
{
	int rc = getentropy(out, n);

	/* End the process: a token that a peer can guess protects nothing. */
	HASP_ASSERT(rc == 0);
}
