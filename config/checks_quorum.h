/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checks_quorum: what [quorum NAME], and what refers to it, must say for locks to be safe.
 */
#ifndef HASP_CONFIG_CHECKS_QUORUM_H
#define HASP_CONFIG_CHECKS_QUORUM_H

#include "config/faults.h"
#include "config/types.h"

/* Most servers of a quorum. */
#define QUORUM_SERVERS_MAX 15

/* The section has ended. */
void checks_quorum_servers(const struct quorum_settings *q, struct faults *f);
/* All files were read: `quorum` of [verbs] and of rules, and what it needs beside it. */
void checks_quorum_users(const struct config *c, struct faults *f);

#endif
