/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/guard_block.h"

#include "base/fatal.h"
#include "config/match.h"
#include "lock/rewrite/guard.h"
#include "policy/classifier.h"
#include "policy/guard_keys.h"

/* Until Redis has described a command, any of its arguments may be a key. */
bool guard_block_names_guarded(const struct policy_env *env, const struct resp_view *req)
{
	if (commands_are_learned(env->commands))
		return false;
	for (size_t i = 1; i < req->argc; i++) {
		if (match_enforced_guard(env->matcher, req->argv[i]))
			return true;
	}
	return false;
}

/* Finds the guarded keys of all commands in `block`; k->v grows. Returns false if they are in
 * more than one database, too many, or not all known. */
static bool find_in_block(const struct context *x, struct slice block, struct guard_keys *k)
{
	struct request_args args = { 0 };
	bool moved = false, clear = true;

	while (block.n) {
		struct request_scan scan = { 0 };
		struct context each = *x;
		struct command_info what;
		struct resp_view view;
		struct guard_keys some;
		size_t used;
		enum resp_result r = request_scan_args(&scan, block.p, block.n, &used, &args);
		HASP_ASSERT(r == RESP_OK);
		block = slice_of(block.p + used, block.n - used);
		view = (struct resp_view){ args.argc, args.argv };
		what = classifier_find(x->env, view.argv[0]);
		each.req = &view;
		each.what = &what;
		moved |= slice_is(view.argv[0], "select");
		if (!what.command && guard_block_names_guarded(x->env, &view))
			clear = false;
		if (!clear || !what.is_guarded || !what.command ||
		    !command_arity_ok(what.command, view.argc))
			continue;
		guard_keys_init(&some, what.command, &view);
		guard_keys_find(&each, &some);
		clear &= (some.n == 0 || !moved) && !some.incomplete &&
		         k->n + some.n < READ_SET_MAX;
		if (clear)
			guard_keys_add(k, &some);
		guard_keys_fini(&some);
	}
	request_args_fini(&args);
	return clear;
}

enum guard_block guard_find_block(struct context *x, struct slice block,
                                  enum guard_op_kind kind, struct guard_op **op)
{
	struct policy_env *env = x->env;
	struct guard_keys k;
	struct guarded_command g;
	enum guard_block result = GUARD_BLOCK_NONE;

	guard_keys_init_empty(&k);
	if (!find_in_block(x, block, &k))
		result = GUARD_BLOCK_UNCLEAR;
	if (k.n && result == GUARD_BLOCK_NONE) {
		k.n = rewrite_guard_sort(k.v, k.n);
		guard_keys_name(x, &k);
		/* (Where the application watches keys, no script checks them.) */
		if (k.n >= READ_SET_MAX || (k.checks && k.locks && kind != GUARD_OP_WATCH_EXEC))
			result = GUARD_BLOCK_UNCLEAR;
		else
			result = GUARD_BLOCK_OP;
	}
	if (result == GUARD_BLOCK_OP) {
		g = (struct guarded_command){
			.keys = k.v,
			.n = k.n,
			.wait_ms = k.wait_ms,
			.replicas = k.replicas,
			.replicas_timeout_ms = k.replicas_timeout_ms,
		};
		*op = guard_op_new(env->read_sets, &env->guard_ops, x->read_set, x->session->db,
		                   &g, kind, env->now);
		(*op)->writes = true;
	}
	guard_keys_fini(&k);
	return result;
}
