/* SPDX-License-Identifier: BSD-3-Clause
 *
 * config: hasp's settings as the file gave them, whole and checked. A struct config never
 * changes once it is loaded; a reload makes a new one, and the last user of the old one frees
 * that. Knows nothing of sockets.
 *
 *   file --> reader --> load --> table, option, value --> struct config (types.h) --> match
 *                        |                                      ^
 *                        +--> suggest, checks --> faults        +-- sections: [lock], [guard]
 */
#ifndef HASP_CONFIG_CONFIG_H
#define HASP_CONFIG_CONFIG_H

#include <stddef.h>

#include "base/buf.h"
#include "config/types.h"

/* Reads and checks `path`, and what it includes (NULL: all defaults). Every fault found is
 * appended to `faults` as one line `FILE:LINE: what is wrong and what would be right`;
 * suspicious but legal settings go to `warnings` in the same form.
 * Returns the configuration with one reference, or NULL when there was a fault. */
struct config *config_load(const char *path, struct buf *faults, struct buf *warnings);

/* Returns a copy of `c` with this password for [upstream], with one reference. Takes the
 * password, which must be on the heap. The copy keeps a reference to `c`. */
struct config *config_with_password(struct config *c, char *password);

/* Returns the password in the first line of `text`, without its line end; the caller frees it.
 * NULL: appends the fault to `why`. */
char *config_read_password(struct slice text, struct buf *why);

/* Returns the path of the file, or "defaults". */
const char *config_name(const struct config *c);

struct config *config_ref(struct config *c);
void config_unref(struct config *c); /* NULL is allowed; the last reference frees */

/* Returns how long clients wait for a server, in ms; 0: not at all. Without the option they
 * wait if there may be another primary. */
int64_t config_failover_wait_ms(const struct config *c);

/* How many of links_max each worker may have; 0: no limit. */
int64_t config_links_of_worker(const struct config *c);

/* The quorum that has the locks of verbs or of enforced rules; NULL: [upstream] has them all.
 */
const struct quorum_settings *config_quorum(const struct config *c);
/* Returns the longest lease of a lock of that quorum, in ms; 0: there is no quorum. */
int64_t config_quorum_max_lease_ms(const struct config *c);

/* Calls `fn` with each option of each section in the configuration. `section`: its title,
 * "hasp", "lock NAME". `base`: the struct that has the option's field; option.h prints it. */
struct option;
typedef void config_option_fn(void *arg, const char *section, const struct option *o,
                              const void *base);
void config_each_option(const struct config *c, config_option_fn *fn, void *arg);

/* Appends to `out` one line per setting that differs between the two but cannot
 * change without a restart (listen, workers, user, ...). Returns their number. */
size_t config_needs_restart(const struct config *running, const struct config *next,
                            struct buf *out);

#endif
