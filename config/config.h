/* SPDX-License-Identifier: BSD-3-Clause
 *
 * config: loads and checks hasp's ini file. A struct config never changes once it is loaded: a
 * reload makes a new struct, and the old one is freed with its last reference. Knows nothing of
 * sockets.
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

/* Reads and checks the file `path`, and the files that it includes; NULL: all defaults. Appends
 * each fault to `faults`, as a line `FILE:LINE: what is wrong and what would be right`, and
 * legal but suspicious settings to `warnings` in the same form. Returns the configuration with
 * one reference; NULL: there was a fault. */
struct config *config_load(const char *path, struct buf *faults, struct buf *warnings);

/* Returns a copy of `c` with this password for [upstream], with one reference. The copy owns
 * `password`, which must be on the heap, and keeps a reference to `c`. */
struct config *config_with_password(struct config *c, char *password);

/* Returns the password in the first line of `text`, without its line end; the caller frees it.
 * If `text` is invalid, returns NULL and appends the fault to `why`. */
char *config_read_password(struct slice text, struct buf *why);

/* Returns the path of the file, or "defaults". */
const char *config_name(const struct config *c);

struct config *config_ref(struct config *c);
void config_unref(struct config *c); /* the last reference frees `c`; NULL is allowed */

/* Returns each worker's share of links_max, at least 1; 0: no limit. */
int64_t config_links_of_worker(const struct config *c);

/* Returns the quorum that stores the locks of verbs or enforced rules; NULL: [upstream] stores
 * them. */
const struct quorum_settings *config_quorum(const struct config *c);

/* Calls `fn` with each option of each section in the configuration. `section`: the section's
 * title, such as "hasp" or "lock NAME". `base`: the struct that has the option's field;
 * option.h prints it. */
struct option;
typedef void config_option_fn(void *arg, const char *section, const struct option *o,
                              const void *base);
void config_each_option(const struct config *c, config_option_fn *fn, void *arg);

/* Appends to `out` a line for each setting that differs and needs a restart, such as `listen`
 * or `workers`. */
void config_needs_restart(const struct config *running, const struct config *next,
                          struct buf *out);

/* Sets each option of `next` that needs a restart to its value in `running`, the configuration
 * at the start: `next` then has the values in force. */
void config_keep(struct config *next, const struct config *running);

#endif
