/* SPDX-License-Identifier: BSD-3-Clause
 *
 * observe: rules in mode OBSERVE change nothing: what they would have done is counted and
 * logged.
 */
#ifndef HASP_CLIENT_OBSERVE_H
#define HASP_CLIENT_OBSERVE_H

#include <stdint.h>

#include "client/client.h"

struct observed {
	uint64_t commands; /* that would have been rewritten */
};

/* One for each rule. */
struct observed *observed_new(const struct config *config);

/* The command `name` on `key` would have been rewritten by `rule`. */
void observe(struct client_env *env, const struct rule *rule, struct slice name,
             struct slice key);

/* Logs the totals. */
void observed_report(const struct client_env *env);

#endif
