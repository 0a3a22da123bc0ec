/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command: the table of Redis' commands. It begins with the rows of commands.def. The server's
 * answer to COMMAND adds the commands of modules and of later versions. hasp looks a command up
 * by its name once, and gets all its facts. Source: https://redis.io/commands/command
 *
 *   commands.def --> commands_new() --> table <-- commands_put() <-- learn.c <-- COMMAND
 *                                         `--> commands_get(name) --> struct command
 */
#ifndef HASP_COMMANDS_COMMAND_H
#define HASP_COMMANDS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "resp/request.h"

enum {
	COMMAND_WRITE = 1 << 0,
	COMMAND_NOSCRIPT = 1 << 1, /* Redis refuses the command in scripts */
	COMMAND_BLOCKING = 1 << 2, /* Redis may wait for data before it answers */
	COMMAND_STATELESS = 1 << 3, /* by its flags, the command can run on any connection */
	COMMAND_HIDDEN_KEYS = 1 << 4, /* may have keys in positions that hasp does not know */
	COMMAND_FROM_SERVER = 1 << 5, /* listed by the server, not only in commands.def */
	COMMAND_READONLY = 1 << 6, /* the command changes nothing */
	COMMAND_UNKNOWN = 1 << 7, /* the server has not described the command yet; only its
	                           * facts are known */
	COMMAND_NO_MULTI = 1 << 8, /* Redis refuses to queue the command: EXEC will fail */
};

/* Where a command's keys are among its arguments. */
enum command_key_spec {
	KEYS_RANGE, /* every step-th argument from argv[first] to argv[last] */
	KEYS_SORT, /* as KEYS_RANGE, and the argument after STORE */
	KEYS_GEO, /* as KEYS_RANGE, and the argument after STORE or STOREDIST */
	KEYS_COUNTED, /* argv[first] is numkeys, then the keys: every step-th argument */
	KEYS_DEST_COUNTED, /* argv[1] is a destination, argv[2] is numkeys, then the keys */
	KEYS_NONE, /* the command has no keys, or hasp does not know where; `first` is 0 */
};

/* Values of the facts; commands.def explains them. A command without a row has 0 for each, but
 * learn.c sets `errors` for commands of modules. */

enum command_writes {
	WRITES_ALL,
	WRITES_FIRST,
	WRITES_LAST,
	WRITES_COPY,
	WRITES_MOVE,
	WRITES_SCRIPT,
	WRITES_EXPIRY,
	WRITES_BITS,
};

enum command_lua { LUA_LOSSY, LUA_SAFE, LUA_SAFE_RESP2, LUA_RESP3 };

enum command_long { LONG_REFUSED, LONG_PASS, LONG_SPLIT };

enum command_rule {
	RULE_CHECK,
	RULE_PASS,
	RULE_SET,
	RULE_SETNX,
	RULE_MSETNX,
	RULE_MSETEX,
	RULE_SETEX,
	RULE_GETSET,
	RULE_INCR,
	RULE_DEL,
	RULE_EXPIRE,
	RULE_PERSIST,
};

enum effect_act {
	EFFECT_CHANGE, /* any other effect */
	EFFECT_READ, /* reads a guarded key; effect_of() never returns this */
	EFFECT_WRITE, /* writes a guarded key; effect_of() never returns this */
	EFFECT_ACQUIRE, /* acquires the lock if it is free */
	EFFECT_SET, /* sets the lock, whichever owner has it */
	EFFECT_INCR, /* counts up: the client that counts to 1 acquires the lock */
	EFFECT_EXPIRE,
	EFFECT_PERSIST,
	EFFECT_DELETE,
};

enum command_noop { NOOP_NIL, NOOP_ZERO, NOOP_NEVER, NOOP_ABSENT };

enum command_expiry {
	EXPIRY_NONE,
	EXPIRY_SECONDS,
	EXPIRY_MS,
	EXPIRY_DATE,
	EXPIRY_DATE_MS,
	EXPIRY_OPTIONS,
};

enum command_value { VALUE_NONE, VALUE_ONE, VALUE_EACH };

enum command_field { FIELD_NONE, FIELD_READ, FIELD_WRITE, FIELD_CHANGE, FIELD_ELEMENTS };

enum command_pace { PACE_SERVER, PACE_SLOW };

enum command_errors { ERRORS_SERVER, ERRORS_OWN };

enum command_session {
	SESSION_DEFAULT,
	SESSION_ANY_LINK,
	SESSION_OWN_LINK,
	SESSION_FUNCTION,
	SESSION_SHUTDOWN,
	/* Commands that change the session: policy/session_commands.c handles them. */
	SESSION_SELECT,
	SESSION_AUTH,
	SESSION_HELLO,
	SESSION_CLIENT,
	SESSION_MULTI,
	SESSION_EXEC,
	SESSION_DISCARD,
	SESSION_WATCH,
	SESSION_UNWATCH,
	SESSION_SUBSCRIBE,
	SESSION_PSUBSCRIBE,
	SESSION_SSUBSCRIBE,
	SESSION_UNSUBSCRIBE,
	SESSION_PUNSUBSCRIBE,
	SESSION_SUNSUBSCRIBE,
	SESSION_RESET,
	SESSION_SCRIPT,
	SESSION_QUIT,
	SESSION_MONITOR,
	SESSION_REPLCONF,
	SESSION_SYNC, /* for SYNC and PSYNC */
	SESSION_WAIT,
};

enum command_cluster {
	CLUSTER_KEYS,
	CLUSTER_COUNT,
	CLUSTER_VALUES,
	CLUSTER_PAIRS,
	CLUSTER_SUM,
	CLUSTER_LIST,
	CLUSTER_SAME,
	CLUSTER_LEAST,
	CLUSTER_SCAN,
	CLUSTER_RANDOM,
	CLUSTER_SUBCOMMAND,
	CLUSTER_STREAMS,
	CLUSTER_SECOND,
	CLUSTER_NUMKEYS,
	CLUSTER_MIGRATE,
	CLUSTER_ANY,
	CLUSTER_MODE,
	CLUSTER_DISABLED,
};

/* Facts that COMMAND's reply does not have. */
struct command_facts {
	uint8_t writes; /* enum command_writes */
	uint8_t lua; /* enum command_lua */
	uint8_t when_long; /* enum command_long */
	uint8_t rule; /* enum command_rule */
	uint8_t act; /* enum effect_act */
	uint8_t noop; /* enum command_noop */
	uint8_t expiry; /* enum command_expiry */
	uint8_t session; /* enum command_session */
	uint8_t value; /* enum command_value */
	uint8_t field; /* enum command_field */
	uint8_t cluster; /* enum command_cluster */
	uint8_t pace; /* enum command_pace */
	uint8_t errors; /* enum command_errors */
};

/* Size of the longest command name and the NUL after it, in bytes. */
#define COMMAND_NAME_SIZE 64

struct command {
	char name[COMMAND_NAME_SIZE]; /* in lower case, with a NUL at the end */
	uint16_t flags;
	uint8_t keys; /* enum command_key_spec */
	int16_t first; /* argv index; 0: no keys */
	int16_t last; /* argv index; negative: counted from the end */
	int16_t step;
	int16_t arity; /* number of arguments with the name; -n: n or more; 0: not known */
	struct command_facts facts;
};

struct commands; /* the table of all commands */

struct commands *commands_new(void); /* returns a table of the rows of commands.def */
void commands_free(struct commands *t); /* NULL is allowed */

/* Sets the name in lower case. Returns false if `name` is empty, too long, or has a NUL. */
bool command_set_name(struct command *c, struct slice name) __attribute__((warn_unused_result));

/* Adds a command as COMMAND describes it, or replaces its description. If the table has the
 * command, the facts stay, and the arity stays if c->arity is 0. Ignores invalid names. */
void commands_put(struct commands *t, const struct command *c);

/* Call this when the server has listed its commands: from then on, commands that the table
 * lacks do not exist at the server. */
void commands_set_learned(struct commands *t);
bool commands_are_learned(const struct commands *t);

/* Returns true if the server has listed its commands, and the name is not among them. */
bool commands_lack(const struct commands *t, struct slice name);

/* Returns the command with this name, in lower or upper case; NULL: unknown. The result is
 * valid until commands_put(). */
const struct command *commands_get(const struct commands *t, struct slice name);

/* Like commands_get(), but also returns COMMAND_UNKNOWN commands; use only the facts of
 * these. */
const struct command *commands_find(const struct commands *t, struct slice name);

/* Writes the argv indices of the command's keys, ascending, to `out`, at most `max` of them.
 * Returns how many there are, which may exceed `max`. */
size_t command_key_args(const struct command *c, const struct resp_view *req, size_t *out,
                        size_t max);

/* True if Redis accepts this many arguments, counting the name. If false, pass the command, so
 * that Redis answers with its error. */
bool command_arity_ok(const struct command *c, size_t argc);

/* Returns how hasp carries out a request of the command on a lock. INCRBY by 1 is RULE_INCR,
 * because some client libraries send it for INCR; any other INCRBY is RULE_CHECK. */
enum command_rule command_rule(const struct command *c, const struct resp_view *req);

/* True if argv[1] is the only key that the command can have. */
static inline bool command_single_key(const struct command *c)
{
	return c->keys == KEYS_RANGE && c->first == 1 && c->last == 1;
}

/* True if the command writes when it names `nkeys` keys: SORT of one key only reads. */
static inline bool command_writes(const struct command *c, size_t nkeys)
{
	return (c->flags & COMMAND_WRITE) &&
	       !((c->keys == KEYS_SORT || c->keys == KEYS_GEO) && nkeys == 1);
}

/* True for BITFIELD with only GET: Redis lists it as a write, but it only reads. */
bool command_only_gets(const struct command *c, const struct resp_view *req);

/* True if a writing command writes its key number `i` of `n`, counted from 0. */
bool command_writes_key(const struct command *c, size_t i, size_t n);

/* True if the command writes a key in another database than `db`: COPY its second key, MOVE its
 * only key. False if the number of the database is invalid. */
bool command_writes_other_db(const struct command *c, const struct resp_view *req, int db);

/* True if the answer may take long although Redis works. */
static inline bool command_may_be_slow(const struct command *c)
{
	return (c->flags & COMMAND_BLOCKING) || c->facts.pace == PACE_SLOW;
}

/* True if the command runs a script, which may write any key that it names. */
static inline bool command_runs_script(const struct command *c)
{
	return c->facts.writes == WRITES_SCRIPT;
}

/* True if the command's errors may be any text, such as a redirection, because it may run a
 * script, a function or a module. Also true for NULL, an unknown command. */
static inline bool command_may_forge(const struct command *c)
{
	return !c || c->facts.errors == ERRORS_OWN;
}

/* True if the command's expiry argument is in seconds. */
static inline bool command_expiry_in_seconds(const struct command *c)
{
	return c->facts.expiry == EXPIRY_SECONDS || c->facts.expiry == EXPIRY_DATE;
}

static inline bool command_expiry_is_date(const struct command *c)
{
	return c->facts.expiry == EXPIRY_DATE || c->facts.expiry == EXPIRY_DATE_MS;
}

/* A struct key_args with at most this many keys needs no memory on the heap. */

#define KEY_ARGS_INLINE 32

struct key_args {
	size_t *v; /* the keys' indices in argv, ascending */
	size_t n;
	size_t inline_v[KEY_ARGS_INLINE];
};

void key_args_init(struct key_args *a, const struct command *c, const struct resp_view *req);
void key_args_fini(struct key_args *a);

#endif
