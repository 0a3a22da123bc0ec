/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link_open: connects a new link, and logs it in for its users. Until then, the link tries
 * again for env->failover_wait, also at another address, because it has sent no request of a
 * user yet.
 *
 *   link_new() --> dial --> log in --> link_end_opening()
 *       |           |         |
 *       |           '---------'-- failed: again after a while ---> dial
 *       '-- there is no server: waits for links_follow() --------> dial
 *
 * When the time is over, the link ends as LINK_UNREACHABLE.
 */
#include <stdio.h>
#include <stdlib.h>

#include "resp/write.h"
#include "upstream/link_internal.h"

static const struct stream_ops link_stream_ops = { link_on_readable, link_on_drained,
	                                           STREAM_UPSTREAM };

/* A login step that must succeed: each error ends the login. */
static const char *const essential[] = { NULL };

/* AUTH as the default user. These errors mean that this user needs no password, so the link is
 * logged in already. The second error is of Redis before version 6. */
static const char *const auth_alone[] = {
	"-ERR AUTH <password> called without any password configured",
	"-ERR Client sent AUTH, but no password is set", NULL
};

/* CLIENT SETNAME and SETINFO: if an ACL denies them, the link has no name. Also a command whose
 * reply only shows that the server does not hang. */
static const char *const optional[] = { "-", NULL };

/* A command that tests whether Redis requires a login; these errors mean that it does not. */
static const char *const proof[] = { "-NOPERM", "-ERR unknown command", NULL };

static void add_step(struct login_script *script, const char *const *harmless)
{
	HASP_ASSERT(script->n < LOGIN_STEPS_MAX);
	script->steps[script->n++] = harmless;
}

/* Appends a request of those words that are not NULL. */
static void add_request(struct login_script *script, const char *const *harmless,
                        const char *const *words, size_t n)
{
	resp_write_words(&script->bytes, words, n);
	add_step(script, harmless);
}

/* Appends HELLO, which also logs in and sets the name. An ACL can deny CLIENT SETNAME, but not
 * HELLO. */
static void add_hello(struct login_script *script, const struct link_login *login)
{
	const char *user = login->user ? login->user : "default";

	add_request(script, essential,
	            (const char *[]){ "HELLO", login->proto == 3 ? "3" : "2",
	                              login->password ? "AUTH" : NULL,
	                              login->password ? user : NULL, login->password,
	                              login->name ? "SETNAME" : NULL, login->name },
	            7);
}

unsigned link_write_setinfo(struct buf *out, const struct link_login *login)
{
	const char *const infos[][2] = { { "LIB-NAME", login->lib_name },
		                         { "LIB-VER", login->lib_ver } };
	unsigned n = 0;

	for (size_t i = 0; i < 2; i++) {
		if (!infos[i][1])
			continue;
		resp_write_words(
			out, (const char *[]){ "CLIENT", "SETINFO", infos[i][0], infos[i][1] },
			4);
		n++;
	}
	return n;
}

static void add_select(struct login_script *script, int number)
{
	char db[16];

	snprintf(db, sizeof(db), "%d", number);
	add_request(script, essential, (const char *[]){ "SELECT", db }, 2);
}

/* Appends REPLCONF without arguments, which does nothing. Redis answers it even while it loads
 * its data or runs a long script, and MONITOR does not show it. */
static void add_proof(struct login_script *script, const char *const *harmless)
{
	add_request(script, harmless, (const char *[]){ "REPLCONF" }, 1);
}

static void write_login(struct login_script *script, const struct link_login *login)
{
	bool hello = login->proto == 3 || (login->by_hello && (login->password || login->name));

	if (login->probe_noauth && !login->password && !hello && login->db == 0)
		add_proof(script, proof);
	if (hello)
		add_hello(script, login);
	if (!hello && login->password)
		add_request(script, login->user ? essential : auth_alone,
		            (const char *[]){ "AUTH", login->user, login->password }, 3);
	if (!hello && login->name)
		add_request(script, optional,
		            (const char *[]){ "CLIENT", "SETNAME", login->name }, 3);
	if (login->db > 0)
		add_select(script, login->db);
	for (unsigned n = link_write_setinfo(&script->bytes, login); n > 0; n--)
		add_step(script, optional);
	if (login->await_first_reply && script->n == 0)
		add_proof(script, optional);
}

/* Sends the login. The stream and the FIFO must be empty. */
static void send_login(struct link *l, const struct login_script *script)
{
	if (script->n)
		stream_send(&l->stream, buf_slice(&script->bytes));
	for (l->logins_due = 0; l->logins_due < script->n; l->logins_due++)
		fifo_push(&l->fifo, NULL, LINK_LOGIN | LINK_CAPTURE | LINK_DISCARD,
		          (void *)script->steps[l->logins_due]);
}

/* --- connecting --------------------------------------------------------------------------- */

/* Seconds from a failed try to the next one. */
#define OPENING_AGAIN_SECONDS 0.1

/* Returns how many seconds are left for tries. */
static double opening_left(const struct link *l)
{
	return l->opening->until - l->env->clock();
}

static void opening_wait(struct link *l, double seconds)
{
	double left = opening_left(l);

	if (seconds > left)
		seconds = left > 0 ? left : 0;
	loop_timer_start(&l->opening->timer, seconds);
}

/* Waits for the next try, and records why the last one failed. */
static void opening_failed(struct link *l, const char *reason)
{
	char *copy = xstrdup(reason);

	free(l->opening->reason);
	l->opening->reason = copy;
	opening_wait(l, OPENING_AGAIN_SECONDS);
}

static void link_on_dialled(void *arg, int fd, struct tls *tls, const char *reason)
{
	struct link *l = arg;

	l->dial = NULL;
	if (fd < 0 && l->opening && opening_left(l) > 0) {
		opening_failed(l, reason);
		if (l->env->on_alarm)
			l->env->on_alarm(l->env->arg, LINK_LOST);
		return;
	}
	if (fd < 0) {
		link_go_down(l, LINK_UNREACHABLE, reason);
		return;
	}
	if (!link_is_logging_in(l))
		link_end_opening(l);
	stream_attach(&l->stream, fd, tls);
	if (l->env->on_connected)
		l->env->on_connected(l->env);
	if (stream_pending(&l->stream) == 0)
		link_notify_drained(l);
}

/* Connects, if there is a server. */
static void link_try(struct link *l)
{
	static const enum descriptor_use uses[] = {
		[LINK_KIND_OWN] = DESCRIPTOR_OWN,
		[LINK_KIND_SHARED] = DESCRIPTOR_SHARED_LINK,
		[LINK_KIND_PRIVATE] = DESCRIPTOR_PRIVATE_LINK,
	};
	struct link_env *env = l->env;
	struct dialer dialer = env->dialer;

	if (l->opening)
		opening_wait(l, opening_left(l));
	if (env->no_server_reason)
		return;
	dialer.use = uses[l->kind];
	l->dial = dial_start(&dialer, &env->address, link_on_dialled, l);
}

/* Closes the connection, and prepares to send the login again on another one. */
static void restart_login(struct link *l)
{
	bool is_paused = l->stream.paused;

	HASP_ASSERT(buf_len(&l->held_back) == 0);
	stream_close(&l->stream);
	stream_init(&l->stream, l->env->flusher, &link_stream_ops);
	l->stream.paused = is_paused;
	l->scan = (struct reply_scan){ 0 };
	l->alike = (struct reply_alike){ 0 };
	buf_release(&l->reply.captured);
	l->reply = (struct link_reply){ .to = NULL };
	fifo_clear(&l->fifo);
	send_login(l, &l->opening->login);
}

static void opening_on_timer(void *arg)
{
	struct link *l = arg;
	char reason[512];

	if (opening_left(l) <= 0) {
		snprintf(reason, sizeof(reason), "%s",
		         l->env->no_server_reason ? l->env->no_server_reason
		         : l->opening->reason     ? l->opening->reason
		                                  : "it does not answer");
		link_go_down(l, LINK_UNREACHABLE, reason);
	} else if (!l->dial && !stream_is_open(&l->stream)) {
		link_try(l);
	} else {
		/* The timer fired too early: libev counts from the start of the turn. */
		opening_wait(l, opening_left(l));
	}
}

static void link_reopen(struct link *l)
{
	if (l->dial)
		dial_cancel(l->dial);
	l->dial = NULL;
	if (stream_is_open(&l->stream))
		restart_login(l);
	link_try(l);
}

static bool link_try_again(struct link *l, const char *reason)
{
	if (!link_is_logging_in(l) || opening_left(l) <= 0)
		return false;
	/* A caller that ends several links keeps them in a list of its own: leave that list. */
	list_move(&l->env->open, &l->node);
	opening_failed(l, reason);
	restart_login(l);
	return true;
}

/* Lets the link try to connect and log in for this many seconds. */
static void begin_opening(struct link *l, double seconds)
{
	l->opening = xcalloc(1, sizeof(*l->opening));
	l->opening->reopen = link_reopen;
	l->opening->try_again = link_try_again;
	l->opening->until = l->env->clock() + seconds;
	loop_timer_init(&l->opening->timer, l->env->dialer.loop, opening_on_timer, l);
}

void link_set_patience(struct link *l, double seconds)
{
	if (!l->opening)
		return;
	l->opening->until = l->env->clock() + seconds;
	opening_wait(l, seconds);
}

/* --- a new link --------------------------------------------------------------------------- */

static struct link *link_alloc(struct link_env *env, enum link_kind kind)
{
	struct link *l = xcalloc(1, sizeof(*l));

	l->env = env;
	l->kind = kind;
	list_init(&l->node);
	list_append(&env->open, &l->node);
	env->nopen[kind]++;
	list_init(&l->users);
	stream_init(&l->stream, env->flusher, &link_stream_ops);
	return l;
}

static bool is_over_max(const struct link *l)
{
	const struct link_env *env = l->env;

	return l->kind != LINK_KIND_OWN && env->max &&
	       env->nopen[LINK_KIND_SHARED] + env->nopen[LINK_KIND_PRIVATE] > env->max;
}

bool links_are_at_max(const struct link_env *env)
{
	return env->max &&
	       env->nopen[LINK_KIND_SHARED] + env->nopen[LINK_KIND_PRIVATE] >= env->max;
}

static void link_connect(struct link *l)
{
	struct link_env *env = l->env;
	double wait = l->kind == LINK_KIND_OWN ? 0 : env->failover_wait;

	if (is_over_max(l)) {
		if (env->over_max)
			metrics_count(env->over_max, 1);
		l->dial = dial_refuse(&env->dialer, "hasp has links_max links to this server",
		                      link_on_dialled, l);
		return;
	}
	if (env->no_server_reason || wait > 0)
		begin_opening(l, wait);
	link_try(l);
}

/* Begins to connect. `accepted`: the login of link_new_accepted(), or NULL. */
static void link_begin(struct link *l, const struct link_login *accepted)
{
	struct link_env *env = l->env;

	link_set_state(l, l->logins_due ? LINK_LOGGING_IN : LINK_OPEN);
	if (env->connect)
		stream_attach_peer(&l->stream, env->connect(env, l, accepted));
	else
		link_connect(l);
}

struct link *link_new(struct link_env *env, enum link_kind kind, const struct link_login *login)
{
	struct link *l = link_alloc(env, kind);
	struct login_script script = { .bytes = BUF_INIT };

	if (login)
		write_login(&script, login);
	send_login(l, &script);
	link_begin(l, NULL);
	if (l->opening)
		l->opening->login = script;
	else
		buf_release(&script.bytes);
	return l;
}

struct link *link_new_accepted(struct link_env *env, const struct link_login *login)
{
	struct link *l = link_alloc(env, LINK_KIND_SHARED);

	link_begin(l, login);
	return l;
}
