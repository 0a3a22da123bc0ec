/* SPDX-License-Identifier: BSD-3-Clause
 *
 * special: the commands that change what a connection is: database, user, name, protocol,
 * transactions, subscriptions, and those behind which replies come by other rules. They are
 * passed as they are; what they mean is remembered in the session.
 */
#ifndef HASP_CLIENT_SPECIAL_H
#define HASP_CLIENT_SPECIAL_H

#include "client/dispatch.h"

struct special;

/* NULL: `name` is none of them. */
const struct special *special_find(struct slice name);

/* PASS, with what to do about the reply; or LATER. Changes the session. */
struct decision special_decide(const struct special *special, const struct dispatch_from *from,
                               const struct resp_view *req);

/* The link that it must be sent on. */
enum route special_route(const struct special *special, const struct resp_view *req);

/* In a transaction it is queued, like all other commands, instead of carried out. */
bool special_is_queued(const struct special *special);

/* Ends the process when the tables in here contradict each other. */
void special_self_check(void);

#endif
