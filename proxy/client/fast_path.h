/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fast_path: recognizes requests that have only to be passed, as most have, by their names and
 * first keys; counts them and leaves them where they are, to be sent in one piece.
 */
#ifndef HASP_CLIENT_FAST_PATH_H
#define HASP_CLIENT_FAST_PATH_H

#include "client/client_internal.h"

/* A position in the input, up to which requests were taken. */
struct cursor {
	const char *p;
	size_t n;
	size_t from; /* first byte that was not sent on */
	size_t at; /* where the current request begins */
	const struct command_info
		*found; /* the request's command, if fast_path_take() found it */
};

/* Moves the cursor over requests that are whole and have only to be passed. Returns the length
 * of the one that ended the run, if that is whole: then env->args has its arguments, and
 * k->found is set. Else 0. */
size_t fast_path_take(struct client *c, struct cursor *k);

#endif
