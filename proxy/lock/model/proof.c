/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/model/proof.h"

#include <stdio.h>

#include "base/random.h"

void proof_secret_init(struct proof_secret *secret)
{
	char random[32];

	random_bytes(random, sizeof(random));
	sha1_hex(secret->hex, &(struct slice){ random, sizeof(random) }, 1);
}

void proof_secret_in(const struct proof_secret *process, int db,
                     char secret[static SHA1_HEX + 1])
{
	char number[16];
	struct slice parts[] = {
		slice_of(process->hex, SHA1_HEX),
		slice_of(number, (size_t)snprintf(number, sizeof(number), "%d", db)),
	};

	sha1_hex(secret, parts, 2);
}

bool proof_covers_grant(struct slice secret, struct slice lock, struct slice text,
                        struct slice proof)
{
	char what[32], hex[SHA1_HEX + 1];
	/* sign() in scripts/includes/queue.lua signs the same text. */
	struct slice parts[] = {
		secret,
		slice_of(what, (size_t)snprintf(what, sizeof(what), "grant %zu ", lock.n)),
		lock,
		text,
		secret,
	};

	sha1_hex(hex, parts, sizeof(parts) / sizeof(*parts));
	return slice_eq(proof, slice_of(hex, SHA1_HEX));
}
