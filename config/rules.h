/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rules: the [lock NAME] sections as a list in which the first match wins.
 */
#ifndef HASP_CONFIG_RULES_H
#define HASP_CONFIG_RULES_H

#include "base/buf.h"
#include "config/types.h"

/* Adds a rule at its defaults, without patterns; `c` owns it. */
struct rule *rules_add(struct config *c, const char *name, int line);

/* NULL: there is none of that name. */
const struct rule *rules_find(const struct config *c, const char *name);

void rules_free(struct config *c);

/* Appends what is suspicious about pattern number `i` of the config's last rule,
 * such as that an earlier rule leaves nothing to it. Returns false, and appends
 * nothing, when it is fine. */
bool rules_doubt(const struct config *c, size_t i, struct buf *out);

#endif
