/* SPDX-License-Identifier: BSD-3-Clause
 *
 * other_db: commands that write a key in another database than the connection's (COPY ... DB,
 * MOVE). A script checks the database in which it runs, so such a write to a key with a rule or
 * a guard in force is refused.
 */
#ifndef HASP_POLICY_OTHER_DB_H
#define HASP_POLICY_OTHER_DB_H

#include "policy/context.h"

/* The error that answers the command; NULL: it may be run. MOVE of a rule's lock may: it does
 * nothing where the key is there already, so it takes no lock of another owner. */
const char *other_db_refusal(const struct context *x);

#endif
