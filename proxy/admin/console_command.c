/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "admin/admin_internal.h"
#include "base/clock.h"
#include "base/quote.h"
#include "client/client.h"
#include "resp/write.h"

struct console_command {
	const char *name;
	const char *args; /* the arguments, as HELP shows them */
	const char *help; /* NULL: HELP does not show the command, which only libraries send */
	size_t argc_min, argc_max; /* limits of the number of arguments, including the name */
	bool before_login; /* the command is allowed before a login */
	void (*run)(struct console *c, const struct resp_view *req, struct buf *out);
};

/* --- logging in --- */

/* Compares the passwords. The time depends only on their lengths. */
static bool is_password(const struct console *c, struct slice given)
{
	struct slice is = slice_str(c->admin->config->admin_password);
	unsigned char differs = 0;

	if (given.n != is.n)
		return false;
	for (size_t i = 0; i < is.n; i++)
		differs |= (unsigned char)(given.p[i] ^ is.p[i]);
	return differs == 0;
}

/* Logs in with the arguments of AUTH. Returns false, with an error appended, if that fails. */
static bool log_in(struct console *c, const struct slice *argv, size_t argc, struct buf *out)
{
	uint32_t dropped;

	if (!c->admin->config->admin_password) {
		buf_puts(out, "-ERR AUTH called without any password configured for the "
		              "console\r\n");
		return false;
	}
	if ((argc == 1 || slice_is(argv[0], "default")) && is_password(c, argv[argc - 1])) {
		c->logged_in = true;
		return true;
	}
	if (log_limit_pass(&c->admin->failed, clock_now(), 10, &dropped))
		log_warning("console_login_failed by=\"%s\" suppressed=%u", c->peer, dropped);
	buf_puts(out, "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	c->answer_at = clock_now() + CONSOLE_REFUSAL_SECONDS;
	console_await(c);
	return false;
}

static void run_auth(struct console *c, const struct resp_view *req, struct buf *out)
{
	if (log_in(c, req->argv + 1, req->argc - 1, out))
		buf_puts(out, "+OK\r\n");
}

/* Runs HELLO [2|3 [AUTH user password] [SETNAME name]]. */
static void run_hello(struct console *c, const struct resp_view *req, struct buf *out)
{
	int protocol = c->protocol;
	struct rows reply;
	size_t i = 1;

	if (req->argc > i) {
		bool three = slice_is(req->argv[i], "3");

		if (!three && !slice_is(req->argv[i], "2")) {
			buf_puts(out, "-NOPROTO unsupported protocol version\r\n");
			return;
		}
		protocol = three ? 3 : 2;
		i++;
	}
	while (i < req->argc) {
		if (slice_is(req->argv[i], "auth") && i + 2 < req->argc) {
			if (!log_in(c, req->argv + i + 1, 2, out))
				return;
			i += 3;
		} else if (slice_is(req->argv[i], "setname") && i + 1 < req->argc) {
			i += 2;
		} else {
			buf_puts(out, "-ERR Syntax error in HELLO\r\n");
			return;
		}
	}
	if (!c->logged_in) {
		buf_puts(out, "-NOAUTH HELLO must be called with AUTH on this console\r\n");
		return;
	}
	c->protocol = protocol;
	rows_init(&reply, protocol);
	rows_begin(&reply, 6);
	rows_add_str(&reply, "server", "hasp");
	rows_add_str(&reply, "version", PACKAGE_VERSION);
	rows_add_int(&reply, "proto", protocol);
	rows_add_int(&reply, "id", (int64_t)c->id);
	rows_add_str(&reply, "mode", "console");
	rows_add_str(&reply, "role", "console");
	buf_append(out, buf_slice(&reply.bytes));
	rows_fini(&reply);
}

/* --- commands that clients send when they connect --- */

static void run_ping(struct console *c, const struct resp_view *req, struct buf *out)
{
	(void)c;
	if (req->argc > 1)
		resp_write_bulk(out, req->argv[1]);
	else
		buf_puts(out, "+PONG\r\n");
}

static void run_quit(struct console *c, const struct resp_view *req, struct buf *out)
{
	(void)req;
	console_end(c);
	buf_puts(out, "+OK\r\n");
}

/* Answers CLIENT. The console ignores the names that clients give themselves. */
static void run_client(struct console *c, const struct resp_view *req, struct buf *out)
{
	if (slice_is(req->argv[1], "id"))
		buf_printf(out, ":%llu\r\n", (unsigned long long)c->id);
	else if (slice_is(req->argv[1], "setname") || slice_is(req->argv[1], "setinfo"))
		buf_puts(out, "+OK\r\n");
	else
		buf_puts(out, "-ERR unknown subcommand; the console knows CLIENT ID, SETNAME "
		              "and SETINFO\r\n");
}

static void run_select(struct console *c, const struct resp_view *req, struct buf *out)
{
	(void)c;
	buf_puts(out,
	         slice_is(req->argv[1], "0") ? "+OK\r\n" : "-ERR DB index is out of range\r\n");
}

/* Answers COMMAND with an empty list, which is enough for redis-cli. */
static void run_command(struct console *c, const struct resp_view *req, struct buf *out)
{
	(void)c;
	(void)req;
	resp_write_array(out, 0);
}

/* --- KILL --- */

struct kill {
	uint64_t id;
	char by[128];
};

static bool kill_client(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	const struct kill *k = arg;
	char reason[160];

	if (client_list_worker(k->id) != w->number)
		return true;
	snprintf(reason, sizeof(reason), "killed by %s", k->by);
	client_list_kill(w->clients, k->id, reason, &a->out);
	return true;
}

static void kill_by_id(const struct show_env *env, const void *arg, struct buf *out)
{
	const struct kill *k = arg;
	struct worker_answers answers;
	size_t n = workers_ask(env->shared, kill_client, k, sizeof(*k), CONSOLE_ASK_MS,
	                       &answers);

	for (size_t i = 0; i < answers.n; i++) {
		struct slice client = buf_slice(&answers.v[i].out);

		if (client.n == 0)
			continue;
		buf_puts(out, "+OK\r\n");
		log_info("console command=\"KILL CLIENT %lld\" client=%s by=\"%s\"",
		         (long long)k->id, QUOTE(client), k->by);
	}
	if (buf_len(out) == 0 && n < answers.n)
		buf_puts(out, "-ERR not all workers answered\r\n");
	else if (buf_len(out) == 0)
		buf_printf(out, "-ERR no client has the id %lld\r\n", (long long)k->id);
	worker_answers_fini(&answers);
}

/* Runs KILL CLIENT id. */
static void console_kill(struct console *c, const struct resp_view *req, struct buf *out)
{
	struct kill k = { 0 };
	int64_t id;

	if (!slice_is(req->argv[1], "client") || !slice_integer(req->argv[2], &id) || id < 0) {
		buf_puts(out, "-ERR syntax error; expected KILL CLIENT id\r\n");
		return;
	}
	k.id = (uint64_t)id;
	snprintf(k.by, sizeof(k.by), "%s", c->peer);
	console_job_begin(c, kill_by_id, &k, sizeof(k));
}

/* --- the table --- */

static void run_help(struct console *c, const struct resp_view *req, struct buf *out);

static void run_show(struct console *c, const struct resp_view *req, struct buf *out)
{
	if (slice_is(req->argv[1], "help"))
		run_help(c, req, out);
	else
		console_show(c, req, out);
}

static const struct console_command console_commands[] = {
	{ "SHOW", "what", "Shows one of the subjects below.", 2, 2, false, run_show },
	{ "RELOAD", "", "Reloads the configuration, as SIGHUP does, and then answers.", 1, 1,
	  false, console_reload },
	{ "KILL", "CLIENT id", "Closes a client's connection; SHOW CLIENTS lists the ids.", 3,
	  3, false, console_kill },
	{ "PAUSE", "", "Holds requests back; answers once Redis is idle and may be restarted.",
	  1, 1, false, console_pause },
	{ "RESUME", "[NOW]", "Ends PAUSE once Redis answers; NOW: at once.", 1, 2, false,
	  console_resume },
	{ "RECONNECT", "",
	  "Uses new connections to Redis, and closes the old ones once they are idle.", 1, 1,
	  false, console_reconnect },
	{ "UNLOCK", "key [DB n] FORCE", "Releases a lock or a guard, whatever its owner.", 3, 5,
	  false, console_unlock },
	{ "DRAIN", "", "Fails /readyz for lame_duck, then ends hasp as SHUTDOWN does.", 1, 1,
	  false, console_drain },
	{ "SHUTDOWN", "[NOW]", "Ends hasp once all clients are idle; NOW: at once.", 1, 2,
	  false, console_shut_down },
	{ "PING", "[text]", "Answers PONG, or the text.", 1, 2, false, run_ping },
	{ "AUTH", "[default] password", "Logs in, if the console has a password.", 2, 3, true,
	  run_auth },
	{ "QUIT", "", "Closes this connection.", 1, 1, true, run_quit },
	{ "HELP", "", "Shows the same as SHOW HELP.", 1, 1, false, run_help },
	{ "HELLO", "", NULL, 1, REQUEST_LOGIN_ARGC, true, run_hello },
	{ "CLIENT", "", NULL, 2, REQUEST_LOGIN_ARGC, false, run_client },
	{ "SELECT", "", NULL, 2, 2, false, run_select },
	{ "COMMAND", "", NULL, 1, REQUEST_LOGIN_ARGC, false, run_command },
};
#define NCOMMANDS (sizeof(console_commands) / sizeof(console_commands[0]))

static void add_help(struct rows *r, const char *name, const char *args, const char *help)
{
	struct buf text = BUF_INIT;

	buf_printf(&text, *args ? "%s %s" : "%s%s", name, args);
	rows_begin(r, 2);
	rows_add_text(r, "command", buf_slice(&text));
	rows_add_str(r, "help", help);
	buf_release(&text);
}

static void run_help(struct console *c, const struct resp_view *req, struct buf *out)
{
	struct rows rows;
	const char *what, *help;

	(void)req;
	rows_init(&rows, c->protocol);
	for (size_t i = 0; i < NCOMMANDS; i++) {
		if (console_commands[i].help)
			add_help(&rows, console_commands[i].name, console_commands[i].args,
			         console_commands[i].help);
	}
	for (size_t i = 0; (what = console_show_name(i, &help)); i++)
		add_help(&rows, "SHOW", what, help);
	rows_end(&rows, out);
	rows_fini(&rows);
}

void console_command_run(struct console *c, const struct resp_view *req, struct buf *out)
{
	const struct console_command *cmd = console_commands;
	const struct console_command *end = cmd + NCOMMANDS;

	while (cmd < end && !slice_is(req->argv[0], cmd->name))
		cmd++;
	if (!c->logged_in && (cmd == end || !cmd->before_login))
		buf_puts(out, "-NOAUTH Authentication required.\r\n");
	else if (cmd == end)
		buf_printf(out, "-ERR unknown command %s; try SHOW HELP\r\n",
		           QUOTE(req->argv[0]));
	else if (req->argc < cmd->argc_min || req->argc > cmd->argc_max)
		buf_printf(out, "-ERR wrong number of arguments; expected %s%s%s\r\n",
		           cmd->name, *cmd->args ? " " : "", cmd->args);
	else
		cmd->run(c, req, out);
}
