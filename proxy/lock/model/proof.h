/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proof: proves that a script of this hasp process wrote a queue entry or a message. Other
 * clients of Redis can read the queues, and publish on the workers' channels. So the scripts
 * get a secret of the process, which no key contains, and sign their queue entries and messages
 * with it; see scripts/includes/queue.lua.
 *
 *   the process' secret + database --> its secret there --ARGV--> script
 *                                          |                        | text, sha1(secret, text)
 *                                          `--> proof_covers_grant() <----'
 *
 * Each database has a secret of its own, because a script does not know in which database it
 * runs. A signature from one database therefore proves nothing in another.
 */
#ifndef HASP_LOCK_MODEL_PROOF_H
#define HASP_LOCK_MODEL_PROOF_H

#include <stdbool.h>

#include "base/sha1.h"
#include "base/slice.h"

/* The secret of a process. Constant while its workers run. */
struct proof_secret {
	char hex[SHA1_HEX + 1];
};
void proof_secret_init(struct proof_secret *secret);

/* Writes the secret for the scripts in database `db`. -1: the database is not known, and the
 * signatures prove nothing. */
void proof_secret_in(const struct proof_secret *process, int db,
                     char secret[static SHA1_HEX + 1]);

/* True if `proof` shows that a script of this process granted `lock`, and published `text`.
 * `secret`: proof_secret_in() of the lock's database. */
bool proof_covers_grant(struct slice secret, struct slice lock, struct slice text,
                        struct slice proof);

#endif
