/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/control.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/list.h"
#include "base/log.h"
#include "base/quote.h"
#include "upstream/decode.h"
#include "upstream/own_conn.h"

#define CONTROL_RETRY_SECONDS 0.1
/* control_is_silent() is true when an answer has been due for this long. */
#define SILENT_SECONDS 1.0
/* Seconds between two checks of the eviction policy, which an operator may change. */
#define EVICTION_SECONDS 60.0

/* A request in flight, or held until its database is selected. */
struct control_request {
	control_fn *fn; /* NULL: ignore the reply */
	void *arg;
	int db; /* the database for the request */
	struct buf held; /* the request's bytes, until hasp sends it */
	struct list node; /* in `requests` or `held` */
};

struct control {
	struct control_opts opts;
	struct own_conn conn; /* hasp's connection; closed between two tries to connect */
	struct list requests; /* requests in flight, oldest first */
	struct list held; /* requests that wait until Redis has selected their database */
	bool selecting; /* SELECT for the first of `held` is in flight */
	int db; /* the database that Redis has selected */
	char *address; /* address of the last try to connect; the settings may have changed */
	struct loop_timer check; /* starts the checks; stopped if the delay is 0 */
	/* Runs while an answer is due; when it fires, health becomes SILENT. */
	struct loop_timer silence;
	enum control_health health; /* see control_set_health() */
	struct log_state logged; /* of `health` */
	enum server_role role;
	bool checking; /* a check is in flight */
	double asked_at; /* clock when the check, or the try to connect, began */
	struct metrics_histogram latency; /* response times of the server at `address` */
	char *error; /* the first error that Redis sent on the connection; NULL: none */
	bool login_failed; /* `error` is the reply to AUTH */
	bool busy; /* Redis answered the last PING with LOADING, BUSY or MASTERDOWN */
	bool introduced; /* control_introduce() was called for this link */
	bool up; /* logged in, and Redis has answered COMMAND */
	double eviction_asked_at; /* clock when INFO memory was last sent */
	char evicts[EVICTION_POLICY_MAX]; /* the eviction policy; empty: none */
	bool too_old; /* hasp does not support the server's version */
	bool in_cluster; /* the server is a node of a cluster */
};

/* --- requests ------------------------------------------------------------------------------
 *
 * A request for another database than the selected one, and all later requests, wait until
 * Redis has selected that database:
 *
 *   control_call() --> in flight, in `requests` --reply--> fn()
 *             `------> `held` --SELECT--^
 */

/* Calls the request's `fn` with `reply` (NULL: none will come), and frees the request. */
static void control_calls_end(struct control_request *req, const redisReply *reply)
{
	control_fn *fn = req->fn;
	void *arg = req->arg;

	list_remove(&req->node);
	buf_release(&req->held);
	free(req);
	if (fn)
		fn(arg, reply);
}

static struct control_request *control_first(const struct list *l)
{
	return list_first(l, struct control_request, node);
}

/* Calls control_calls_end() with NULL for all requests, because the connection has ended. */
static void control_calls_fail(struct control *c)
{
	struct control_request *req;

	while ((req = control_first(&c->requests)) || (req = control_first(&c->held)))
		control_calls_end(req, NULL);
}

static struct control_request *control_request_new(int db, control_fn *fn, void *arg)
{
	struct control_request *req = xcalloc(1, sizeof(*req));

	req->fn = fn;
	req->arg = arg;
	req->db = db;
	list_init(&req->node);
	return req;
}

static void control_send_request(struct control *c, struct control_request *req,
                                 struct slice bytes)
{
	list_append(&c->requests, &req->node);
	own_conn_send(&c->conn, bytes, 1, req);
}

void control_ask(struct control *c, const char *const *argv, size_t n, control_fn *fn,
                 void *arg)
{
	struct control_request *req = control_request_new(c->db, fn, arg);

	list_append(&c->requests, &req->node);
	own_conn_send_words(&c->conn, argv, n, req);
}

size_t control_inflight(const struct control *c)
{
	size_t nheld = 0;

	list_each (const struct control_request, req, &c->held, node)
		nheld++;
	return c->conn.user.inflight + nheld;
}

static void control_on_select(void *arg, const redisReply *reply);

/* Sends the held requests for the selected database, and selects the next one. */
static void control_go_on(struct control *c)
{
	struct control_request *req;
	char number[16];

	if (!c->up || c->selecting)
		return;
	while ((req = control_first(&c->held)) && req->db == c->db) {
		list_remove(&req->node);
		control_send_request(c, req, buf_slice(&req->held));
		buf_release(&req->held);
	}
	if (!req)
		return;
	c->selecting = true;
	snprintf(number, sizeof(number), "%d", req->db);
	control_ask(c, (const char *[]){ "SELECT", number }, 2, control_on_select, c);
}

/* Handles the reply to SELECT. If it is an error, fails all requests for that database, because
 * they must not run in another one. */
static void control_on_select(void *arg, const redisReply *reply)
{
	struct control *c = arg;
	struct control_request *req = control_first(&c->held);
	int db;

	HASP_ASSERT(req);
	db = req->db;
	if (reply && reply->type != REDIS_REPLY_ERROR) {
		c->db = db;
	} else {
		/* Take the first request each time: a callback may make another call. */
		while ((req = control_first(&c->held)) && req->db == db)
			control_calls_end(req, reply);
	}
	c->selecting = false;
	control_go_on(c);
}

int control_call(struct control *c, int db, struct slice request, control_fn *fn, void *arg)
{
	struct control_request *req;

	if (!c->up)
		return -1;
	req = control_request_new(db, fn, arg);
	if (db == c->db && list_empty(&c->held)) {
		control_send_request(c, req, request);
		return 0;
	}
	buf_append(&req->held, request);
	list_append(&c->held, &req->node);
	control_go_on(c);
	return 0;
}

static void control_on_reply(void *owner, void *tag, redisReply **reply)
{
	(void)owner;
	control_calls_end(tag, *reply);
}

static bool control_error_is(const char *error, const char *code)
{
	return strncmp(error, code, strlen(code)) == 0;
}

/* --- health ------------------------------------------------------------------------------- */

#define NOT(health) (1u << CONTROL_##health)

/* For each state, the states that must not follow it. */
static const unsigned control_forbidden[CONTROL_HEALTHS] = {
	[CONTROL_AWAY] = NOT(SILENT),
	[CONTROL_REFUSES] = NOT(SILENT),
	[CONTROL_WORKS] = NOT(REFUSES),
};

/* Sets the health. `state` tells apart what the log must tell apart (see log_state_pass()).
 * Returns true if the caller must log it, with *suppressed: a second connection to the server
 * logs nothing. */
static bool control_set_state(struct control *c, enum control_health health, int state,
                              uint32_t *suppressed)
{
	HASP_ASSERT(c->health == health || !(control_forbidden[c->health] & 1u << health));
	c->health = health;
	return c->opts.on_commands && log_state_pass(&c->logged, c->opts.env->clock(), state,
	                                             health == CONTROL_WORKS, suppressed);
}

static bool control_set_health(struct control *c, enum control_health health,
                               uint32_t *suppressed)
{
	return control_set_state(c, health, (int)health, suppressed);
}

/* True if the error means that the server serves no client now. */
static bool control_is_busy(const char *error)
{
	return control_error_is(error, "LOADING") || control_error_is(error, "BUSY") ||
	       control_error_is(error, "MASTERDOWN");
}

/* Starts to wait for an answer of Redis. */
static void control_await(struct control *c)
{
	c->asked_at = c->opts.env->clock();
	loop_timer_stop(&c->silence);
	loop_timer_repeat(&c->silence, CONTROL_SILENT_SECONDS);
}

static void control_on_silence(void *arg)
{
	struct control *c = arg;
	uint32_t suppressed;

	/* The answer may have come while hasp was suspended, or short of memory. A server that
	 * was unreachable, or refused hasp, stays in that state if it hangs now. */
	if ((c->conn.user.link && link_has_input(c->conn.user.link)) ||
	    c->health == CONTROL_AWAY || c->health == CONTROL_REFUSES)
		return;
	if (control_set_health(c, CONTROL_SILENT, &suppressed))
		log_warning(
			"upstream_silent address=%s seconds=%.0f effect=\"hasp is not ready\" "
			"suppressed=%" PRIu32,
			c->address, CONTROL_SILENT_SECONDS, suppressed);
}

/* Records that Redis has answered PING. `error`: the answer, if it is an error; else NULL. */
static void control_note_pong(struct control *c, const char *error)
{
	uint32_t suppressed;

	c->busy = error && control_is_busy(error);
	if (!c->up)
		return;
	if (!c->busy && control_set_health(c, CONTROL_WORKS, &suppressed))
		log_info("upstream_answers address=%s", c->address);
	else if (c->busy && control_set_health(c, CONTROL_BUSY, &suppressed))
		log_warning("upstream_busy address=%s error=%s effect=\"hasp is not ready\" "
		            "suppressed=%" PRIu32,
		            c->address, QUOTE_STR(error), suppressed);
}

/* --- the connection ----------------------------------------------------------------------- */

static void control_forget_error(struct control *c)
{
	free(c->error);
	c->error = NULL;
	c->login_failed = false;
}

static void control_on_down(void *owner, enum link_end end, const char *reason)
{
	struct control *c = owner;
	/* The states of link_log_state() come after those of control_set_health(). */
	int state = CONTROL_HEALTHS +
	            link_log_state(end, reason, c->logged.logged - CONTROL_HEALTHS);
	uint32_t suppressed;

	/* A server that has reached its limit of clients sends an error before it closes the
	 * connection: c->error. If there is no server, the watcher logs its absence.
	 * control_on_command() logs that the server refuses a command. */
	if (end != LINK_REFUSED && control_set_state(c, CONTROL_AWAY, state, &suppressed) &&
	    !c->opts.env->no_server_reason)
		log_warning("upstream_down address=%s reason=%s suppressed=%" PRIu32,
		            c->address, QUOTE_STR(c->error ? c->error : reason), suppressed);
	loop_timer_stop(&c->silence);
	c->up = c->checking = false;
	control_forget_error(c);
	control_calls_fail(c);
}

/* Records the connection's first error: later errors are its consequences. */
static void control_note_error(struct control *c, const redisReply *reply)
{
	if (reply && reply->type == REDIS_REPLY_ERROR && !c->error)
		c->error = xstrdup(reply->str);
}

/* Handles the reply to HELLO. A server without HELLO counts as supported, and as no node of a
 * cluster. */
static void control_on_hello(void *arg, const redisReply *reply)
{
	struct control *c = arg;
	const char *version = reply_value(reply, "version");
	char error[128];

	c->in_cluster = slice_same_str(reply_value(reply, "mode"), "cluster");
	c->too_old = version && version_is_too_old(version);
	if (!c->too_old || c->error)
		return;
	snprintf(error, sizeof(error), "version %.32s is too old: " SERVER_NEEDED, version);
	c->error = xstrdup(error);
}

/* Returns a hint to the operator about an error; NULL: none. */
static const char *control_hint(const char *error)
{
	if (control_error_is(error, "NOAUTH"))
		return "set [upstream] user and password";
	if (control_error_is(error, "WRONGPASS") || strstr(error, "AUTH"))
		return "Redis does not accept the user and password of [upstream]";
	if (control_error_is(error, "NOPERM"))
		return "give the user of [upstream] the permissions in hasp.ini(5)";
	return NULL;
}

static void control_warn_of_error(const struct control *c, const char *event, const char *error,
                                  const char *effect, uint32_t suppressed)
{
	const char *hint = control_hint(error);

	log_warning("%s address=%s error=%s effect=\"%s\"%s%s%s suppressed=%" PRIu32, event,
	            c->address, QUOTE_STR(error), effect, hint ? " hint=\"" : "",
	            hint ? hint : "", hint ? "\"" : "", suppressed);
}

static void control_on_role(void *arg, const redisReply *reply)
{
	struct control *c = arg;
	enum server_role role = role_of(reply);

	c->checking = false;
	if (c->up && reply)
		loop_timer_stop(&c->silence);
	/* The role is unknown if an ACL forbids ROLE. */
	if (role == ROLE_UNKNOWN || role == c->role)
		return;
	if (c->role != ROLE_UNKNOWN)
		log_warning("upstream_role address=%s old=%s new=%s", c->address,
		            role_name(c->role), role_name(role));
	c->role = role;
	if (c->opts.on_role)
		c->opts.on_role(c->opts.arg, role);
}

static void control_on_memory(void *arg, const redisReply *reply)
{
	struct control *c = arg;
	char policy[EVICTION_POLICY_MAX];

	/* The reply is an error if an ACL forbids INFO. */
	if (!reply || reply->type != REDIS_REPLY_STRING ||
	    !eviction_read(slice_of(reply->str, (size_t)reply->len), policy) ||
	    strcmp(policy, c->evicts) == 0)
		return;
	if (*policy)
		log_warning("upstream_evicts address=%s policy=%s hint=\"" EVICTION_HINT "\"",
		            c->address, QUOTE_STR(policy));
	else
		log_info(
			"upstream_noeviction address=%s effect=\"Redis does not evict keys any "
			"more\"",
			c->address);
	memcpy(c->evicts, policy, sizeof(policy));
}

static void control_ask_eviction(struct control *c)
{
	c->eviction_asked_at = c->opts.env->clock();
	control_ask(c, (const char *[]){ "INFO", "memory" }, 2, control_on_memory, c);
}

static void control_on_pong(void *arg, const redisReply *reply)
{
	struct control *c = arg;

	if (!reply)
		return;
	metrics_observe(&c->latency, c->opts.env->clock() - c->asked_at);
	control_note_pong(c, reply->type == REDIS_REPLY_ERROR ? reply->str : NULL);
}

/* Checks by PING, because an ACL may forbid ROLE. Any answer to PING counts, also an error. */
void control_check(struct control *c)
{
	if (!c->up || c->checking)
		return;
	c->checking = true;
	control_await(c);
	control_ask(c, (const char *[]){ "PING" }, 1, control_on_pong, c);
	control_ask(c, (const char *[]){ "ROLE" }, 1, control_on_role, c);
	if (c->opts.on_commands && c->asked_at - c->eviction_asked_at >= EVICTION_SECONDS)
		control_ask_eviction(c);
}

static void control_on_check(void *arg)
{
	control_check(arg);
}

/* Handles the reply to the last command of the introduction: the connection is up. */
static void control_worked(struct control *c, const redisReply *reply)
{
	uint32_t suppressed;
	bool logs;

	loop_timer_stop(&c->silence);
	c->up = true;
	logs = control_set_health(c, c->busy ? CONTROL_BUSY : CONTROL_WORKS, &suppressed);
	if (logs && c->login_failed)
		control_warn_of_error(c, "upstream_login", c->error,
		                      "hasp continues without a login", suppressed);
	control_forget_error(c);
	if (c->opts.on_commands) {
		size_t ncommands = c->opts.on_commands(c->opts.arg, reply);

		if (logs)
			log_info("upstream_up address=%s commands=%zu role=%s", c->address,
			         ncommands, role_name(c->role));
	}
	own_conn_worked(&c->conn);
	if (c->opts.on_up)
		c->opts.on_up(c->opts.arg);
}

static void control_on_command(void *arg, const redisReply *reply)
{
	struct control *c = arg;
	bool worked = reply && reply->type != REDIS_REPLY_ERROR && !c->too_old;
	uint32_t suppressed;
	const char *error;

	if (!reply && !c->conn.user.link)
		return;
	if (worked) {
		control_worked(c, reply);
		return;
	}
	control_note_error(c, reply);
	error = c->error ? c->error : "hasp does not understand the reply to COMMAND";
	if (c->opts.env->errors)
		metrics_count(&c->opts.env->errors[LINK_REFUSED], 1);
	/* Go on serving clients: they have their own logins, which Redis may accept. */
	if (control_set_health(c, control_is_busy(error) ? CONTROL_BUSY : CONTROL_REFUSES,
	                       &suppressed))
		control_warn_of_error(
			c, "upstream_refused", error,
			"locks are neither renewed nor released until this is fixed",
			suppressed);
	own_conn_fail(&c->conn, LINK_REFUSED, error);
}

/* Sends the introduction: the commands with which every connection begins, logged in or not.
 * The reply to the last one shows that the connection works. */
static void control_introduce(struct control *c)
{
	const struct link_env *env = c->opts.env;
	char name[64];

	c->introduced = true;
	control_ask(c, (const char *[]){ "HELLO" }, 1, control_on_hello, c);
	if (env->own_name) {
		snprintf(name, sizeof(name), "%s-%s", env->own_name,
		         c->opts.on_commands ? "control" : "acks");
		control_ask(c, (const char *[]){ "CLIENT", "SETNAME", name }, 3, NULL, NULL);
	}
	if (!c->opts.on_commands) {
		control_ask(c, (const char *[]){ "PING" }, 1, control_on_command, c);
		return;
	}
	control_ask(c, (const char *[]){ "ROLE" }, 1, control_on_role, c);
	control_ask_eviction(c);
	control_ask(c, (const char *[]){ "COMMAND" }, 1, control_on_command, c);
}

static void control_on_auth(void *arg, const redisReply *reply)
{
	struct control *c = arg;

	if (!c->conn.user.link)
		return;
	/* Forget PING's error, which was expected without a login. */
	control_forget_error(c);
	control_note_error(c, reply);
	c->login_failed = c->error;
	control_introduce(c);
}

/* Handles the reply to PING, which shows whether Redis requires a login. hasp sends AUTH only
 * now, because Redis does not answer an AUTH that fails while another reply is pending. */
static void control_on_ping(void *arg, const redisReply *reply)
{
	struct control *c = arg;
	const struct link_env *env = c->opts.env;

	if (!c->conn.user.link)
		return;
	link_note_login(c->opts.env,
	                reply && reply->type == REDIS_REPLY_ERROR &&
	                        control_error_is(reply->str, "NOAUTH"),
	                c->asked_at);
	if (reply)
		control_note_pong(c, reply->type == REDIS_REPLY_ERROR ? reply->str : NULL);
	if (!env->login_required)
		control_note_error(c, reply);
	if (c->introduced)
		return;
	if (env->password)
		control_ask(c, (const char *[]){ "AUTH", env->user, env->password }, 3,
		            control_on_auth, c);
	else
		control_introduce(c);
}

static void control_connect(void *arg)
{
	struct control *c = arg;
	struct link_env *env = c->opts.env;

	c->db = 0;
	c->selecting = false;
	control_await(c);
	if (c->address && strcmp(c->address, env->name) != 0)
		c->latency = (struct metrics_histogram){ 0 };
	free(c->address);
	c->address = xstrdup(env->name);
	own_conn_open(&c->conn, NULL);
	c->introduced = false;
	control_ask(c, (const char *[]){ "PING" }, 1, control_on_ping, c);
	if (!env->password)
		control_introduce(c);
}

static const struct own_conn_ops control_conn_ops = {
	.on_reply = control_on_reply,
	.on_down = control_on_down,
	.connect = control_connect,
};

struct control *control_new(const struct control_opts *opts)
{
	struct control *c = xcalloc(1, sizeof(*c));

	c->opts = *opts;
	own_conn_init(&c->conn, opts->env, CONTROL_RETRY_SECONDS, &control_conn_ops, c);
	list_init(&c->requests);
	list_init(&c->held);
	c->asked_at = opts->env->clock();
	loop_timer_init(&c->check, opts->env->dialer.loop, control_on_check, c);
	loop_timer_init(&c->silence, opts->env->dialer.loop, control_on_silence, c);
	own_conn_reconnect(&c->conn, NULL);
	return c;
}

void control_reconnect(struct control *c, const char *reason)
{
	own_conn_reconnect(&c->conn, reason);
	/* Forget the health, so that hasp logs a failure of the new address, too. */
	c->health = CONTROL_CONNECTING;
	c->logged = (struct log_state){ 0 };
	c->asked_at = c->opts.env->clock();
	c->role = ROLE_UNKNOWN;
	*c->evicts = '\0';
}

void control_free(struct control *c)
{
	loop_timer_stop(&c->check);
	loop_timer_stop(&c->silence);
	own_conn_close(&c->conn);
	c->up = false;
	control_calls_fail(c);
	control_forget_error(c);
	free(c->address);
	free(c);
}

bool control_is_up(const struct control *c)
{
	return c->up;
}

enum control_health control_health(const struct control *c)
{
	return c->health;
}

void control_add_latency(const struct control *c, struct metrics_sums *sums)
{
	metrics_add_up(sums, &c->latency);
}

bool control_is_in_cluster(const struct control *c)
{
	return c->in_cluster;
}

bool control_is_answering(const struct control *c)
{
	return c->up && !c->checking;
}

bool control_is_silent(const struct control *c)
{
	if (control_is_answering(c))
		return false;
	if (!c->up && c->health != CONTROL_CONNECTING)
		return true;
	/* If the link has input, the answer may have come while hasp was suspended. */
	return c->opts.env->clock() - c->asked_at >= SILENT_SECONDS &&
	       !(c->conn.user.link && link_has_input(c->conn.user.link));
}

const char *control_evicts(const struct control *c)
{
	return c->evicts;
}

enum server_role control_role(const struct control *c)
{
	return c->role;
}

void control_set_check_delay(struct control *c, int64_t delay_ms)
{
	loop_timer_repeat(&c->check, (double)delay_ms / 1000);
}
