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

static void make_secret(struct proofs *p, int db)
{
	char number[16];
	struct slice parts[] = {
		slice_of(p->process->hex, SHA1_HEX),
		slice_of(number, (size_t)snprintf(number, sizeof(number), "%d", db)),
	};

	sha1_hex(p->secret, parts, 2);
	p->db = db;
}

void proofs_init(struct proofs *p, const struct proof_secret *process)
{
	p->process = process;
	make_secret(p, 0);
}

struct slice proofs_secret(struct proofs *p, int db)
{
	if (db != p->db)
		make_secret(p, db);
	return slice_of(p->secret, SHA1_HEX);
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
