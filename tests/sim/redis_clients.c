/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redis_clients: what a client says about its connection, and what a server says about itself.
 */
#include "tests/sim/redis_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/glob.h"

/* As after RESET, which does not undo a CLIENT REPLY SKIP of its own reply. */
void redis_conn_reset(struct sim_redis_conn *c)
{
	redis_multi_end(c);
	redis_watch_end(c);
	redis_subscriptions_end(c);
	free(c->name);
	c->name = NULL;
	c->resp = 2;
	c->db = 0;
	if (c->reply_mode != REDIS_REPLIES_SKIP)
		c->reply_mode = REDIS_REPLIES_ON;
	c->logged_in = !c->s->password;
}

/* --- login -------------------------------------------------------------------------------- */

/* On false the reply is the error. */
static bool log_in(struct redis_call *x, struct slice user, struct slice password)
{
	const char *right = x->s->password;
	bool is_right = slice_eq(user, SLICE_LIT("default")) &&
	                (!right || slice_eq(password, slice_str(right)));

	x->c->logged_in |= is_right;
	if (!is_right)
		redis_reply_error(
			x, "WRONGPASS invalid username-password pair or user is disabled.");
	return is_right;
}

static void redis_auth(struct redis_call *x)
{
	bool has_user = x->argc == 3;

	if (x->argc > 3)
		redis_reply_syntax(x);
	else if (!has_user && !x->s->password)
		redis_reply_error(x,
		                  "ERR AUTH <password> called without any password configured "
		                  "for the default user. Are you sure your configuration is "
		                  "correct?");
	else if (log_in(x, has_user ? x->argv[1] : SLICE_LIT("default"), x->argv[x->argc - 1]))
		redis_reply_ok(x);
}

static bool set_name(struct redis_call *x, struct slice name)
{
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] < '!' || name.p[i] > '~') {
			redis_reply_error(x,
			                  "ERR Client names cannot contain spaces, newlines or "
			                  "special characters.");
			return false;
		}
	free(x->c->name);
	x->c->name = name.n ? xmemdup(name.p, name.n) : NULL;
	return true;
}

static void reply_hello(struct redis_call *x)
{
	redis_reply_map(x, 7);
	redis_reply_text(x, "server");
	redis_reply_text(x, "redis");
	redis_reply_text(x, "version");
	redis_reply_text(x, REDIS_VERSION_TEXT);
	redis_reply_text(x, "proto");
	redis_reply_int(x, x->resp);
	redis_reply_text(x, "id");
	redis_reply_int(x, x->c->id);
	redis_reply_text(x, "mode");
	redis_reply_text(x, "standalone");
	redis_reply_text(x, "role");
	redis_reply_text(x, "master");
	redis_reply_text(x, "modules");
	redis_reply_array(x, 0);
}

static void redis_hello(struct redis_call *x)
{
	long long resp = x->c->resp;
	struct slice name = SLICE_NONE;

	if (x->argc > 1 && !redis_arg_int_or(x, 1, &resp,
	                                     "ERR Protocol version is not an integer or out of "
	                                     "range"))
		return;
	if (resp != 2 && resp != 3) {
		redis_reply_error(x, "NOPROTO unsupported protocol version");
		return;
	}
	for (size_t i = 2; i < x->argc; i++) {
		if (redis_arg_is(x, i, "AUTH") && i + 2 < x->argc) {
			if (!log_in(x, x->argv[i + 1], x->argv[i + 2]))
				return;
			i += 2;
		} else if (redis_arg_is(x, i, "SETNAME") && i + 1 < x->argc) {
			name = x->argv[++i];
			if (!set_name(x, name))
				return;
		} else {
			redis_reply_error(x, "ERR Syntax error in HELLO option '%.*s'",
			                  (int)x->argv[i].n, x->argv[i].p);
			return;
		}
	}
	if (!x->c->logged_in) {
		redis_reply_error(x, "NOAUTH HELLO must be called with the client already "
		                     "authenticated, otherwise the HELLO <proto> AUTH <user> "
		                     "<pass> option can be used to authenticate the client and "
		                     "select the RESP protocol version at the same time");
		return;
	}
	x->c->resp = x->resp = (int)resp;
	reply_hello(x);
}

/* --- the connection ----------------------------------------------------------------------- */

static void redis_select(struct redis_call *x)
{
	long long db;

	if (!redis_arg_int(x, 1, &db))
		return;
	if (db < 0 || db >= REDIS_DATABASES) {
		redis_reply_error(x, "ERR DB index is out of range");
		return;
	}
	*x->db = (int)db;
	redis_reply_ok(x);
}

static void redis_ping(struct redis_call *x)
{
	bool subscribed = x->resp == 2 && redis_conn_nsubscriptions(x->c);

	if (x->argc > 2) {
		redis_reply_arity(x);
	} else if (subscribed) {
		redis_reply_array(x, 2);
		redis_reply_text(x, "pong");
		redis_reply_bulk(x, x->argc == 2 ? x->argv[1] : SLICE_LIT(""));
	} else if (x->argc == 2) {
		redis_reply_bulk(x, x->argv[1]);
	} else {
		redis_reply_status(x, "PONG");
	}
}

static void redis_echo(struct redis_call *x)
{
	redis_reply_bulk(x, x->argv[1]);
}

static void redis_quit(struct redis_call *x)
{
	redis_reply_ok(x);
	redis_conn_close(x->c);
}

static void redis_reset(struct redis_call *x)
{
	redis_conn_reset(x->c);
	redis_reply_status(x, "RESET");
}

/* Commands that change nothing here. */
static void redis_ok(struct redis_call *x)
{
	redis_reply_ok(x);
}

/* --- CLIENT ------------------------------------------------------------------------------- */

static void redis_client_id(struct redis_call *x)
{
	redis_reply_int(x, x->c->id);
}

static void redis_client_setname(struct redis_call *x)
{
	if (set_name(x, x->argv[2]))
		redis_reply_ok(x);
}

static void redis_client_getname(struct redis_call *x)
{
	if (x->c->name)
		redis_reply_text(x, x->c->name);
	else
		redis_reply_nil(x);
}

static void describe(struct buf *out, const struct sim_redis_conn *c)
{
	buf_printf(
		out,
		"id=%" PRId64 " addr=127.0.0.1:%" PRId64 " laddr=127.0.0.1:6379 fd=8 name=%s "
		"age=0 idle=0 flags=%s db=%d sub=%zu psub=%zu ssub=%zu multi=%d user=default "
		"resp=%d\n",
		c->id, 10000 + c->id, c->name ? c->name : "",
		redis_conn_nsubscriptions(c) ? "P"
		: c->in_multi                ? "x"
					     : "N",
		c->db, c->subscriptions[REDIS_CHANNELS].n, c->subscriptions[REDIS_PATTERNS].n,
		c->subscriptions[REDIS_SHARD_CHANNELS].n, c->in_multi ? (int)c->nqueued : -1,
		c->resp);
}

static void redis_client_info(struct redis_call *x)
{
	struct buf text = BUF_INIT;

	describe(&text, x->c);
	redis_reply_bulk(x, buf_slice(&text));
	buf_release(&text);
}

static void redis_client_list(struct redis_call *x)
{
	struct buf text = BUF_INIT;

	for (struct list *at = x->s->conns.next; at != &x->s->conns; at = at->next)
		describe(&text, container_of(at, struct sim_redis_conn, node));
	redis_reply_bulk(x, buf_slice(&text));
	buf_release(&text);
}

/* CLIENT KILL ID n, and TYPE pubsub. */
static void redis_client_kill(struct redis_call *x)
{
	bool subscribers = x->argc == 4 && redis_arg_is(x, 2, "TYPE");
	long long id = 0, n = 0;

	if (x->argc != 4 ||
	    !(redis_arg_is(x, 2, "ID") || (subscribers && redis_arg_is(x, 3, "pubsub")))) {
		redis_reply_syntax(x);
		return;
	}
	if (!subscribers &&
	    !redis_arg_int_or(x, 3, &id, "ERR client-id should be greater than 0"))
		return;
	for (struct list *at = x->s->conns.next, *next; at != &x->s->conns; at = next) {
		struct sim_redis_conn *c = container_of(at, struct sim_redis_conn, node);
		next = at->next;
		if (subscribers ? redis_conn_nsubscriptions(c) == 0 : c->id != id)
			continue;
		redis_conn_close(c);
		n++;
	}
	redis_reply_int(x, n);
}

static void redis_client_reply(struct redis_call *x)
{
	if (redis_arg_is(x, 2, "ON")) {
		x->c->reply_mode = REDIS_REPLIES_ON;
		redis_reply_ok(x);
	} else if (redis_arg_is(x, 2, "OFF")) {
		x->c->reply_mode = REDIS_REPLIES_OFF;
	} else if (redis_arg_is(x, 2, "SKIP")) {
		if (x->c->reply_mode != REDIS_REPLIES_OFF)
			x->c->reply_mode = REDIS_REPLIES_SKIP_NEXT;
	} else {
		redis_reply_syntax(x);
	}
}

static void redis_client_no_evict(struct redis_call *x)
{
	if (redis_arg_is(x, 2, "ON") || redis_arg_is(x, 2, "OFF"))
		redis_reply_ok(x);
	else
		redis_reply_syntax(x);
}

/* --- what the server says about itself ---------------------------------------------------- */

static void write_run_id(const struct sim_redis *s, struct buf *out)
{
	buf_printf(out, "%016" PRIx64 "%024x", s->seed, s->nrestarts);
}

/* The fields that hasp and its tests read. */
static void redis_info(struct redis_call *x)
{
	const struct sim_redis *s = x->s;
	struct buf text = BUF_INIT;
	struct redis_items names = { 0 };
	bool all = x->argc == 1 || redis_arg_is(x, 1, "all") || redis_arg_is(x, 1, "default") ||
	           redis_arg_is(x, 1, "everything");

	if (all || redis_arg_is(x, 1, "server")) {
		buf_puts(&text, "# Server\r\nredis_version:" REDIS_VERSION_TEXT
		                "\r\nredis_mode:standalone\r\nrun_id:");
		write_run_id(s, &text);
		buf_printf(&text, "\r\ntcp_port:6379\r\nuptime_in_seconds:%" PRId64 "\r\n\r\n",
		           (s->now_ms - s->started_ms) / 1000);
	}
	if (all || redis_arg_is(x, 1, "memory"))
		buf_puts(&text, "# Memory\r\nused_memory:1000000\r\nmaxmemory:0\r\n"
		                "maxmemory_policy:noeviction\r\n\r\n");
	if (all || redis_arg_is(x, 1, "replication")) {
		buf_puts(&text, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
		                "master_replid:");
		write_run_id(s, &text);
		buf_puts(&text, "\r\nmaster_repl_offset:0\r\n\r\n");
	}
	if (all || redis_arg_is(x, 1, "keyspace"))
		buf_puts(&text, "# Keyspace\r\n");
	for (int db = 0; (all || redis_arg_is(x, 1, "keyspace")) && db < REDIS_DATABASES;
	     db++) {
		redis_database_names(x->s, db, &names);
		if (names.n)
			buf_printf(&text, "db%d:keys=%zu,expires=0,avg_ttl=0\r\n", db, names.n);
		redis_items_clear(&names);
	}
	if (x->resp == 3) {
		buf_printf(x->out, "=%zu\r\ntxt:", buf_len(&text) + 4);
		buf_append(x->out, buf_slice(&text));
		buf_puts(x->out, "\r\n");
	} else {
		redis_reply_bulk(x, buf_slice(&text));
	}
	buf_release(&text);
}

static void redis_role(struct redis_call *x)
{
	redis_reply_array(x, 3);
	redis_reply_text(x, "master");
	redis_reply_int(x, 0);
	redis_reply_array(x, 0);
}

static void redis_wait(struct redis_call *x)
{
	long long wanted, timeout;

	if (!redis_arg_int(x, 1, &wanted) ||
	    !redis_arg_int_or(x, 2, &timeout, "ERR timeout is not an integer or out of range"))
		return;
	if (timeout < 0)
		redis_reply_error(x, "ERR timeout is negative");
	else
		redis_reply_int(x, 0);
}

static void redis_time(struct redis_call *x)
{
	int64_t now = x->s->now_us(x->s->arg);
	char text[24];

	redis_reply_array(x, 2);
	snprintf(text, sizeof(text), "%" PRId64, now / 1000000);
	redis_reply_text(x, text);
	snprintf(text, sizeof(text), "%" PRId64, now % 1000000);
	redis_reply_text(x, text);
}

static void redis_config_get(struct redis_call *x)
{
	static const char *const options[][2] = {
		{ "maxmemory", "0" },   { "maxmemory-policy", "noeviction" },
		{ "databases", "16" },  { "save", "" },
		{ "appendonly", "no" }, { "timeout", "0" }
	};
	const size_t noptions = sizeof(options) / sizeof(*options);
	bool wanted[sizeof(options) / sizeof(*options)] = { false };
	size_t n = 0;

	for (size_t i = 2; i < x->argc; i++)
		for (size_t k = 0; k < noptions; k++)
			wanted[k] |= glob_match(x->argv[i], slice_str(options[k][0]));
	for (size_t k = 0; k < noptions; k++)
		n += wanted[k];
	redis_reply_map(x, n);
	for (size_t k = 0; k < noptions; k++)
		if (wanted[k]) {
			redis_reply_text(x, options[k][0]);
			redis_reply_text(x, options[k][1]);
		}
}

static void redis_acl_whoami(struct redis_call *x)
{
	redis_reply_text(x, "default");
}

/* --- COMMAND ------------------------------------------------------------------------------ */

static const struct {
	unsigned flag;
	const char *word;
} flag_words[] = {
	{ REDIS_WRITE, "write" },         { REDIS_READ, "readonly" },
	{ REDIS_NOSCRIPT, "noscript" },   { REDIS_PUBSUB, "pubsub" },
	{ REDIS_ADMIN, "admin" },         { REDIS_NO_AUTH, "no_auth" },
	{ REDIS_MOVABLE, "movablekeys" },
};

static void reply_flags(struct redis_call *x, unsigned flags)
{
	const size_t nwords = sizeof(flag_words) / sizeof(*flag_words);
	size_t n = 0;

	for (size_t i = 0; i < nwords; i++)
		n += (flags & flag_words[i].flag) != 0;
	redis_reply_set(x, n);
	for (size_t i = 0; i < nwords; i++)
		if (flags & flag_words[i].flag)
			redis_reply_status(x, flag_words[i].word);
}

static void reply_command(struct redis_call *x, const struct redis_command *c)
{
	redis_reply_array(x, 10);
	redis_reply_text(x, c->name);
	redis_reply_int(x, c->arity);
	reply_flags(x, c->flags);
	redis_reply_int(x, c->first);
	redis_reply_int(x, c->last);
	redis_reply_int(x, c->step);
	redis_reply_set(x, 0); /* ACL categories: none */
	redis_reply_array(x, 0); /* tips: none */
	redis_reply_array(x, 0); /* key specifications: none */
	redis_reply_array(x, 0); /* subcommands: none */
}

static size_t count_commands(void)
{
	size_t n = 0;

	for (const struct redis_command *const *table = redis_command_tables; *table; table++)
		for (const struct redis_command *c = *table; c->name; c++)
			n += !strchr(c->name, '|');
	return n;
}

static void redis_command(struct redis_call *x)
{
	redis_reply_array(x, count_commands());
	for (const struct redis_command *const *table = redis_command_tables; *table; table++)
		for (const struct redis_command *c = *table; c->name; c++)
			if (!strchr(c->name, '|'))
				reply_command(x, c);
}

static void redis_command_count(struct redis_call *x)
{
	redis_reply_int(x, (long long)count_commands());
}

static void redis_command_info(struct redis_call *x)
{
	if (x->argc == 2) {
		redis_command(x);
		return;
	}
	redis_reply_array(x, x->argc - 2);
	for (size_t i = 2; i < x->argc; i++) {
		const struct redis_command *c = redis_command_find(&x->argv[i], 1, NULL);
		if (c)
			reply_command(x, c);
		else
			redis_reply_nil_array(x);
	}
}

/* Subcommands, too. */
static void redis_command_list(struct redis_call *x)
{
	size_t n = 0;

	for (const struct redis_command *const *table = redis_command_tables; *table; table++)
		for (const struct redis_command *c = *table; c->name; c++)
			n++;
	redis_reply_array(x, n);
	for (const struct redis_command *const *table = redis_command_tables; *table; table++)
		for (const struct redis_command *c = *table; c->name; c++)
			redis_reply_text(x, c->name);
}

#define SESSION (REDIS_NOSCRIPT | REDIS_NO_AUTH)

const struct redis_command redis_client_commands[] = {
	{ "auth", -2, SESSION, 0, 0, 0, redis_auth, 0 },
	{ "hello", -1, SESSION, 0, 0, 0, redis_hello, 0 },
	{ "reset", 1, SESSION | REDIS_IN_SUBSCRIBED, 0, 0, 0, redis_reset, 0 },
	{ "quit", -1, SESSION | REDIS_IN_SUBSCRIBED, 0, 0, 0, redis_quit, 0 },
	{ "select", 2, 0, 0, 0, 0, redis_select, 0 },
	{ "ping", -1, REDIS_IN_SUBSCRIBED, 0, 0, 0, redis_ping, 0 },
	{ "echo", 2, 0, 0, 0, 0, redis_echo, 0 },
	{ "client", -2, REDIS_CONTAINER, 0, 0, 0, NULL, 0 },
	{ "client|id", 2, REDIS_NOSCRIPT, 0, 0, 0, redis_client_id, 0 },
	{ "client|setname", 3, REDIS_NOSCRIPT, 0, 0, 0, redis_client_setname, 0 },
	{ "client|getname", 2, REDIS_NOSCRIPT, 0, 0, 0, redis_client_getname, 0 },
	{ "client|info", 2, REDIS_NOSCRIPT, 0, 0, 0, redis_client_info, 0 },
	{ "client|list", -2, REDIS_NOSCRIPT | REDIS_ADMIN, 0, 0, 0, redis_client_list, 0 },
	{ "client|kill", -3, REDIS_NOSCRIPT | REDIS_ADMIN, 0, 0, 0, redis_client_kill, 0 },
	{ "client|reply", 3, REDIS_NOSCRIPT, 0, 0, 0, redis_client_reply, 0 },
	{ "client|no-evict", 3, REDIS_NOSCRIPT | REDIS_ADMIN, 0, 0, 0, redis_client_no_evict,
	  0 },
	{ "info", -1, 0, 0, 0, 0, redis_info, 0 },
	{ "role", 1, REDIS_NOSCRIPT, 0, 0, 0, redis_role, 0 },
	{ "wait", 3, REDIS_NOSCRIPT, 0, 0, 0, redis_wait, 0 },
	{ "time", 1, 0, 0, 0, 0, redis_time, 0 },
	{ "config", -2, REDIS_CONTAINER, 0, 0, 0, NULL, 0 },
	{ "config|get", -3, REDIS_NOSCRIPT | REDIS_ADMIN, 0, 0, 0, redis_config_get, 0 },
	{ "config|set", -4, REDIS_NOSCRIPT | REDIS_ADMIN, 0, 0, 0, redis_ok, 0 },
	{ "config|resetstat", 2, REDIS_NOSCRIPT | REDIS_ADMIN, 0, 0, 0, redis_ok, 0 },
	{ "acl", -2, REDIS_CONTAINER, 0, 0, 0, NULL, 0 },
	{ "acl|whoami", 2, REDIS_NOSCRIPT, 0, 0, 0, redis_acl_whoami, 0 },
	{ "replconf", -1, REDIS_NOSCRIPT | REDIS_ADMIN, 0, 0, 0, redis_ok, 0 },
	{ "command", -1, REDIS_CONTAINER, 0, 0, 0, redis_command, 0 },
	{ "command|count", 2, 0, 0, 0, 0, redis_command_count, 0 },
	{ "command|list", 2, 0, 0, 0, 0, redis_command_list, 0 },
	{ "command|info", -2, 0, 0, 0, 0, redis_command_info, 0 },
	{ 0 },
};
