/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settings: the file as the process uses it: read, checked also with the Redis that it names,
 * and what is wrong with it told line by line.
 */
#ifndef HASP_SETTINGS_H
#define HASP_SETTINGS_H

#include <stdbool.h>

#include "config/types.h"

/* `file`: NULL for all defaults. Faults and warnings go to the log (`to_log`) or to stderr.
 * Where there are guards it waits for Redis, some seconds at most; when Redis does not answer,
 * that is a warning and no fault. Returns NULL when there is a fault. */
struct config *settings_load(const char *file, bool to_log);

#endif
