/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/server_check.h"

#include <string.h>

#include "base/fatal.h"
#include "base/quote.h"
#include "config/config.h"
#include "lock/scripts/script_call.h"
#include "lock/scripts/script_commands.h"
#include "resp/write.h"
#include "upstream/decode.h"
#include "worker/encryption.h"

/* The questions to the server, in the order of sending. hasp sends ASKS_EVALSHA and the later
 * ones on a second connection, because Redis closes a connection that sends long requests
 * before a login. */
enum question {
	ASKS_HELLO,
	ASKS_INFO, /* for servers that do not know HELLO */
	ASKS_ROLE,
	ASKS_MEMORY,
	ASKS_EVALSHA, /* hasp sends this and the later questions only if it needs scripts */
	ASKS_KEYS,
	ASKS_COMMANDS,
	ASKS_PERMISSION,
	ASKS_PUBLISH,
	ASKS_LOAD, /* loads the first script; a question for each other script follows */
	ASKS_SUBSCRIBE = ASKS_LOAD + SCRIPT_COUNT, /* the last: in RESP2, commands after it
	                                            * fail */
	QUESTIONS,
};

enum server_kind { KIND_ONE, KIND_CLUSTER, KIND_SENTINEL };

struct server_check {
	const struct config *config;
	struct server_place server;
	struct buf *good, *warnings;
	struct buf refusal; /* the error reply to the login */
	size_t from; /* the first question in flight */
	char *errors[QUESTIONS]; /* each question's error reply; NULL: there was none */
	char version[32]; /* the server's version; empty: not known */
	enum server_kind kind;
	enum server_role role;
	char evicts[EVICTION_POLICY_MAX]; /* the server's eviction policy; empty: it evicts
	                                   * nothing, or does not report the policy */
	struct buf missing; /* commands that scripts call and the server lacks */
	struct buf denied; /* commands that scripts call and the server forbids to hasp */
};

/* --- finding the server ------------------------------------------------------------------ */

/* How long a server may take to answer, in ms. */
#define SERVER_MS_MAX 5000
/* How long one sentinel may take to answer, in ms. Short, because hasp can ask the others. */
#define SENTINEL_MS_MAX 1000

struct ask server_ask(const struct config *c, struct address address)
{
	return (struct ask){
		.address = address,
		.user = c->upstream_user,
		.password = c->upstream_password,
		.tls = encryption_of_servers(c),
		.timeout_ms = c->connect_timeout_ms < SERVER_MS_MAX ? c->connect_timeout_ms
		                                                    : SERVER_MS_MAX,
	};
}

struct server_search {
	struct sentinel_answer *answer;
	struct buf why; /* why the sentinel named no primary; empty if it named one */
};

static void server_on_named(void *arg, size_t i, const redisReply *reply)
{
	struct server_search *search = arg;
	const char *why;

	(void)i;
	if (sentinel_read_named(search->answer, reply, &why) < 0)
		quote_append(&search->why, slice_str(why));
}

/* Asks one sentinel. Returns 0; -1 with the reason appended to `why`. */
static int ask_sentinel(struct sentinel_answer *a, const struct config *c, const char *sentinel,
                        struct buf *why)
{
	struct server_search search = { .answer = a, .why = BUF_INIT };
	struct ask opts = server_ask(c, address_of(sentinel));
	struct buf question = BUF_INIT, refusal = BUF_INIT;
	struct slice request;
	int rc;

	sentinel_write_question(&question, c->master);
	request = buf_slice(&question);
	opts.user = c->sentinel_user;
	opts.password = c->sentinel_password;
	if (opts.timeout_ms > SENTINEL_MS_MAX)
		opts.timeout_ms = SENTINEL_MS_MAX;
	opts.requests = &request;
	opts.nrequests = 1;
	opts.on_reply = server_on_named;
	opts.arg = &search;
	opts.refusal = &refusal;
	rc = sync_query(&opts, why);
	if (buf_len(&search.why)) {
		bool lacks_login = slice_starts(buf_slice(&search.why), SLICE_LIT("NOAUTH"));

		buf_append(why, buf_slice(lacks_login && buf_len(&refusal) ? &refusal
		                                                           : &search.why));
		rc = -1;
	}
	buf_release(&question);
	buf_release(&refusal);
	buf_release(&search.why);
	return rc;
}

int server_find(struct server_place *s, const struct config *c, struct buf *why)
{
	int rc = -1;

	s->name = c->master ? c->master : c->address;
	if (c->master) {
		for (size_t i = 0; rc < 0 && i < c->sentinels.n; i++) {
			buf_clear(why);
			buf_printf(why, "%s: ", c->sentinels.v[i]);
			rc = ask_sentinel(&s->answer, c, c->sentinels.v[i], why);
		}
		if (rc < 0)
			return -1;
		s->name = s->answer.name;
	}
	s->address = address_of(s->name);
	return 0;
}

/* --- answers ------------------------------------------------------------------------------ */

static void note_version(struct server_check *c, struct slice version)
{
	snprintf(c->version, sizeof(c->version), "%.*s", (int)version.n, version.p);
}

static void note_mode(struct server_check *c, struct slice mode)
{
	if (slice_eq(mode, SLICE_LIT("cluster")))
		c->kind = KIND_CLUSTER;
	else if (slice_eq(mode, SLICE_LIT("sentinel")))
		c->kind = KIND_SENTINEL;
}

/* Reads HELLO's reply, which in RESP2 is an array of names and values in turn. */
static void server_on_hello(struct server_check *c, const redisReply *r)
{
	for (size_t i = 0; r->type == REDIS_REPLY_ARRAY && i + 1 < r->elements; i += 2) {
		const redisReply *name = r->element[i], *value = r->element[i + 1];
		if (name->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING)
			continue;
		if (strcmp(name->str, "version") == 0)
			note_version(c, slice_of(value->str, (size_t)value->len));
		else if (strcmp(name->str, "mode") == 0)
			note_mode(c, slice_of(value->str, (size_t)value->len));
	}
}

static void server_on_info(struct server_check *c, const redisReply *r)
{
	struct slice text, version;

	if (r->type != REDIS_REPLY_STRING)
		return;
	text = slice_of(r->str, (size_t)r->len);
	version = info_field(text, "redis_version");
	if (version.n)
		note_version(c, version);
	note_mode(c, info_field(text, "redis_mode"));
	note_mode(c, info_field(text, "server_mode"));
}

static void server_on_reply(void *arg, size_t i, const redisReply *r)
{
	struct server_check *c = arg;

	i += c->from;
	if (r->type == REDIS_REPLY_ERROR)
		c->errors[i] = xstrdup(r->str);
	else if (i == ASKS_HELLO)
		server_on_hello(c, r);
	else if (i == ASKS_INFO)
		server_on_info(c, r);
	else if (i == ASKS_ROLE)
		c->role = role_of(r);
	else if (i == ASKS_MEMORY && r->type == REDIS_REPLY_STRING)
		(void)eviction_read(slice_of(r->str, (size_t)r->len), c->evicts);
	else if (i == ASKS_COMMANDS)
		(void)script_commands_missing(r, &c->missing);
	else if (i == ASKS_PERMISSION)
		script_commands_denied(r, &c->denied);
}

/* --- the report --------------------------------------------------------------------------- */

/* Appends a line. Quotes it, because a server's text may have escape sequences that harm a
 * terminal. */
__attribute__((format(printf, 2, 0))) static void add_line(struct buf *to, const char *fmt,
                                                           va_list args)
{
	struct buf text = BUF_INIT;

	buf_vprintf(&text, fmt, args);
	quote_append(to, buf_slice(&text));
	buf_puts(to, "\n");
	buf_release(&text);
}

__attribute__((format(printf, 2, 3))) static void say(struct server_check *c, const char *fmt,
                                                      ...)
{
	va_list args;

	buf_printf(c->good, "Redis at %s: ", c->server.name);
	va_start(args, fmt);
	add_line(c->good, fmt, args);
	va_end(args);
}

__attribute__((format(printf, 2, 3))) static void warn(struct server_check *c, const char *fmt,
                                                       ...)
{
	va_list args;

	buf_printf(c->warnings, "%s: Redis at %s ", config_name(c->config), c->server.name);
	va_start(args, fmt);
	add_line(c->warnings, fmt, args);
	va_end(args);
}

static bool error_is(const char *error, const char *code)
{
	return error && strncmp(error, code, strlen(code)) == 0;
}

static bool needs_scripts(const struct config *config)
{
	return config->nrules || config->nguards || config->verbs.enabled;
}

/* Reports the login. Returns true if the server accepted it. */
static bool tell_login(struct server_check *c)
{
	const struct config *config = c->config;

	if (buf_len(&c->refusal))
		warn(c, "refuses the login of [upstream]: %.*s", (int)buf_len(&c->refusal),
		     buf_head(&c->refusal));
	else if (config->upstream_password)
		say(c, "it accepts the login%s%s", config->upstream_user ? " of " : "",
		    config->upstream_user ? config->upstream_user : "");
	if (!error_is(c->errors[ASKS_ROLE], "NOAUTH"))
		return true;
	if (config->upstream_password)
		return false;
	if (needs_scripts(config))
		warn(c,
		     "requires a login, but [upstream] has none, so that hasp can neither "
		     "renew nor release locks; add 'user' and 'password', or 'password' alone");
	else
		say(c, "it requires a login, which clients send themselves");
	return false;
}

/* Reports the kind of the server. Returns true if the configuration expects this kind. */
static bool tell_kind(struct server_check *c)
{
	if (c->kind == KIND_SENTINEL || c->role == ROLE_SENTINEL) {
		warn(c,
		     "is a Sentinel, which stores no keys, but 'address' of [upstream] names "
		     "it; expected the address of a server, or 'sentinels' and 'master'");
		return false;
	}
	if (c->config->cluster.n) {
		if (c->kind == KIND_CLUSTER)
			say(c, "a node of a Redis Cluster");
		else
			warn(c, "is not a node of a Redis Cluster, but 'cluster' of [upstream] "
			        "names it; expected a node, or 'address' for a single server");
		return c->kind == KIND_CLUSTER;
	}
	if (c->kind == KIND_CLUSTER) {
		warn(c, "is a node of a Redis Cluster, but 'address' of [upstream] names it, "
		        "so that clients get MOVED for keys of other nodes and CROSSSLOT for "
		        "keys in several slots; expected 'cluster'");
		return false;
	}
	if (c->role == ROLE_REPLICA)
		warn(c,
		     "is a replica, which refuses writes; expected the address of its master");
	else
		say(c, "one server, neither a Sentinel nor a node of a cluster%s",
		    c->role == ROLE_MASTER ? ", and a master" : "");
	return true;
}

static void tell_scripts(struct server_check *c)
{
	const char *loading = NULL, *calling = c->errors[ASKS_EVALSHA];

	for (size_t i = 0; i < SCRIPT_COUNT && !loading; i++)
		loading = c->errors[ASKS_LOAD + i];
	if (loading)
		warn(c, "refuses to load hasp's scripts: %s", loading);
	/* EVALSHA named no existing script, so NOSCRIPT is the right answer. */
	if (calling && !error_is(calling, "NOSCRIPT"))
		warn(c, "refuses to run scripts for hasp: %s", calling);
	else if (!loading)
		say(c, "it loads and runs hasp's %d scripts", SCRIPT_COUNT);
}

static void tell_commands(struct server_check *c)
{
	if (buf_len(&c->missing))
		warn(c, "lacks or has renamed these commands, which hasp's scripts call: %.*s",
		     (int)buf_len(&c->missing), buf_head(&c->missing));
	if (buf_len(&c->denied))
		warn(c, "does not let hasp call these commands, which its scripts need: %.*s",
		     (int)buf_len(&c->denied), buf_head(&c->denied));
	if (!buf_len(&c->missing) && !buf_len(&c->denied) && !c->errors[ASKS_PERMISSION])
		say(c, "it has all commands that the scripts call");
}

static void tell_permissions(struct server_check *c)
{
	if (c->errors[ASKS_KEYS])
		warn(c,
		     "does not let hasp use the keys hasp:*, where it stores the owners of "
		     "locks: %s",
		     c->errors[ASKS_KEYS]);
	else
		say(c, "hasp may use the keys hasp:*");
	if (c->errors[ASKS_SUBSCRIBE])
		warn(c,
		     "does not let hasp subscribe to hasp:worker:*, so that commands which may "
		     "wait for a lock fail: %s",
		     c->errors[ASKS_SUBSCRIBE]);
	if (c->errors[ASKS_PUBLISH])
		warn(c,
		     "does not let hasp publish to hasp:worker:*, which hands a lock to the "
		     "next waiter: %s",
		     c->errors[ASKS_PUBLISH]);
	if (!c->errors[ASKS_SUBSCRIBE] && !c->errors[ASKS_PUBLISH])
		say(c, "hasp may publish and subscribe to hasp:worker:*");
}

/* --- questions ---------------------------------------------------------------------------- */

/* An SHA1 hash that no script has. */
#define NO_SHA "0000000000000000000000000000000000000000"

static void write_question(struct buf *out, size_t i, bool is_cluster)
{
	/* In a cluster, the keys of a script must be in one slot. */
	const char *words[QUESTIONS][5] = {
		[ASKS_HELLO] = { "HELLO" },
		[ASKS_INFO] = { "INFO", "server" },
		[ASKS_ROLE] = { "ROLE" },
		[ASKS_MEMORY] = { "INFO", "memory" },
		[ASKS_EVALSHA] = { "EVALSHA", NO_SHA, "0" },
		[ASKS_KEYS] = { "EVAL", "return 0", "2",
		                is_cluster ? "hasp:fence{hasp}" : "hasp:fence",
		                "hasp:owner:{hasp}" },
		[ASKS_PUBLISH] = { "PUBLISH", "hasp:worker:nobody", "" },
		[ASKS_SUBSCRIBE] = { "SUBSCRIBE", "hasp:worker:nobody" },
	};
	struct slice argv[5] = { SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD") };
	size_t n = 0;

	if (i == ASKS_COMMANDS) {
		script_commands_ask(out);
	} else if (i == ASKS_PERMISSION) {
		script_commands_ask_permission(out);
	} else if (!words[i][0]) {
		argv[2] = script_get((enum script_id)(i - ASKS_LOAD))->text;
		resp_write_request(out, argv, 3);
	} else {
		for (; n < 5 && words[i][n]; n++)
			argv[n] = slice_str(words[i][n]);
		resp_write_request(out, argv, n);
	}
}

/* Sends the questions from `from` up to, but not including, `end`. Returns false, after a
 * warning, if no answer came. */
static bool ask(struct server_check *c, size_t from, size_t end)
{
	const struct config *config = c->config;
	struct buf written[QUESTIONS] = { BUF_INIT }, why = BUF_INIT;
	struct slice requests[QUESTIONS];
	struct ask opts = server_ask(config, c->server.address);
	int rc;

	opts.requests = requests;
	opts.nrequests = end - from;
	opts.on_reply = server_on_reply;
	opts.arg = c;
	opts.refusal = &c->refusal;
	buf_clear(&c->refusal);
	c->from = from;
	for (size_t i = from; i < end; i++) {
		write_question(&written[i], i, config->cluster.n > 0);
		requests[i - from] = buf_slice(&written[i]);
	}
	rc = sync_query(&opts, &why);
	if (rc < 0)
		warn(c, "cannot be asked %s: %.*s",
		     from ? "what it lets hasp do" : "what it is, and what it lets hasp do",
		     (int)buf_len(&why), buf_head(&why));
	for (size_t i = from; i < end; i++)
		buf_release(&written[i]);
	buf_release(&why);
	return rc == 0;
}

static void check_all(struct server_check *c)
{
	if (!ask(c, 0, ASKS_EVALSHA))
		return;
	say(c, "reachable%s%s", *c->version ? ", version " : "", c->version);
	if (version_is_too_old(c->version))
		warn(c, "has version %s, which is too old: " SERVER_NEEDED, c->version);
	if (!tell_login(c) || !tell_kind(c) || !needs_scripts(c->config))
		return;
	if (*c->evicts)
		warn(c,
		     "may evict locks and their owners' records when its memory is full "
		     "(maxmemory-policy %s): " EVICTION_HINT,
		     c->evicts);
	if (!ask(c, ASKS_EVALSHA, QUESTIONS))
		return;
	tell_scripts(c);
	tell_commands(c);
	tell_permissions(c);
}

/* Asks each sentinel for the address of the primary, and reports its answer. */
static void check_sentinels(struct server_check *c)
{
	const struct config *config = c->config;
	struct buf why = BUF_INIT;

	for (size_t i = 0; i < config->sentinels.n; i++) {
		const char *sentinel = config->sentinels.v[i];
		struct sentinel_answer answer;

		buf_clear(&why);
		if (ask_sentinel(&answer, config, sentinel, &why) == 0)
			buf_printf(c->good, "Sentinel at %s: %s is at %s\n", sentinel,
			           config->master, answer.name);
		else if (slice_starts(buf_slice(&why), SLICE_LIT("ERR unknown command")))
			buf_printf(c->warnings,
			           "%s: %s is not a Sentinel, but 'sentinels' of [upstream] "
			           "names it; expected a Sentinel, or 'address' for a single "
			           "server\n",
			           config_name(config), sentinel);
		else
			buf_printf(c->warnings,
			           "%s: Sentinel at %s does not report the address of %s: "
			           "%.*s\n",
			           config_name(config), sentinel, config->master,
			           (int)buf_len(&why), buf_head(&why));
	}
	buf_release(&why);
}

void server_check(const struct config *config, struct buf *good, struct buf *warnings)
{
	struct server_check c = { .config = config, .good = good, .warnings = warnings };
	struct buf why = BUF_INIT;

	if (config->master)
		check_sentinels(&c);
	if (server_find(&c.server, config, &why) == 0)
		check_all(&c);
	else
		warn(&c, "cannot be found: %.*s", (int)buf_len(&why), buf_head(&why));
	buf_release(&why);
	for (size_t i = 0; i < QUESTIONS; i++)
		free(c.errors[i]);
	buf_release(&c.refusal);
	buf_release(&c.missing);
	buf_release(&c.denied);
}
