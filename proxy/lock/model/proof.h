/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proof: what shows that a script of this hasp process wrote something. Queues can be read, and
 * workers' channels written to, by others than hasp. So the scripts get a secret of the
 * process, which no key shows, and hash with it what they enter into a queue and what they
 * publish; see scripts/includes/sign.lua.
 *
 *   the process' secret + database --> its secret there --ARGV--> script
 *                                          |                        | text, sha1(secret, text)
 *                                          `--> proofs_cover_grant() <----'
 *
 * One secret for each database: no script can tell in which database it runs, and what it signs
 * in one must be worth nothing in another.
 */
#ifndef HASP_LOCK_MODEL_PROOF_H
#define HASP_LOCK_MODEL_PROOF_H

#include <stdbool.h>

#include "base/sha1.h"
#include "base/slice.h"

/* A process'. Not written to, once its workers run. */
struct proof_secret {
	char hex[SHA1_HEX + 1];
};
void proof_secret_init(struct proof_secret *secret);

/* A worker's. */
struct proofs {
	const struct proof_secret *process;
	int db; /* that `secret` is for */
	char secret[SHA1_HEX + 1];
};
void proofs_init(struct proofs *p, const struct proof_secret *process);

/* The secret that scripts get in database `db`; -1: it is not known, and what they sign proves
 * nothing. Valid until the next call. */
struct slice proofs_secret(struct proofs *p, int db);

/* Does `proof` show that a script of this process granted `lock` in `db`, and published `text`?
 */
bool proofs_cover_grant(struct proofs *p, int db, struct slice lock, struct slice text,
                        struct slice proof);

#endif
