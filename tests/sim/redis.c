/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/redis.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/redis_internal.h"

const struct redis_command *const redis_command_tables[] = {
	redis_key_commands,         redis_string_commands,
	redis_hash_commands,        redis_list_commands,
	redis_zset_commands,        redis_script_commands,
	redis_pubsub_commands,      redis_client_commands,
	redis_transaction_commands, NULL,
};

/* --- which command ------------------------------------------------------------------------ */

static const struct redis_command *command_named(struct slice name)
{
	for (const struct redis_command *const *table = redis_command_tables; *table; table++)
		for (const struct redis_command *c = *table; c->name; c++)
			if (name.n && (*name.p | 32) == *c->name && slice_is(name, c->name))
				return c;
	return NULL;
}

static void say_unknown(const struct slice *argv, size_t argc, struct buf *error)
{
	size_t begun;

	buf_printf(error, "ERR unknown command '%.*s', with args beginning with: ",
	           (int)(argv[0].n < 128 ? argv[0].n : 128), argv[0].p);
	begun = buf_len(error);
	for (size_t i = 1; i < argc && buf_len(error) - begun < 128; i++) {
		size_t left = 128 - (buf_len(error) - begun);
		buf_printf(error, "'%.*s' ", (int)(argv[i].n < left ? argv[i].n : left),
		           argv[i].p);
	}
}

const struct redis_command *redis_command_find(const struct slice *argv, size_t argc,
                                               struct buf *error)
{
	const struct redis_command *c = memchr(argv[0].p ? argv[0].p : "", '|', argv[0].n)
	                                        ? NULL
	                                        : command_named(argv[0]);
	const struct redis_command *sub;
	struct buf name = BUF_INIT;

	if (!c && error)
		say_unknown(argv, argc, error);
	if (!c || !(c->flags & REDIS_CONTAINER) || argc < 2)
		return c;
	buf_printf(&name, "%s|", c->name);
	buf_append(&name, argv[1]);
	sub = command_named(buf_slice(&name));
	buf_release(&name);
	if (!sub && error) {
		buf_printf(error, "ERR unknown subcommand '%.*s'. Try ",
		           (int)(argv[1].n < 128 ? argv[1].n : 128), argv[1].p);
		for (const char *p = c->name; *p; p++)
			buf_printf(error, "%c", toupper(*p));
		buf_puts(error, " HELP.");
	}
	return sub;
}

bool redis_command_takes(const struct redis_command *command, size_t argc)
{
	return command->run && (command->arity > 0 ? argc == (size_t)command->arity
	                                           : argc >= (size_t)-command->arity);
}

/* --- the way of a request ----------------------------------------------------------------- */

/* Replies with an error and returns true if Redis refuses the command. */
static bool refuse_request(struct redis_call *x, const struct buf *unknown)
{
	struct sim_redis_conn *c = x->c;

	if (!x->command)
		redis_reply_error_text(x->out, buf_slice(unknown));
	else if (!redis_command_takes(x->command, x->argc))
		redis_reply_arity(x);
	else if (!c->logged_in && !(x->command->flags & REDIS_NO_AUTH))
		redis_reply_error(x, "NOAUTH Authentication required.");
	else if (c->resp == 2 && redis_conn_nsubscriptions(c) &&
	         !(x->command->flags & REDIS_IN_SUBSCRIBED))
		redis_reply_error(x,
		                  "ERR Can't execute '%s': only (P|S)SUBSCRIBE / "
		                  "(P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
		                  "context",
		                  x->command->name);
	else
		return false;
	return true;
}

static bool is_transaction(const struct redis_command *command)
{
	static const char *const names[] = { "exec",  "discard", "multi",
		                             "watch", "quit",    "reset" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(command->name, names[i]) == 0)
			return true;
	return false;
}

void redis_call_run(struct redis_call *x)
{
	x->command->run(x);
}

/* EXEC itself was refused: the reply, an error, becomes the reason why nothing runs. */
static void abort_exec(struct redis_call *x)
{
	struct buf reason = BUF_INIT;

	buf_append(&reason, buf_slice(x->out));
	buf_clear(x->out);
	redis_reply_error(x, "EXECABORT Transaction discarded because of: %.*s",
	                  (int)buf_len(&reason) - 7,
	                  buf_head(&reason) + 5); /* `-ERR `, CR LF */
	buf_release(&reason);
	redis_multi_end(x->c);
	redis_watch_end(x->c);
}

static void run_request(struct sim_redis_conn *c, const struct slice *argv, size_t argc,
                        struct buf *out)
{
	struct buf unknown = BUF_INIT;
	struct redis_call x = { .s = c->s,
		                .c = c,
		                .command = redis_command_find(argv, argc, &unknown),
		                .db = &c->db,
		                .resp = c->resp,
		                .argv = argv,
		                .argc = argc,
		                .out = out };

	c->s->now_ms = c->s->now_us(c->s->arg) / 1000;
	if (refuse_request(&x, &unknown)) {
		c->multi_failed |= c->in_multi;
		if (x.command && strcmp(x.command->name, "exec") == 0)
			abort_exec(&x);
	} else if (c->in_multi && !is_transaction(x.command)) {
		redis_multi_queue(&x);
	} else {
		redis_call_run(&x);
	}
	buf_release(&unknown);
}

/* The reply leaves, unless CLIENT REPLY keeps it back. */
static void send_reply(struct sim_redis_conn *c, enum redis_reply_mode before, struct buf *out)
{
	if (buf_len(out) && c->reply_mode == REDIS_REPLIES_ON)
		c->send(c->arg, buf_head(out), buf_len(out));
	if (before == REDIS_REPLIES_SKIP && c->reply_mode == before)
		c->reply_mode = REDIS_REPLIES_ON;
	else if (c->reply_mode == REDIS_REPLIES_SKIP_NEXT)
		c->reply_mode = REDIS_REPLIES_SKIP;
}

/* --- connections -------------------------------------------------------------------------- */

struct sim_redis_conn *sim_redis_connect(struct sim_redis *s,
                                         void (*send)(void *arg, const char *p, size_t n),
                                         void (*closed)(void *arg), void *arg)
{
	struct sim_redis_conn *c = xcalloc(1, sizeof(*c));

	c->s = s;
	c->send = send;
	c->closed = closed;
	c->arg = arg;
	c->id = ++s->last_conn_id;
	redis_conn_reset(c);
	list_append(&s->conns, &c->node);
	return c;
}

static void conn_free(struct sim_redis_conn *c)
{
	redis_conn_reset(c);
	list_remove(&c->node);
	buf_release(&c->in);
	request_args_fini(&c->args);
	free(c);
}

void sim_redis_disconnect(struct sim_redis_conn *c)
{
	HASP_ASSERT(!c->receiving);
	conn_free(c);
}

/* The server closes it. */
static void conn_end(struct sim_redis_conn *c)
{
	void (*closed)(void *arg) = c->closed;
	void *arg = c->arg;

	conn_free(c);
	closed(arg);
}

void redis_conn_close(struct sim_redis_conn *c)
{
	c->closing = true;
	if (!c->receiving)
		conn_end(c);
}

void sim_redis_receive(struct sim_redis_conn *c, const char *p, size_t n)
{
	struct buf out = BUF_INIT;
	size_t used;

	buf_append(&c->in, slice_of(p, n));
	c->receiving = true;
	while (!c->closing && buf_len(&c->in)) {
		struct request_scan scan = { 0 };
		enum redis_reply_mode before = c->reply_mode;
		enum resp_result r = request_scan(&scan, buf_head(&c->in), buf_len(&c->in),
		                                  &used, &c->args);
		if (r == RESP_MORE)
			break;
		if (r == RESP_BAD) {
			redis_reply_error_text(&out, SLICE_LIT("ERR Protocol error"));
			c->closing = true;
		} else if (c->args.argc) {
			run_request(c, c->args.argv, c->args.argc, &out);
		}
		send_reply(c, before, &out);
		buf_clear(&out);
		if (r == RESP_OK)
			buf_consume(&c->in, used);
	}
	buf_release(&out);
	c->receiving = false;
	if (c->closing)
		conn_end(c);
}

/* --- servers ------------------------------------------------------------------------------ */

struct sim_redis *sim_redis_new(int64_t (*now_us)(void *arg), void *arg, uint64_t seed)
{
	static const uint8_t secret[SIPHASH_SECRET_SIZE] = { 1 };
	struct sim_redis *s = xcalloc(1, sizeof(*s));

	s->now_us = now_us;
	s->arg = arg;
	s->seed = seed;
	s->started_ms = now_us(arg) / 1000;
	list_init(&s->conns);
	for (int i = 0; i < REDIS_DATABASES; i++)
		map_init_with(&s->databases[i], secret);
	map_init_with(&s->scripts, secret);
	redis_scripts_init(s);
	return s;
}

void sim_redis_free(struct sim_redis *s)
{
	HASP_ASSERT(list_empty(&s->conns));
	for (int i = 0; i < REDIS_DATABASES; i++) {
		redis_database_clear(s, i);
		map_fini(&s->databases[i]);
	}
	redis_scripts_fini(s);
	map_fini(&s->scripts);
	free(s->password);
	free(s);
}

void sim_redis_restart(struct sim_redis *s, bool keep_data)
{
	while (!list_empty(&s->conns))
		redis_conn_close(container_of(s->conns.next, struct sim_redis_conn, node));
	for (int i = 0; !keep_data && i < REDIS_DATABASES; i++)
		redis_database_clear(s, i);
	redis_scripts_fini(s);
	redis_scripts_init(s);
	s->nrestarts++;
	s->started_ms = s->now_us(s->arg) / 1000;
}

void sim_redis_set_password(struct sim_redis *s, const char *password)
{
	free(s->password);
	s->password = password ? xstrdup(password) : NULL;
}

void sim_redis_copy(const struct sim_redis *from, struct sim_redis *to)
{
	for (int i = 0; i < REDIS_DATABASES; i++)
		redis_database_copy(from, to, i);
}
