/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link_open: how a link begins: it connects, and logs in for its users.
 */
#include <stdio.h>

#include "base/fatal.h"
#include "resp/write.h"
#include "upstream/link_internal.h"

static const struct stream_ops link_stream_ops = { link_on_readable, link_on_drained };

static void link_on_dialled(void *arg, int fd, const char *reason)
{
	struct link *l = arg;

	l->dial = NULL;
	if (fd < 0) {
		link_go_down(l, LINK_UNREACHABLE, reason);
		return;
	}
	stream_attach(&l->stream, fd);
	if (l->env->on_connected)
		l->env->on_connected(l->env->arg);
	if (stream_pending(&l->stream) == 0)
		link_notify_drained(l);
}

static const struct login_step essential = { { NULL } };

/* The user is the default one, which has lost its password since: it is logged in already. The
 * first is Redis', the second that of versions before 6. */
static const struct login_step auth_alone = {
	{ "-ERR AUTH <password> called without any password configured",
	  "-ERR Client sent AUTH, but no password is set", NULL }
};

/* An ACL may deny it: then the link has no name. */
static const struct login_step naming = { { "-", NULL } };

/* Where an ACL denies the command, Redis has let the connection in. */
static const struct login_step proof = { { "-NOPERM", "-ERR unknown command", NULL } };

static void send_login_command(struct link *l, const struct login_step *step,
                               const struct slice *argv, size_t n)
{
	struct buf out = BUF_INIT;

	resp_write_request(&out, argv, n);
	stream_send(&l->stream, buf_slice(&out));
	buf_release(&out);
	fifo_push(&l->fifo, NULL, LINK_LOGIN | LINK_CAPTURE | LINK_DISCARD, (void *)step);
	l->logins_due++;
}

/* HELLO also logs in and sets the name. An ACL may deny CLIENT SETNAME, but never HELLO. */
static void send_hello(struct link *l, const struct link_login *login)
{
	struct slice argv[7] = { SLICE_LIT("HELLO"),
		                 login->proto == 3 ? SLICE_LIT("3") : SLICE_LIT("2") };
	size_t n = 2;

	if (login->password) {
		argv[n++] = SLICE_LIT("AUTH");
		argv[n++] = slice_str(login->user ? login->user : "default");
		argv[n++] = slice_str(login->password);
	}
	if (login->name) {
		argv[n++] = SLICE_LIT("SETNAME");
		argv[n++] = slice_str(login->name);
	}
	send_login_command(l, &essential, argv, n);
}

static void send_auth(struct link *l, const struct link_login *login)
{
	struct slice argv[3] = { SLICE_LIT("AUTH") };
	size_t n = 1;

	/* Redis before 6 knows no users. */
	if (login->user)
		argv[n++] = slice_str(login->user);
	argv[n++] = slice_str(login->password);
	send_login_command(l, login->user ? &essential : &auth_alone, argv, n);
}

static void send_set_name(struct link *l, const struct link_login *login)
{
	struct slice argv[] = { SLICE_LIT("CLIENT"), SLICE_LIT("SETNAME"),
		                slice_str(login->name) };

	send_login_command(l, &naming, argv, 3);
}

static void send_select(struct link *l, const struct link_login *login)
{
	char db[16];

	snprintf(db, sizeof(db), "%d", login->db);
	send_login_command(l, &essential,
	                   (struct slice[]){ SLICE_LIT("SELECT"), slice_str(db) }, 2);
}

/* REPLCONF alone does nothing. Redis answers it also while it loads or runs a long script, and
 * MONITOR does not show it. */
static void send_proof(struct link *l)
{
	send_login_command(l, &proof, (struct slice[]){ SLICE_LIT("REPLCONF") }, 1);
}

static void send_login(struct link *l, const struct link_login *login)
{
	bool hello = login->proto == 3 || (login->by_hello && (login->password || login->name));

	if (login->proves && !login->password && !hello && login->db == 0)
		send_proof(l);
	if (hello) {
		send_hello(l, login);
	} else {
		if (login->password)
			send_auth(l, login);
		if (login->name)
			send_set_name(l, login);
	}
	if (login->db > 0)
		send_select(l, login);
}

static struct dial *start_dial(struct link *l)
{
	struct link_env *env = l->env;

	if (!l->own && env->max && env->nopen >= env->max)
		return dial_refuse(&env->dialer, "hasp has links_max links to it",
		                   link_on_dialled, l);
	return dial_start(&env->dialer, &env->address, link_on_dialled, l);
}

static struct link *link_alloc(struct link_env *env, bool own, bool shared)
{
	struct link *l = xcalloc(1, sizeof(*l));

	l->env = env;
	l->own = own;
	l->shared = shared;
	list_init(&l->node);
	list_append(&env->open, &l->node);
	list_init(&l->users);
	stream_init(&l->stream, env->flusher, &link_stream_ops, l);
	return l;
}

/* `accepted`: of link_new_accepted(). */
static void link_begin(struct link *l, const struct link_login *accepted)
{
	struct link_env *env = l->env;

	link_set_state(l, l->logins_due ? LINK_LOGGING_IN : LINK_OPEN);
	if (env->connect)
		stream_attach_peer(&l->stream, env->connect(env, l, accepted));
	else
		l->dial = start_dial(l);
	env->nopen += !l->own;
}

static struct link *open_link(struct link_env *env, bool own, bool shared,
                              const struct link_login *login)
{
	struct link *l = link_alloc(env, own, shared);

	if (login)
		send_login(l, login);
	link_begin(l, NULL);
	return l;
}

struct link *link_new(struct link_env *env, bool shared, const struct link_login *login)
{
	return open_link(env, false, shared, login);
}

struct link *link_new_own(struct link_env *env, bool shared, const struct link_login *login)
{
	return open_link(env, true, shared, login);
}

struct link *link_new_accepted(struct link_env *env, const struct link_login *login)
{
	struct link *l = link_alloc(env, false, true);

	link_begin(l, login);
	return l;
}
