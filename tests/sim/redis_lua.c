/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redis_lua: values of Lua as RESP, and RESP as values of Lua, as Redis converts them.
 */
#include "tests/sim/redis_internal.h"

#include <lauxlib.h>
#include <stdlib.h>

struct slice redis_lua_slice(lua_State *lua, int index)
{
	size_t n;
	const char *p = lua_tolstring(lua, index, &n);

	return slice_of(p, n);
}

/* --- errors ------------------------------------------------------------------------------- */

void redis_lua_push_error(lua_State *lua, const char *text)
{
	bool has_code = *text == '-' && strchr(text, ' ');
	size_t n;

	text += *text == '-';
	n = strlen(text);
	while (n && strchr("\r\n", text[n - 1]))
		n--;
	lua_newtable(lua);
	if (has_code) {
		lua_pushlstring(lua, text, n);
	} else {
		lua_pushliteral(lua, "ERR ");
		lua_pushlstring(lua, text, n);
		lua_concat(lua, 2);
	}
	lua_setfield(lua, -2, "err");
}

/* --- RESP to Lua -------------------------------------------------------------------------- */

static const char *push_elements(lua_State *lua, const char *p, long n, char type)
{
	if (type == '%' || type == '~') {
		lua_newtable(lua);
		lua_pushstring(lua, type == '%' ? "map" : "set");
	}
	lua_newtable(lua);
	for (long i = 1; i <= n; i++) {
		p = redis_lua_push_reply(lua, p);
		if (type == '%')
			p = redis_lua_push_reply(lua, p);
		else if (type == '~')
			lua_pushboolean(lua, 1);
		else
			lua_rawseti(lua, -2, (int)i);
		if (type == '%' || type == '~')
			lua_rawset(lua, -3);
	}
	if (type == '%' || type == '~')
		lua_rawset(lua, -3);
	return p;
}

const char *redis_lua_push_reply(lua_State *lua, const char *p)
{
	const char type = *p, *text = p + 1, *end = strchr(text, '\r');
	long n = strtol(text, NULL, 10);

	luaL_checkstack(lua, 6, "a reply is too deep");
	p = end + 2;
	switch (type) {
	case ':':
		lua_pushnumber(lua, (lua_Number)strtoll(text, NULL, 10));
		return p;
	case '+':
		lua_newtable(lua);
		lua_pushlstring(lua, text, (size_t)(end - text));
		lua_setfield(lua, -2, "ok");
		return p;
	case '-': {
		struct buf error = BUF_INIT;
		buf_append(&error, slice_of(text - 1, (size_t)(end - text) + 1));
		buf_append(&error, slice_of("", 1));
		redis_lua_push_error(lua, buf_head(&error));
		buf_release(&error);
		lua_pushboolean(lua, 1);
		lua_setfield(lua, -2, "ignore_error_stats_update");
		return p;
	}
	case '_':
		lua_pushnil(lua);
		return p;
	case '#':
		lua_pushboolean(lua, *text == 't');
		return p;
	case ',':
		lua_newtable(lua);
		lua_pushnumber(lua, strtod(text, NULL));
		lua_setfield(lua, -2, "double");
		return p;
	case '$':
		if (n < 0) {
			lua_pushboolean(lua, 0);
			return p;
		}
		lua_pushlstring(lua, p, (size_t)n);
		return p + n + 2;
	default:
		if (n < 0) {
			lua_pushboolean(lua, 0);
			return p;
		}
		return push_elements(lua, p, n, type);
	}
}

/* --- Lua to RESP -------------------------------------------------------------------------- */

bool redis_lua_push_field(lua_State *lua, const char *name, int type)
{
	lua_getfield(lua, -1, name);
	if (lua_type(lua, -1) == type)
		return true;
	lua_pop(lua, 1);
	return false;
}

/* The table at the top is a map, or with `is_set` a set. */
static void reply_pairs(struct redis_call *x, lua_State *lua, bool is_set)
{
	struct redis_call inner = *x;
	struct buf out = BUF_INIT;
	size_t n = 0;

	inner.out = &out;
	for (lua_pushnil(lua); lua_next(lua, -2); n++) {
		lua_pushvalue(lua, -2);
		redis_lua_reply(&inner, lua);
		if (is_set)
			lua_pop(lua, 1);
		else
			redis_lua_reply(&inner, lua);
	}
	if (is_set)
		redis_reply_set(x, n);
	else
		redis_reply_map(x, n);
	buf_append(x->out, buf_slice(&out));
	buf_release(&out);
}

/* The elements up to the first nil. */
static void reply_list(struct redis_call *x, lua_State *lua)
{
	struct redis_call inner = *x;
	struct buf out = BUF_INIT;
	size_t n = 0;

	inner.out = &out;
	for (;; n++) {
		lua_pushnumber(lua, (lua_Number)n + 1);
		lua_gettable(lua, -2);
		if (lua_isnil(lua, -1))
			break;
		redis_lua_reply(&inner, lua);
	}
	lua_pop(lua, 1);
	redis_reply_array(x, n);
	buf_append(x->out, buf_slice(&out));
	buf_release(&out);
}

static void reply_table(struct redis_call *x, lua_State *lua)
{
	if (redis_lua_push_field(lua, "err", LUA_TSTRING)) {
		const char *text = lua_tostring(lua, -1);
		redis_reply_error_text(x->out, slice_str(text));
	} else if (redis_lua_push_field(lua, "ok", LUA_TSTRING)) {
		struct buf text = BUF_INIT;
		redis_reply_error_text(&text, slice_str(lua_tostring(lua, -1)));
		*buf_head(&text) = '+';
		buf_append(x->out, buf_slice(&text));
		buf_release(&text);
	} else if (redis_lua_push_field(lua, "double", LUA_TNUMBER)) {
		redis_reply_double(x, lua_tonumber(lua, -1));
	} else if (redis_lua_push_field(lua, "map", LUA_TTABLE)) {
		reply_pairs(x, lua, false);
	} else if (redis_lua_push_field(lua, "set", LUA_TTABLE)) {
		reply_pairs(x, lua, true);
	} else {
		reply_list(x, lua);
		return;
	}
	lua_pop(lua, 1);
}

void redis_lua_reply(struct redis_call *x, lua_State *lua)
{
	if (!lua_checkstack(lua, 6)) {
		redis_reply_error(x, "ERR reached lua stack limit");
		lua_pop(lua, 1);
		return;
	}
	switch (lua_type(lua, -1)) {
	case LUA_TSTRING:
		redis_reply_bulk(x, redis_lua_slice(lua, -1));
		break;
	case LUA_TNUMBER:
		redis_reply_int(x, (long long)lua_tonumber(lua, -1));
		break;
	case LUA_TBOOLEAN:
		if (x->s->script_resp == 3 && x->resp == 3)
			buf_puts(x->out, lua_toboolean(lua, -1) ? "#t\r\n" : "#f\r\n");
		else if (x->s->script_resp == 3 || lua_toboolean(lua, -1))
			redis_reply_int(x, lua_toboolean(lua, -1));
		else
			redis_reply_nil(x);
		break;
	case LUA_TTABLE:
		reply_table(x, lua);
		break;
	default:
		redis_reply_nil(x);
	}
	lua_pop(lua, 1);
}
