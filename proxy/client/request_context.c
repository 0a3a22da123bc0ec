/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/request_context.h"

#include "client/links.h"
#include "client/lock_wait.h"
#include "policy/classifier.h"

static const struct owner_identity *client_identity(void *arg)
{
	struct client *c = client_of(arg);

	if (!c->identity)
		c->identity = owner_identify(stream_fd(&c->stream), c->behind, c->env->worker);
	return c->identity;
}

void client_describe(struct client *c, struct buf *out)
{
	owner_describe(out, client_identity(c), c->session.name);
}

static void make_how(void *arg, struct rewrite_how *how)
{
	lock_wait_how(client_of(arg), false, how);
}

struct context request_context(struct client *c)
{
	return (struct context){
		.env = &c->env->policy,
		.session = &c->session,
		.holds = &c->holds,
		.read_set = &c->read_set,
		.watched = &c->watched,
		.listener = c->listener,
		/* (In front of a cluster, the nodes' links see to it.) */
		.uncounted = c->uncounted && !c->env->node->links.connect,
		.must_log_in = links_must_log_in(c),
		/* (A command in front of its own could change what Redis makes of it: CLIENT
		 * CACHING speaks of the next one.) */
		.may_be_optimistic = !c->pinned && !c->transacting,
		.identity = client_identity,
		.make_how = make_how,
		.arg = c,
	};
}

struct context request_context_again(struct client *c, struct resp_view *view,
                                     struct command_info *what)
{
	struct context x = request_context(c);
	bool whole;

	*view = request_view(&c->env->args, buf_head(&c->in), c->scanned, &whole);
	HASP_ASSERT(whole && view->argc > 0);
	*what = classifier_find(&c->env->policy, view->argv[0]);
	x.req = view;
	x.what = what;
	return x;
}
