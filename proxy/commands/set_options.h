/* SPDX-License-Identifier: BSD-3-Clause
 *
 * set_options: the options of SET, as Redis 7.0 reads them. Pure.
 * Source: parseExtendedStringArgumentsOrReply() of Redis; https://redis.io/commands/set
 */
#ifndef HASP_COMMANDS_SET_OPTIONS_H
#define HASP_COMMANDS_SET_OPTIONS_H

#include <stdbool.h>

#include "base/slice.h"
#include "commands/args.h"
#include "resp/view.h"

struct set_options {
	bool nx, xx, get, keepttl;
	bool timed; /* one of EX, PX, EXAT, PXAT */
	bool seconds, absolute; /* which of them */
	struct slice time; /* its argument, which may be no number */
};

/* Reads the options of `SET key value [option ...]`. PARSED_UNKNOWN: those that are known have
 * been read; of PARSED_REFUSED nothing counts. */
enum parsed set_options_parse(const struct resp_view *req, struct set_options *o)
	__attribute__((warn_unused_result));
/* As above, for the options of another command, which begin at argv[first]. */
enum parsed set_options_parse_from(const struct resp_view *req, size_t first,
                                   struct set_options *o) __attribute__((warn_unused_result));

#endif
