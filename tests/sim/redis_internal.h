/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redis_internal: what the files of the stand-in for Redis share.
 *
 *     redis.c               server, connections, the way of a request to its command
 *     redis_reply.c         replies in RESP2 and RESP3
 *     redis_keys.c          databases, expiry, values; DEL, EXPIRE, SCAN, ...
 *     redis_strings.c  redis_hashes.c  redis_lists.c (and sets)  redis_zsets.c
 *     redis_scripts.c       EVAL under Lua 5.1
 *     redis_lua.c           its values as RESP, and back
 *     redis_pubsub.c        SUBSCRIBE, PUBLISH
 *     redis_transactions.c  MULTI, WATCH
 *     redis_clients.c       HELLO, AUTH, CLIENT; what a server says about itself
 *
 * Each file has a table of its commands. A handler gets a redis_call and appends one reply to
 * its `out`. Error texts are Redis' own, for hasp and its clients read them.
 */
#ifndef HASP_TESTS_SIM_REDIS_INTERNAL_H
#define HASP_TESTS_SIM_REDIS_INTERNAL_H

#include <lua.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/list.h"
#include "base/map.h"
#include "resp/request.h"
#include "tests/sim/redis.h"

#define REDIS_VERSION_TEXT "7.0.15"
#define REDIS_DATABASES 16

/* --- values ------------------------------------------------------------------------------- */

enum redis_type { REDIS_STRING, REDIS_LIST, REDIS_SET, REDIS_ZSET, REDIS_HASH };

/* Values consist of items. A string is the `name` of one item. A hash and a list keep the
 * order in which their items were added, as Redis' listpacks do; a set is sorted by name, a
 * sorted set by score and name. */
struct redis_item {
	struct slice name; /* owned */
	struct slice value; /* owned: the value of a hash' field, else none */
	double score; /* score of a sorted set's member */
};

struct redis_items {
	struct redis_item *v;
	size_t n;
	size_t cap;
};

/* Copies the bytes. Returns the new item, at index `at`. */
struct redis_item *redis_items_add(struct redis_items *items, size_t at, struct slice name);
void redis_items_remove(struct redis_items *items, size_t at);
/* The index of `name`; items->n: it is not there. */
size_t redis_items_find(const struct redis_items *items, struct slice name);
void redis_items_clear(struct redis_items *items);
/* Sorts by the bytes of the names. */
void redis_items_sort(struct redis_items *items);
/* Replaces owned bytes by a copy of `by`. */
void redis_bytes_set(struct slice *bytes, struct slice by);
int redis_bytes_compare(struct slice a, struct slice b);

struct redis_key {
	struct map_node node; /* owns its key's bytes */
	enum redis_type type;
	int64_t expires_at; /* in ms since 1970; 0: never */
	struct redis_items items; /* never empty, but while a command runs */
};

/* --- server and connections --------------------------------------------------------------- */

struct sim_redis {
	int64_t (*now_us)(void *arg);
	void *arg;
	uint64_t seed;
	int64_t now_ms; /* when the command began that runs: until it ends, no key expires */
	int64_t started_ms;
	struct map databases[REDIS_DATABASES]; /* of struct redis_key */
	struct list conns; /* in the order in which they connected */
	int64_t last_conn_id;
	unsigned nrestarts;
	char *password; /* password of the default user; NULL: none */
	struct lua_State *lua;
	struct map scripts; /* of struct redis_script */
	struct redis_call *script_caller; /* NULL: no script runs */
	struct slice *script_argv; /* arguments of the command that the script runs */
	int script_resp; /* see redis.setresp() */
	int script_db;
};

enum redis_reply_mode {
	REDIS_REPLIES_ON,
	REDIS_REPLIES_OFF,
	REDIS_REPLIES_SKIP_NEXT,
	REDIS_REPLIES_SKIP
};

/* The kinds of subscriptions. */
enum { REDIS_CHANNELS, REDIS_PATTERNS, REDIS_SHARD_CHANNELS, REDIS_SUBSCRIPTIONS };

struct redis_queued {
	struct slice *argv; /* owned, as are the bytes */
	size_t argc;
};

struct sim_redis_conn {
	struct list node; /* in sim_redis.conns */
	struct sim_redis *s;
	void (*send)(void *arg, const char *p, size_t n);
	void (*closed)(void *arg);
	void *arg;
	int64_t id;
	struct buf in; /* bytes of a request that is not complete */
	struct request_args args;
	char *name; /* NULL: none */
	int resp;
	int db;
	bool logged_in;
	bool closing; /* closes after the command that runs */
	bool receiving; /* its requests are being run */
	enum redis_reply_mode reply_mode;
	struct redis_items subscriptions[REDIS_SUBSCRIPTIONS];
	struct redis_items watched; /* the score is the database */
	bool in_multi;
	bool multi_failed; /* a command was refused when it was to be queued */
	bool watch_failed; /* a watched key has changed */
	struct redis_queued *queue;
	size_t nqueued;
};

/* Closes after what runs has ended. */
void redis_conn_close(struct sim_redis_conn *c);
size_t redis_conn_nsubscriptions(const struct sim_redis_conn *c);

/* --- commands ----------------------------------------------------------------------------- */

enum {
	REDIS_WRITE = 1 << 0,
	REDIS_READ = 1 << 1,
	REDIS_NOSCRIPT = 1 << 2,
	REDIS_PUBSUB = 1 << 3,
	REDIS_ADMIN = 1 << 4,
	REDIS_NO_AUTH = 1 << 5, /* before the client has logged in, too */
	REDIS_IN_SUBSCRIBED = 1 << 6, /* also while a RESP2 connection has subscriptions */
	REDIS_MOVABLE = 1 << 7, /* keys at other positions than first, last and step say */
	REDIS_CONTAINER = 1 << 8, /* has subcommands */
};

/* A command that runs. */
struct redis_call {
	struct sim_redis *s;
	struct sim_redis_conn *c; /* the connection; in a script that of its caller */
	const struct redis_command *command;
	int *db;
	int resp;
	const struct slice *argv;
	size_t argc;
	struct buf *out;
};

struct redis_command {
	const char *name; /* name; of a subcommand: `client|id` */
	int arity; /* as COMMAND says it */
	unsigned flags;
	int first, last, step; /* positions of the keys */
	void (*run)(struct redis_call *x); /* NULL: only its subcommands run */
	int option; /* distinguishes commands with the same `run` */
};

extern const struct redis_command redis_key_commands[], redis_string_commands[],
	redis_hash_commands[], redis_list_commands[], redis_zset_commands[],
	redis_script_commands[], redis_pubsub_commands[], redis_transaction_commands[],
	redis_client_commands[];
/* Each table ends with a row without a name; this list ends with NULL. */
extern const struct redis_command *const redis_command_tables[];

/* NULL: there is none; *error, if not NULL, gets Redis' words for that. */
const struct redis_command *redis_command_find(const struct slice *argv, size_t argc,
                                               struct buf *error);
bool redis_command_takes(const struct redis_command *command, size_t argc);
/* Runs one command and appends its reply. */
void redis_call_run(struct redis_call *x);

/* --- redis_reply.c ------------------------------------------------------------------------ */

/* Without the `-`; begins with a code. Line ends become spaces, those at the end go. */
void redis_reply_error(struct redis_call *x, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void redis_reply_error_text(struct buf *out, struct slice text);
void redis_reply_syntax(struct redis_call *x);
void redis_reply_wrong_type(struct redis_call *x);
void redis_reply_arity(struct redis_call *x);
void redis_reply_status(struct redis_call *x, const char *text);
void redis_reply_ok(struct redis_call *x);
void redis_reply_int(struct redis_call *x, long long n);
void redis_reply_bulk(struct redis_call *x, struct slice s);
void redis_reply_text(struct redis_call *x, const char *s);
void redis_reply_nil(struct redis_call *x);
void redis_reply_nil_array(struct redis_call *x);
void redis_reply_double(struct redis_call *x, double d);
/* n elements must follow, or n pairs. */
void redis_reply_array(struct redis_call *x, size_t n);
void redis_reply_map(struct redis_call *x, size_t n);
void redis_reply_set(struct redis_call *x, size_t n);
/* Numbers as Redis reads them. On false the reply is the error. */
bool redis_arg_int(struct redis_call *x, size_t i, long long *out);
bool redis_arg_int_or(struct redis_call *x, size_t i, long long *out, const char *error);
bool redis_arg_double(struct redis_call *x, size_t i, double *out, const char *error);
bool redis_arg_is(const struct redis_call *x, size_t i, const char *word);
/* Makes indexes of the first and the last of `n` items, which count from the end if they are
 * negative. False: the range has no items. */
bool redis_range(long long n, long long *first, long long *last);
bool redis_parse_int(struct slice s, long long *out);
bool redis_parse_double(struct slice s, double *out);

/* --- redis_keys.c ------------------------------------------------------------------------- */

/* NULL: there is none, or it has expired. */
struct redis_key *redis_key_find(struct redis_call *x, struct slice name);
/* False: it is of another type, and the reply is the error. *key is NULL: there is none. */
bool redis_key_typed(struct redis_call *x, struct slice name, enum redis_type type,
                     struct redis_key **key);
/* A new one, without items; there must be none of this name. */
struct redis_key *redis_key_add(struct redis_call *x, struct slice name, enum redis_type type);
/* NULL: it has no such field or member. `key` may be NULL. */
struct redis_item *redis_key_item(struct redis_key *key, struct slice name);
void redis_key_delete(struct redis_call *x, struct redis_key *key);
/* The key has changed: a client that watches it will not get its transaction. A key without
 * items is deleted. */
void redis_key_changed(struct redis_call *x, struct redis_key *key);
/* Sets the value of a string, which is created or loses what it was. */
struct redis_key *redis_key_set_string(struct redis_call *x, struct slice name,
                                       struct slice value);
/* Reads argv[i] as an expiry: `unit` in ms, `at`: a date. On false the reply is the error. */
bool redis_arg_expiry(struct redis_call *x, size_t i, int unit, bool at, int64_t *out);
/* Adds the keys of a map, sorted. */
void redis_items_add_keys(struct redis_items *items, const struct map *map);
void redis_database_clear(struct sim_redis *s, int db);
void redis_database_copy(const struct sim_redis *from, struct sim_redis *to, int db);
/* The keys' names, sorted; without those that have expired, which are deleted. */
void redis_database_names(struct sim_redis *s, int db, struct redis_items *names);
/* MATCH and COUNT of a SCAN from argv[i] on; on false the reply is the error. */
struct redis_scan {
	struct slice pattern; /* none: all */
	struct slice type;
	long long count;
	long long cursor;
};
bool redis_arg_scan(struct redis_call *x, size_t cursor, struct redis_scan *scan);

/* Commands that several types have; their option is the type. */
void redis_length(struct redis_call *x); /* HLEN, LLEN, SCARD, ZCARD */
void redis_remove(struct redis_call *x); /* HDEL, SREM, ZREM */
void redis_scan_items(struct redis_call *x); /* HSCAN, SSCAN, ZSCAN */

/* --- redis_transactions.c ----------------------------------------------------------------- */

void redis_watch_touch(struct sim_redis *s, int db, struct slice name);
void redis_watch_end(struct sim_redis_conn *c);
void redis_multi_end(struct sim_redis_conn *c);
void redis_multi_queue(struct redis_call *x);

/* --- redis_pubsub.c ----------------------------------------------------------------------- */

void redis_subscriptions_end(struct sim_redis_conn *c);

/* --- redis_lua.c -------------------------------------------------------------------------- */

/* The string at `index`, valid while it is on the stack. */
struct slice redis_lua_slice(struct lua_State *lua, int index);
/* Pushes {err = `CODE words`}. Without a code it is ERR, as it is for an error of one word. */
void redis_lua_push_error(struct lua_State *lua, const char *text);
/* Pushes what the reply at `p`, which is whole, is for a script; returns where the reply
 * ends. */
const char *redis_lua_push_reply(struct lua_State *lua, const char *p);
/* If the table at the top has a field of this name and type, it is pushed. */
bool redis_lua_push_field(struct lua_State *lua, const char *name, int type);
/* Replies with the value at the top, and pops it. */
void redis_lua_reply(struct redis_call *x, struct lua_State *lua);

/* --- redis_scripts.c ---------------------------------------------------------------------- */

void redis_scripts_init(struct sim_redis *s);
void redis_scripts_fini(struct sim_redis *s);

/* --- redis_clients.c ---------------------------------------------------------------------- */

void redis_conn_reset(struct sim_redis_conn *c);

#endif
