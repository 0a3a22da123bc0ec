/* SPDX-License-Identifier: BSD-3-Clause
 *
 * config: hasp's settings as the file gave them, whole and checked. A struct
 * config never changes once it is loaded; a reload makes a new one and the
 * old lives until its last user lets go. Knows nothing of sockets.
 */
#ifndef HASP_CONFIG_CONFIG_H
#define HASP_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"
#include "config/types.h"

/* Reads and checks `path` (NULL: all defaults). Every fault found is appended to
 * `faults` as one line `FILE:LINE: what is wrong and what would be right`;
 * suspicious but legal settings go to `warnings` in the same form.
 * Returns the configuration with one reference, or NULL when there was a fault. */
struct config *config_load(const char *path, struct buf *faults, struct buf *warnings);

struct config *config_ref(struct config *c);
void config_unref(struct config *c); /* NULL is allowed; last one frees */

/* Appends to `out` one line per setting that differs between the two but cannot
 * change without a restart (listen, workers, user, ...). Returns their number. */
size_t config_needs_restart(const struct config *running, const struct config *next,
                            struct buf *out);

/* The first rule one of whose patterns matches `key`; NULL: none. Keys that
 * begin with "hasp:" are hasp's own and match no rule. */
const struct rule *config_rule_for(const struct config *c, struct slice key);

/* The first guard one of whose patterns matches `key`; NULL: none, or the key has a rule, or is
 * hasp's own. */
const struct guard *config_guard_for(const struct config *c, struct slice key);

/* Could there be a rule or a guard for the key: flags. No is certain, and found at a glance. */
enum { CONCERNS_RULE = 1 << 0, CONCERNS_GUARD = 1 << 1 };
static inline unsigned config_concerns(const struct config *c, struct slice key)
{
	return key.n ? c->concerns[(unsigned char)*key.p] : CONCERNS_RULE | CONCERNS_GUARD;
}

/* Is the command `name` one of these (upper or lower case)? */
bool guard_acquires_on(const struct guard *g, struct slice name);
/* Does it release the guard, provided that it writes? */
bool guard_releases_on(const struct guard *g, struct slice name);

#endif
