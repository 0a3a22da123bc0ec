/* SPDX-License-Identifier: BSD-3-Clause
 *
 * trying: a read of a guarded key that nobody else wants, which most are: three commands cost
 * Redis less than a script does. Should the guard turn out not to be free, the script follows.
 *
 *   EXISTS queue --:0--> SET guard NX --+OK--> its reply: the key counts as read
 *        `-- somebody waits    `-- not free      (else nobody sees it)
 *             `-> what was taken is given back --> guard_read.lua
 */
#ifndef HASP_CLIENT_TRYING_H
#define HASP_CLIENT_TRYING_H

#include "client/connection.h"
#include "client/deciding.h"
#include "lock/guarded.h"

/* May the read begin like that? The client's command is carried out in any case. */
bool trying_may(const struct context *x, const struct guarded *g);
/* Writes the three commands to env->call, of which the client sees the last one's reply. */
struct decision trying_begin(struct context *x, const struct guarded *g);

/* An answer to one of the three came. False: `r` has others to come, or is gone. */
bool trying_on_reply(struct client *c, struct request *r, const struct resp_reply *reply);

#endif
