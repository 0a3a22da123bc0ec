/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/key_args.h"

#include <stdlib.h>

#include "base/fatal.h"

void key_args_init(struct key_args *a, const struct command *c, const struct resp_view *req)
{
	a->v = a->inline_v;
	a->n = command_key_args(c, req, a->v, KEY_ARGS_INLINE);
	if (a->n <= KEY_ARGS_INLINE)
		return;
	a->v = xcalloc(a->n, sizeof(*a->v));
	a->n = command_key_args(c, req, a->v, a->n);
}

void key_args_fini(struct key_args *a)
{
	if (a->v != a->inline_v)
		free(a->v);
}
