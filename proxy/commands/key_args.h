/* SPDX-License-Identifier: BSD-3-Clause
 *
 * key_args: where the keys of one request stand. Most have few, which need no memory of the
 * heap.
 */
#ifndef HASP_COMMANDS_KEY_ARGS_H
#define HASP_COMMANDS_KEY_ARGS_H

#include <stddef.h>

#include "commands/command.h"
#include "resp/view.h"

#define KEY_ARGS_INLINE 32

struct key_args {
	size_t *v; /* indices in argv, ascending */
	size_t n;
	size_t inline_v[KEY_ARGS_INLINE];
};

void key_args_init(struct key_args *a, const struct command *c, const struct resp_view *req);
void key_args_fini(struct key_args *a);

#endif
