/* SPDX-License-Identifier: BSD-3-Clause
 *
 * limits: what a client makes hasp keep in memory, and the client's end when that is too much.
 */
#ifndef HASP_CLIENT_LIMITS_H
#define HASP_CLIENT_LIMITS_H

#include "client/client_internal.h"

/* Checks the client's unread replies. False: they exceed the limit, and the client was closed.
 */
bool limits_check_output(struct client *c);

/* While more is kept than memory_limit allows, the client for which most is kept is closed.
 * Once per turn of the loop. */
void limits_shed(struct client_env *env);

/* Gives the kernel back what was freed, if that is much. */
void limits_trim(struct client_env *env);

#endif
