/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session_command: commands that change the state of a connection: the login, the protocol
 * version, the database, the name, tracking. A cluster session has several connections, but its
 * client sees one. So hasp sends a session command to the home node when all earlier requests
 * are answered. If Redis accepts the command there, hasp also sends it on all other open links,
 * and on each link that it opens later. The next session command waits for all answers to this
 * one.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "cluster/session_internal.h"
#include "commands/args.h"
#include "resp/write.h"

/* --- commands in force -------------------------------------------------------------------- */

static void replayed_free(struct replayed *r)
{
	list_remove(&r->node);
	buf_release(&r->request);
	buf_release(&r->user);
	free(r);
}

void replay_fini(struct replay *r)
{
	list_drain (struct replayed, one, &r->commands, node)
		replayed_free(one);
}

/* Removes the commands that RESET undoes. */
static void replay_reset(struct replay *r)
{
	list_drain (struct replayed, one, &r->commands, node)
		if (one->kind != REPLAY_LIB_NAME && one->kind != REPLAY_LIB_VER)
			replayed_free(one);
}

static struct replayed *replay_append(struct replay *r, enum replay_kind kind,
                                      struct slice request)
{
	struct replayed *added = xcalloc(1, sizeof(*added));

	added->kind = kind;
	added->serial = ++r->serial;
	buf_append(&added->request, request);
	list_append(&r->commands, &added->node);
	return added;
}

/* Removes each login that is directly followed by another login. */
static void replay_drop_idle_logins(struct replay *r)
{
	list_drain (struct replayed, one, &r->commands, node) {
		const struct replayed *next = list_entry(one->node.next, &r->commands,
		                                         struct replayed, node);
		if (next && one->kind == REPLAY_LOGIN && next->kind == REPLAY_LOGIN)
			replayed_free(one);
	}
}

static void replay_add(struct replay *r, enum replay_kind kind, struct slice request)
{
	list_drain (struct replayed, one, &r->commands, node)
		if (one->kind == kind)
			replayed_free(one);
	(void)replay_append(r, kind, request);
	replay_drop_idle_logins(r);
}

/* Adds a login that was accepted. Keeps the logins of other users, under which Redis has
 * accepted the commands between the logins: without a login, Redis might refuse these. Replaces
 * the earlier logins of the same user, whose password may have changed. */
static void replay_add_login(struct replay *r, struct slice user, struct slice request)
{
	const struct replayed *last = NULL;

	list_each (struct replayed, one, &r->commands, node) {
		if (one->kind != REPLAY_LOGIN)
			continue;
		last = one;
		if (!slice_eq(buf_slice(&one->user), user))
			continue;
		buf_clear(&one->request);
		buf_append(&one->request, request);
	}
	if (!last || !slice_eq(buf_slice(&last->user), user))
		buf_append(&replay_append(r, REPLAY_LOGIN, request)->user, user);
	replay_drop_idle_logins(r);
}

/* Adds a HELLO that was accepted. Adds its login and its name separately, because a later HELLO
 * without these options leaves them in force. Adds the name by another HELLO, which Redis
 * accepts of all users, unlike CLIENT SETNAME. */
static void replay_add_hello(struct replay *r, const struct resp_view *hello)
{
	struct slice login[] = { SLICE_LIT("AUTH"), SLICE_NONE, SLICE_NONE };
	struct slice name[] = { hello->argv[0], hello->argv[1], SLICE_LIT("SETNAME"),
		                SLICE_NONE };
	bool has_login = false, has_name = false;
	struct buf request = BUF_INIT;

	/* Of several options of one kind, Redis uses the last. */
	for (size_t i = 2; i + 1 < hello->argc; i++) {
		if (args_option(hello->argv[i], "AUTH") && i + 2 < hello->argc) {
			login[1] = hello->argv[++i];
			login[2] = hello->argv[++i];
			has_login = true;
		} else if (args_option(hello->argv[i], "SETNAME")) {
			name[3] = hello->argv[++i];
			has_name = true;
		}
	}
	if (has_login) {
		resp_write_request(&request, login, 3);
		replay_add_login(r, login[1], buf_slice(&request));
		buf_clear(&request);
	}
	if (has_name) {
		resp_write_request(&request, name, 4);
		replay_add(r, REPLAY_NAME, buf_slice(&request));
		buf_clear(&request);
	}
	resp_write_request(&request, hello->argv, 2);
	replay_add(r, REPLAY_HELLO, buf_slice(&request));
	buf_release(&request);
}

void session_command_map_changed(struct cluster_session *s)
{
	static const struct slice forget = SLICE_LIT(">2\r\n$10\r\ninvalidate\r\n_\r\n");

	if (!s->tracks || s->proto != 3 || s->flow == FLOW_CLOSED || session_is_raw(s))
		return;
	session_push(s, forget);
	/* The old node may have sent a reply in flight before it gave the slot away. */
	entries_push_after(s, forget);
}

/* --- requests ----------------------------------------------------------------------------- */

/* The subcommands of CLIENT that are session commands. */
static const struct {
	const char *name;
	enum replay_kind kind;
} of_client[] = {
	{ "SETNAME", REPLAY_NAME },
	{ "TRACKING", REPLAY_TRACKING },
	{ "NO-EVICT", REPLAY_NO_EVICT },
	{ "NO-TOUCH", REPLAY_NO_LRU },
};

static enum replay_kind kind_of(const struct command *c, const struct resp_view *req)
{
	switch ((enum command_session)c->facts.session) {
	case SESSION_AUTH:
		return REPLAY_LOGIN;
	case SESSION_HELLO:
		return req->argc > 1 ? REPLAY_HELLO : REPLAY_NONE;
	case SESSION_RESET:
		return REPLAY_RESET;
	case SESSION_SELECT:
		return REPLAY_SELECT;
	case SESSION_CLIENT:
		break;
	default:
		return REPLAY_NONE;
	}
	if (req->argc == 4 && args_option(req->argv[1], "SETINFO"))
		return args_option(req->argv[2], "LIB-NAME")  ? REPLAY_LIB_NAME
		       : args_option(req->argv[2], "LIB-VER") ? REPLAY_LIB_VER
		                                              : REPLAY_NONE;
	for (size_t i = 0; req->argc > 1 && i < sizeof(of_client) / sizeof(of_client[0]); i++)
		if (args_option(req->argv[1], of_client[i].name))
			return of_client[i].kind;
	return REPLAY_NONE;
}

/* Adds a session command that was accepted, and is not RESET. */
static void add_accepted(struct cluster_session *s, enum replay_kind kind, struct slice request)
{
	struct resp_view view;
	bool whole;

	view = request_view(&s->cluster->args, request.p, request.n, &whole);
	HASP_ASSERT(whole && view.argc > 1);
	switch (kind) {
	case REPLAY_LOGIN:
		replay_add_login(&s->replay,
		                 view.argc > 2 ? view.argv[1] : SLICE_LIT("default"), request);
		return;
	case REPLAY_HELLO:
		s->proto = slice_eq(view.argv[1], SLICE_LIT("3")) ? 3 : 2;
		replay_add_hello(&s->replay, &view);
		return;
	case REPLAY_TRACKING:
		s->tracks = view.argc > 2 && args_option(view.argv[2], "ON");
		break;
	default:
		break;
	}
	replay_add(&s->replay, kind, request);
}

/* Handles the home node's answer. The entry's `arg`: the kind of the session command. */
static void on_accepted(struct cluster_entry *e, struct cluster_part *p, bool is_error)
{
	struct cluster_session *s = e->session;
	enum replay_kind kind = (enum replay_kind)(uintptr_t)e->arg;
	struct slice request = buf_slice(&p->request);

	if (is_error)
		return;
	if (kind == REPLAY_RESET) {
		s->admitted = false;
		s->proto = 2;
		s->tracks = false;
		node_conns_forget_subscriptions(s, p->node_conn);
		replay_reset(&s->replay);
	} else {
		add_accepted(s, kind, request);
	}
	node_conns_write_replay(s, p, request);
}

static bool take_reply_mode(struct cluster_session *s, struct slice mode)
{
	if (args_option(mode, "ON")) {
		s->reply_mode = REPLY_ON;
		entry_answer_new(s, SLICE_LIT("+OK\r\n"));
	} else if (args_option(mode, "OFF")) {
		s->reply_mode = REPLY_OFF;
	} else if (args_option(mode, "SKIP")) {
		if (s->reply_mode == REPLY_ON)
			s->reply_mode = REPLY_SKIP_NEXT;
	} else {
		return false;
	}
	return true;
}

/* True for a CLIENT command that names another connection by its id. Each node counts its
 * connections by itself, so the command could reach another client than the intended one. */
static bool names_id(const struct resp_view *req)
{
	if (req->argc < 3)
		return false;
	if (args_option(req->argv[1], "UNBLOCK"))
		return true;
	if (!args_option(req->argv[1], "KILL"))
		return false;
	/* The arguments are filters, each followed by its value. */
	for (size_t i = 2; i + 1 < req->argc; i += 2)
		if (args_option(req->argv[i], "ID") || args_option(req->argv[i], "NOT-ID"))
			return true;
	return false;
}

/* Returns the error for a CLIENT command that cannot work on several connections; SLICE_NONE:
 * the command can. */
static struct slice several_conns_error(const struct resp_view *req)
{
	if (args_option(req->argv[1], "CACHING"))
		return SLICE_LIT("-ERR hasp: in front of a cluster, CLIENT CACHING is not "
		                 "possible\r\n");
	if (names_id(req))
		return SLICE_LIT("-ERR hasp: in front of a cluster, CLIENT KILL and UNBLOCK "
		                 "take no client ids: each node has its own ids\r\n");
	for (size_t i = 2; i < req->argc && args_option(req->argv[1], "TRACKING"); i++) {
		if (args_option(req->argv[i], "REDIRECT"))
			return SLICE_LIT("-ERR hasp: in front of a cluster, CLIENT TRACKING "
			                 "with REDIRECT is not possible\r\n");
		/* Each node reports only its own keys, and only to its own clients. */
		if (args_option(req->argv[i], "BCAST"))
			return SLICE_LIT("-ERR hasp: in front of a cluster, CLIENT TRACKING "
			                 "with BCAST is not possible\r\n");
	}
	return SLICE_NONE;
}

/* --- requests before a login --------------------------------------------------------------
 *
 * If Redis requires a login, it answers requests before the login by -NOAUTH. Before hasp
 * itself answers such a request, it asks the home node whether the node serves the session. */

/* True if hasp answers the request itself, and Redis would answer it only after a login. */
static bool is_answered_by_hasp(const struct command *c, const struct resp_view *req)
{
	struct plan p;

	if (!command_arity_ok(c, req->argc))
		return false;
	switch ((enum command_session)c->facts.session) {
	case SESSION_MULTI:
	case SESSION_SYNC:
		return true;
	case SESSION_CLIENT:
		return req->argc > 1 &&
		       ((req->argc == 3 && args_option(req->argv[1], "REPLY")) ||
		        several_conns_error(req).n);
	default:
		p = plan_request(c, req);
		return p.kind == PLAN_CROSSSLOT || p.kind == PLAN_DISABLED;
	}
}

/* True if hasp's own connections have learned that Redis requires no login. */
static bool needs_no_login(const struct link_env *env)
{
	return env->login_checked_at > 0 && !env->login_required;
}

/* Handles the answer to the question. If the node could not be asked, its error is the answer
 * to the request, too. */
static void on_asked(struct cluster_entry *e, struct cluster_part *p, bool is_error)
{
	struct slice reply = buf_slice(&p->reply);

	if (is_error && (!p->node_conn || slice_starts(reply, SLICE_LIT("-NOAUTH"))))
		buf_append(&e->session->login_error, reply);
	else
		e->session->admitted = true;
}

static void merge_nothing(struct cluster_entry *e, struct buf *out)
{
	(void)e;
	(void)out;
}

/* Sends REPLCONF, which does nothing; the client gets no reply to it. */
static void ask_home(struct cluster_session *s)
{
	struct cluster_entry *e = entry_begin_one(s, -1, NULL,
	                                          SLICE_LIT("*1\r\n$8\r\nREPLCONF\r\n"));

	e->only.reads = true;
	e->on_reply = on_asked;
	e->merge = merge_nothing;
	entry_start(e);
	/* Let the tick check whether the home answers. */
	session_trouble(s);
}

enum take session_command_check_login(struct cluster_session *s, const struct command *c,
                                      const struct resp_view *req)
{
	struct buf error = s->login_error;

	if (!is_answered_by_hasp(c, req))
		return TAKE_NOT;
	if (buf_len(&error)) {
		s->login_error = BUF_INIT;
		entry_answer_new(s, buf_slice(&error));
		buf_release(&error);
		return TAKE_DONE;
	}
	if (needs_no_login(s->env))
		return TAKE_NOT;
	/* A login may be in flight. CLIENT REPLY is ON: nothing has been served yet. */
	if (list_empty(&s->entries) && !node_conns_replay(s))
		ask_home(s);
	return TAKE_LATER;
}

/* --- the other requests ------------------------------------------------------------------- */

/* Takes the CLIENT commands that hasp answers itself, or whose reply it changes. */
static bool take_client_command(struct cluster_session *s, const struct resp_view *req,
                                struct slice bytes)
{
	struct slice refusal = several_conns_error(req);
	struct cluster_entry *e;

	if (req->argc == 3 && args_option(req->argv[1], "REPLY"))
		return take_reply_mode(s, req->argv[2]);
	if (refusal.n) {
		entry_answer_new(s, refusal);
		return true;
	}
	if (req->argc != 2 ||
	    (!args_option(req->argv[1], "ID") && !args_option(req->argv[1], "INFO")))
		return false;
	/* The reply has a connection's id: entry_merge_mode() replaces the id. */
	e = entry_begin_one(s, -1, NULL, bytes);
	e->merge = entry_merge_mode;
	entry_start(e);
	return true;
}

enum take session_command_take(struct cluster_session *s, const struct command *c,
                               const struct resp_view *req, struct slice bytes)
{
	enum replay_kind kind = kind_of(c, req);
	struct cluster_entry *e;

	if (c->facts.session == SESSION_CLIENT && req->argc > 1 &&
	    take_client_command(s, req, bytes))
		return TAKE_DONE;
	if (kind == REPLAY_NONE)
		return TAKE_NOT;
	if (!list_empty(&s->entries) || node_conns_replay(s))
		return TAKE_LATER;
	/* RESET ends CLIENT REPLY OFF before Redis answers RESET. But after CLIENT REPLY SKIP,
	 * Redis does not answer RESET. */
	if (kind == REPLAY_RESET && command_arity_ok(c, req->argc) &&
	    s->reply_mode == REPLY_OFF)
		s->reply_mode = REPLY_ON;
	e = entry_begin_one(s, -1, NULL, bytes);
	e->on_reply = on_accepted;
	if (c->facts.cluster == CLUSTER_MODE)
		e->merge = entry_merge_mode;
	e->arg = (void *)(uintptr_t)kind; /* NOLINT(performance-no-int-to-ptr) */
	entry_start(e);
	session_set_flow(s, FLOW_BARRIER);
	return TAKE_DONE;
}
