/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redis_scripts: EVAL, EVALSHA and SCRIPT. One Lua 5.1 state a server has the libraries that
 * Redis gives to scripts and that hasp's scripts use (not cjson, cmsgpack, struct and bit). A
 * script is compiled once and kept by its SHA-1; its globals are read-only.
 *
 *     client -- EVAL --> script -- redis.call() --> redis_call_run() -- RESP --> Lua value
 *                          `-- returned Lua value --> RESP --> client
 */
#include "tests/sim/redis_internal.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sha1.h"

struct redis_script {
	struct map_node node; /* key: its SHA-1 in hex */
	int function; /* reference into Lua's registry */
	char sha[SHA1_HEX + 1];
};

static struct sim_redis *server_of(lua_State *lua)
{
	struct sim_redis *s;

	lua_getfield(lua, LUA_REGISTRYINDEX, "sim_redis");
	s = lua_touserdata(lua, -1);
	lua_pop(lua, 1);
	return s;
}

/* --- the table `redis` -------------------------------------------------------------------- */

/* Redis' words if it refuses the command; NULL: the command may run. */
static const char *refuse_in_script(const struct redis_call *x)
{
	if (!x->command)
		return "Unknown Redis command called from script";
	if (!redis_command_takes(x->command, x->argc))
		return "Wrong number of args calling Redis command from script";
	if (x->command->flags & REDIS_NOSCRIPT)
		return "This Redis command is not allowed from script";
	return NULL;
}

static int call(lua_State *lua, bool raises)
{
	struct sim_redis *s = server_of(lua);
	struct slice *argv;
	struct redis_call x = *s->script_caller;
	struct buf out = BUF_INIT;
	const char *refusal = NULL;

	x.db = &s->script_db;
	x.resp = s->script_resp;
	x.argc = (size_t)lua_gettop(lua);
	x.argv = argv = s->script_argv = xrealloc(s->script_argv,
	                                          (x.argc + 1) * sizeof(*s->script_argv));
	x.out = &out;
	if (x.argc == 0)
		refusal = "Please specify at least one argument for this redis lib call";
	for (size_t i = 0; i < x.argc; i++) {
		char number[64];
		int type = lua_type(lua, (int)i + 1);
		if (type == LUA_TNUMBER) {
			snprintf(number, sizeof(number), "%.17g",
			         lua_tonumber(lua, (int)i + 1));
			lua_pushstring(lua, number);
			lua_replace(lua, (int)i + 1);
		} else if (type != LUA_TSTRING) {
			refusal = "Lua redis lib command arguments must be strings or integers";
			break;
		}
		argv[i] = redis_lua_slice(lua, (int)i + 1);
	}
	if (!refusal) {
		x.command = redis_command_find(argv, x.argc, NULL);
		refusal = refuse_in_script(&x);
	}
	if (refusal) {
		redis_lua_push_error(lua, refusal);
		return raises ? lua_error(lua) : 1;
	}
	redis_call_run(&x);
	buf_append(&out, slice_of("", 1));
	redis_lua_push_reply(lua, buf_head(&out));
	raises &= *buf_head(&out) == '-';
	buf_release(&out);
	return raises ? lua_error(lua) : 1;
}

static int lua_redis_call(lua_State *lua)
{
	return call(lua, true);
}

static int lua_redis_pcall(lua_State *lua)
{
	return call(lua, false);
}

static int lua_redis_sha1hex(lua_State *lua)
{
	char hex[SHA1_HEX + 1];
	struct slice text;

	if (lua_gettop(lua) != 1) {
		redis_lua_push_error(lua, "wrong number of arguments");
		return lua_error(lua);
	}
	text = redis_lua_slice(lua, 1);
	sha1_hex(hex, &text, 1);
	lua_pushstring(lua, hex);
	return 1;
}

static int lua_redis_error_reply(lua_State *lua)
{
	const char *text = lua_type(lua, 1) == LUA_TSTRING ? lua_tostring(lua, 1) : NULL;

	if (lua_gettop(lua) != 1 || !text) {
		redis_lua_push_error(lua, "wrong number or type of arguments");
		return 1;
	}
	lua_pushstring(lua, *text == '-' ? "" : "-");
	lua_pushvalue(lua, 1);
	lua_concat(lua, 2);
	redis_lua_push_error(lua, lua_tostring(lua, -1));
	return 1;
}

static int lua_redis_status_reply(lua_State *lua)
{
	if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
		redis_lua_push_error(lua, "wrong number or type of arguments");
		return 1;
	}
	lua_newtable(lua);
	lua_pushvalue(lua, 1);
	lua_setfield(lua, -2, "ok");
	return 1;
}

static int lua_redis_setresp(lua_State *lua)
{
	double resp = lua_tonumber(lua, -1);

	if (lua_gettop(lua) != 1)
		redis_lua_push_error(lua, "redis.setresp() requires one argument.");
	else if (resp != 2 && resp != 3)
		redis_lua_push_error(lua, "RESP version must be 2 or 3.");
	else
		return server_of(lua)->script_resp = (int)resp, 0;
	return lua_error(lua);
}

static int lua_redis_acl_check_cmd(lua_State *lua)
{
	struct slice name = lua_type(lua, 1) == LUA_TSTRING ? redis_lua_slice(lua, 1)
	                                                    : SLICE_NONE;

	if (!name.p || !redis_command_find(&name, 1, NULL)) {
		redis_lua_push_error(lua, "Invalid command passed to redis.acl_check_cmd()");
		return lua_error(lua);
	}
	lua_pushboolean(lua, 1);
	return 1;
}

static const luaL_Reg redis_functions[] = {
	{ "call", lua_redis_call },
	{ "pcall", lua_redis_pcall },
	{ "sha1hex", lua_redis_sha1hex },
	{ "error_reply", lua_redis_error_reply },
	{ "status_reply", lua_redis_status_reply },
	{ "setresp", lua_redis_setresp },
	{ "acl_check_cmd", lua_redis_acl_check_cmd },
	{ NULL, NULL },
};

/* --- globals ------------------------------------------------------------------------------ */

/* pcall(): as Lua's, but an error table of redis.call() becomes its text. */
static int lua_pcall_text(lua_State *lua)
{
	bool failed = lua_pcall(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0) != 0;

	if (failed && lua_istable(lua, -1) && redis_lua_push_field(lua, "err", LUA_TSTRING))
		lua_replace(lua, -2);
	lua_pushboolean(lua, !failed);
	lua_insert(lua, 1);
	return lua_gettop(lua);
}

static int lua_no_global(lua_State *lua)
{
	const char *name = lua_tostring(lua, -1);

	return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
	                  name ? name : "?");
}

static int lua_read_only(lua_State *lua)
{
	return luaL_error(lua, "Attempt to modify a readonly table");
}

/* Adds to an error where it was raised. */
static int lua_note_line(lua_State *lua)
{
	lua_Debug at;
	int level = 1;
	bool known = lua_getstack(lua, level, &at) && lua_getinfo(lua, "Sl", &at);

	if (known && strcmp(at.what, "C") == 0)
		known = lua_getstack(lua, ++level, &at) && lua_getinfo(lua, "Sl", &at);
	if (!lua_istable(lua, 1)) {
		lua_newtable(lua);
		lua_pushliteral(lua, "ERR ");
		if (lua_tostring(lua, 1))
			lua_pushvalue(lua, 1);
		else
			lua_pushstring(lua, luaL_typename(lua, 1));
		lua_concat(lua, 2);
		lua_setfield(lua, -2, "err");
		lua_replace(lua, 1);
	}
	if (known) {
		lua_pushstring(lua, at.source);
		lua_setfield(lua, 1, "source");
		lua_pushinteger(lua, at.currentline);
		lua_setfield(lua, 1, "line");
	}
	lua_settop(lua, 1);
	return 1;
}

static void open_library(lua_State *lua, const char *name, lua_CFunction open)
{
	lua_pushcfunction(lua, open);
	lua_pushstring(lua, name);
	lua_call(lua, 1, 0);
}

void redis_scripts_init(struct sim_redis *s)
{
	static const char *const removed[] = { "print", "dofile", "loadfile" };
	lua_State *lua = luaL_newstate();

	HASP_ASSERT(lua);
	s->lua = lua;
	lua_pushlightuserdata(lua, s);
	lua_setfield(lua, LUA_REGISTRYINDEX, "sim_redis");
	open_library(lua, "", luaopen_base);
	open_library(lua, LUA_TABLIBNAME, luaopen_table);
	open_library(lua, LUA_STRLIBNAME, luaopen_string);
	open_library(lua, LUA_MATHLIBNAME, luaopen_math);
	for (size_t i = 0; i < sizeof(removed) / sizeof(*removed); i++) {
		lua_pushnil(lua);
		lua_setglobal(lua, removed[i]);
	}
	luaL_register(lua, "redis", redis_functions);
	lua_pushliteral(lua, REDIS_VERSION_TEXT);
	lua_setfield(lua, -2, "REDIS_VERSION");
	lua_register(lua, "pcall", lua_pcall_text);
	lua_newtable(lua);
	lua_pushcfunction(lua, lua_no_global);
	lua_setfield(lua, -2, "__index");
	lua_pushcfunction(lua, lua_read_only);
	lua_setfield(lua, -2, "__newindex");
	lua_setmetatable(lua, LUA_GLOBALSINDEX);
	lua_settop(lua, 0);
}

static void forget_scripts(struct sim_redis *s)
{
	struct redis_items shas = { 0 };

	redis_items_add_keys(&shas, &s->scripts);
	for (size_t i = 0; i < shas.n; i++) {
		struct map_node *node = map_get(&s->scripts, shas.v[i].name);
		map_remove(&s->scripts, node);
		free(container_of(node, struct redis_script, node));
	}
	redis_items_clear(&shas);
}

void redis_scripts_fini(struct sim_redis *s)
{
	forget_scripts(s);
	lua_close(s->lua);
	free(s->script_argv);
	s->script_argv = NULL;
}

/* --- scripts ------------------------------------------------------------------------------ */

static struct redis_script *find_script(struct redis_call *x, struct slice sha)
{
	char lower[SHA1_HEX];
	struct map_node *node;

	if (sha.n != SHA1_HEX)
		return NULL;
	for (size_t i = 0; i < SHA1_HEX; i++)
		lower[i] = (char)(sha.p[i] >= 'A' && sha.p[i] <= 'Z' ? sha.p[i] + 32
		                                                     : sha.p[i]);
	node = map_get(&x->s->scripts, slice_of(lower, SHA1_HEX));
	return node ? container_of(node, struct redis_script, node) : NULL;
}

/* NULL: it does not compile, and the reply is the error. */
static struct redis_script *load_script(struct redis_call *x, struct slice text)
{
	struct redis_script *script;
	lua_State *lua = x->s->lua;
	char sha[SHA1_HEX + 1];

	sha1_hex(sha, &text, 1);
	script = find_script(x, slice_of(sha, SHA1_HEX));
	if (script)
		return script;
	if (luaL_loadbuffer(lua, text.p ? text.p : "", text.n, "@user_script")) {
		redis_reply_error(x, "ERR Error compiling script (new function): %s",
		                  lua_tostring(lua, -1));
		lua_pop(lua, 1);
		return NULL;
	}
	script = xcalloc(1, sizeof(*script));
	memcpy(script->sha, sha, sizeof(sha));
	script->node.key = slice_of(script->sha, SHA1_HEX);
	script->function = luaL_ref(lua, LUA_REGISTRYINDEX);
	map_put(&x->s->scripts, &script->node);
	return script;
}

static void set_table(lua_State *lua, const char *name, const struct slice *v, size_t n)
{
	lua_pushstring(lua, name);
	lua_createtable(lua, (int)n, 0);
	for (size_t i = 0; i < n; i++) {
		lua_pushlstring(lua, v[i].p ? v[i].p : "", v[i].n);
		lua_rawseti(lua, -2, (int)i + 1);
	}
	lua_rawset(lua, LUA_GLOBALSINDEX);
}

/* The error table at the top, as what the client gets. */
static void reply_failure(struct redis_call *x, lua_State *lua, const char *sha)
{
	struct buf text = BUF_INIT;
	bool placed;

	lua_getfield(lua, -1, "err");
	buf_puts(&text, lua_tostring(lua, -1) ? lua_tostring(lua, -1) : "ERR unknown error");
	lua_getfield(lua, -2, "source");
	lua_getfield(lua, -3, "line");
	placed = lua_tostring(lua, -2) && lua_tostring(lua, -1);
	if (placed)
		buf_printf(&text, " script: %s, on %s:%s.", sha, lua_tostring(lua, -2),
		           lua_tostring(lua, -1));
	redis_reply_error_text(x->out, buf_slice(&text));
	buf_release(&text);
	lua_pop(lua, 4);
}

static void run_script(struct redis_call *x, const struct redis_script *script, size_t nkeys)
{
	struct sim_redis *s = x->s;
	lua_State *lua = s->lua;

	set_table(lua, "KEYS", x->argv + 3, nkeys);
	set_table(lua, "ARGV", x->argv + 3 + nkeys, x->argc - 3 - nkeys);
	s->script_caller = x;
	s->script_resp = 2;
	s->script_db = *x->db;
	lua_pushcfunction(lua, lua_note_line);
	lua_rawgeti(lua, LUA_REGISTRYINDEX, script->function);
	if (lua_pcall(lua, 0, 1, -2))
		reply_failure(x, lua, script->sha);
	else
		redis_lua_reply(x, lua);
	lua_pop(lua, 1);
	HASP_ASSERT(lua_gettop(lua) == 0);
	s->script_caller = NULL;
}

static bool arg_nkeys(struct redis_call *x, size_t *nkeys)
{
	long long n;

	if (!redis_arg_int(x, 2, &n))
		return false;
	if (n > (long long)x->argc - 3)
		redis_reply_error(x, "ERR Number of keys can't be greater than number of args");
	else if (n < 0)
		redis_reply_error(x, "ERR Number of keys can't be negative");
	else
		return *nkeys = (size_t)n, true;
	return false;
}

static void redis_eval(struct redis_call *x)
{
	struct redis_script *script;
	size_t nkeys;

	if (!arg_nkeys(x, &nkeys))
		return;
	script = load_script(x, x->argv[1]);
	if (script)
		run_script(x, script, nkeys);
}

static void redis_evalsha(struct redis_call *x)
{
	struct redis_script *script = find_script(x, x->argv[1]);
	size_t nkeys;

	if (x->argv[1].n == SHA1_HEX && !arg_nkeys(x, &nkeys))
		return;
	if (script)
		run_script(x, script, nkeys);
	else
		redis_reply_error(x, "NOSCRIPT No matching script. Please use EVAL.");
}

static void redis_script_load(struct redis_call *x)
{
	struct redis_script *script = load_script(x, x->argv[2]);

	if (script)
		redis_reply_text(x, script->sha);
}

static void redis_script_exists(struct redis_call *x)
{
	redis_reply_array(x, x->argc - 2);
	for (size_t i = 2; i < x->argc; i++)
		redis_reply_int(x, find_script(x, x->argv[i]) != NULL);
}

static void redis_script_flush(struct redis_call *x)
{
	if (x->argc > 3 ||
	    (x->argc == 3 && !redis_arg_is(x, 2, "SYNC") && !redis_arg_is(x, 2, "ASYNC"))) {
		redis_reply_error(x, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
		return;
	}
	redis_scripts_fini(x->s);
	redis_scripts_init(x->s);
	redis_reply_ok(x);
}

const struct redis_command redis_script_commands[] = {
	{ "eval", -3, REDIS_NOSCRIPT | REDIS_MOVABLE, 0, 0, 0, redis_eval, 0 },
	{ "evalsha", -3, REDIS_NOSCRIPT | REDIS_MOVABLE, 0, 0, 0, redis_evalsha, 0 },
	{ "script", -2, REDIS_CONTAINER, 0, 0, 0, NULL, 0 },
	{ "script|load", 3, REDIS_NOSCRIPT, 0, 0, 0, redis_script_load, 0 },
	{ "script|exists", -3, REDIS_NOSCRIPT, 0, 0, 0, redis_script_exists, 0 },
	{ "script|flush", -2, REDIS_NOSCRIPT, 0, 0, 0, redis_script_flush, 0 },
	{ 0 },
};
