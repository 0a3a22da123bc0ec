/* SPDX-License-Identifier: BSD-3-Clause
 *
 * links: chooses the link that serves a client, and sends requests over it.
 */
#ifndef HASP_CLIENT_LINKS_H
#define HASP_CLIENT_LINKS_H

#include "client/client_internal.h"

/* True if Redis is known to refuse clients that have not logged in, this client has not, and
 * Redis did not admit it when no login was required. */
static inline bool links_must_log_in(const struct client *c)
{
	return c->env->node->links.login_required && !c->session.logged_in &&
	       !c->session.admitted;
}

/* True if the client is on a link that it need neither leave nor wait for. In one branch,
 * because this runs for each request. */
static inline bool links_is_usable(const struct client *c)
{
	return c->user.link &&
	       !(c->user.outdated | c->user.waiting | c->bare | c->env->node->held);
}

/* The link that a whole request needs. */
enum route links_route(const struct client *c, const struct command_info *what,
                       const struct resp_view *req);

/* Puts the client on a link that will do for `route`. False: not while replies are due, the
 * link has still to log in, or the node takes nothing (node_hold()); park it as
 * CLIENT_PARKED_LINK, and take again. */
bool links_take(struct client *c, enum route route);

/* The client lost its shared link while it had nothing in flight. Redis may have closed the
 * link because the user was deleted: asks for another link, which has to log in. */
void links_rejoin(struct client *c);

/* The client has a link of its own. If it needs that no more, goes to a shared link as soon as
 * one is ready. */
void links_return(struct client *c);
/* A reply shows that Redis keeps neither a transaction nor watched keys for the client. */
void links_end_transaction(struct client *c);
/* Redis has carried out RESET. */
void links_reset(struct client *c);

/* True if a client that lost a link of its own can go on with another one: all its state there
 * can be replayed, and hasp waits for servers, or is paused. */
bool links_can_replace(const struct client *c);

/* The node has moved, and the client's link may be outdated, though it has not ended. If the
 * client's next request will not move it to another link, closes the client as soon as nothing
 * is under way. */
void links_follow_node(struct client *c);

/* The link that the client waits for could not be had. True: call links_take() again, for
 * another kind of link will do. */
bool links_has_another(struct client *c, enum link_end end);

/* Sends `bytes` over the link, which is there. */
void links_send(struct client *c, struct slice bytes);
/* As links_send(), for a script call, which keeps Redis busy for longer. */
void links_send_call(struct client *c, struct slice call);

#endif
