/* SPDX-License-Identifier: BSD-3-Clause
 *
 * links: which link serves a client, and what is sent over it.
 */
#ifndef HASP_CLIENT_LINKS_H
#define HASP_CLIENT_LINKS_H

#include "client/client_internal.h"

/* Is Redis known to refuse clients that have not logged in, and this one has not? */
static inline bool links_must_log_in(const struct client *c)
{
	return c->env->links->login_required && !c->session.logged_in;
}

/* A client on a shared link moves with it when the configuration names another Redis; hasp's
 * own connection, which renews and releases, has done so already. */
static inline bool links_is_outdated(const struct client *c)
{
	return c->user.outdated && c->shared;
}

/* The link that a whole request needs. */
enum route links_route(const struct client *c, const struct command_info *what,
                       const struct resp_view *req);

/* Puts the client on a link that will do for `route`. False: not while replies are due. */
bool links_take(struct client *c, enum route route);

/* Sends `bytes` over the link, which is there. */
void links_send(struct client *c, struct slice bytes);
/* The same of a script's call, which gives Redis something to do. */
void links_send_call(struct client *c, struct slice call);

#endif
