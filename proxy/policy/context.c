/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/context.h"

#include "base/fatal.h"
#include "commands/args.h"
#include "lock/guard/checked_read.h"
#include "watch/command_sample.h"

#define EMPTY(l)                                                                               \
	{                                                                                      \
		(struct list *)&(l), (struct list *)&(l)                                       \
	}
const struct context_locks context_no_locks = {
	.holds = { .holds = EMPTY(context_no_locks.holds.holds),
	           .ended = EMPTY(context_no_locks.holds.ended),
	           .lost = EMPTY(context_no_locks.holds.lost) },
	.read_set = { .entries = EMPTY(context_no_locks.read_set.entries) },
};

struct context_locks *context_locks_new(void *client)
{
	struct context_locks *locks = xmalloc(sizeof(*locks));

	hold_owner_init(&locks->holds);
	read_set_init(&locks->read_set);
	locks->client = client;
	return locks;
}

/* Sets the keys. `args`: their indices in argv. `known`: see context_set_command(). */
static void set_keys(struct context *x, const size_t *args, size_t n,
                     const struct command_key *known)
{
	/* The decision depends on the sections of the keys. */
	bool matter = x->what->is_matched || x->what->reads_value || x->what->may_release ||
	              x->what->is_discovered;
	struct command_key *keys;

	buf_clear(&x->env->keys);
	keys = (void *)buf_reserve(&x->env->keys, n * sizeof(*keys));
	x->keys = (struct command_keys){ keys, n };
	for (size_t i = 0; i < n; i++) {
		keys[i] = (struct command_key){ .arg = args[i] };
		if (known && known->arg == args[i])
			keys[i] = *known;
		else if (matter)
			match_section(x->env->matcher, context_key(x, i), &keys[i].rule,
			              &keys[i].guard);
	}
}

static void find_keys(struct context *x, const struct command_key *known)
{
	static const size_t first = 1;
	struct key_args args;

	if (command_single_key(x->what->command) && x->req->argc > 1) {
		set_keys(x, &first, 1, known);
		return;
	}
	key_args_init(&args, x->what->command, x->req);
	set_keys(x, args.v, args.n, known);
	key_args_fini(&args);
}

void context_set_command(struct context *x, struct policy_env *env,
                         const struct command_info *what, const struct resp_view *req,
                         const struct command_key *known)
{
	x->env = env;
	x->req = req;
	x->what = what;
	x->keys.n = 0;
	if (what->command)
		find_keys(x, known);
}

void context_set_beginning(struct context *x, struct policy_env *env,
                           const struct command_info *what, const struct resp_view *beginning)
{
	const struct command *c = what->command;

	x->env = env;
	x->req = beginning;
	x->what = what;
	x->keys.n = 0;
	if (c && (command_single_key(c) || command_runs_script(c)))
		find_keys(x, NULL);
}

struct slice context_token(const struct context *x, enum owner_kind kind)
{
	if (x->must_log_in || kind == OWNER_CONNECTION)
		return token_slice(x->identity(x->arg));
	return owner_token(&x->env->tokens[kind], kind, x->identity(x->arg),
	                   session_text(x->session, TEXT_NAME), session_user(x->session));
}

struct decision context_refuse(struct context *x, const char *error)
{
	struct decision d = { .verdict = DISPATCH_CALL, .is_refusal = true };

	buf_clear(&x->env->rewritten);
	rewrite_error(&x->env->rewritten, &(struct rewrite_opts){ .eval = true }, error);
	return d;
}

static void free_rest(struct pending_request *r)
{
	if (r->lock_request)
		lock_request_free(r->lock_request);
	if (r->guard_op)
		guard_op_free(r->guard_op);
	if (r->command_sample)
		command_sample_free(r->command_sample);
	if (r->value_read)
		value_read_free(r->value_read);
	if (r->checked_read)
		checked_read_free(r->checked_read);
}

static size_t rest_nbytes(const struct pending_request *r)
{
	size_t n = 0;

	if (r->lock_request)
		n += lock_request_nbytes(r->lock_request);
	if (r->guard_op)
		n += guard_op_nbytes(r->guard_op);
	if (r->command_sample)
		n += command_sample_nbytes(r->command_sample);
	if (r->value_read)
		n += value_read_nbytes(r->value_read);
	if (r->checked_read)
		n += checked_read_nbytes(r->checked_read);
	return n;
}

const struct pending_ops context_rest = { free_rest, rest_nbytes };

void context_await(struct context *x, struct decision *d, struct pending_request *r)
{
	if (session_in_multi(x->session))
		session_track(x->session, r);
	else
		d->pending = r;
}

void context_note(struct context *x, struct decision *d, struct command_sample *sample,
                  struct value_read *read)
{
	struct pending_request *r = d->pending ? d->pending : pending_new(PENDING_NOTICE);

	if (sample)
		r->command_sample = sample;
	if (read)
		r->value_read = read;
	r->rest = &context_rest;
	if (!d->pending)
		context_await(x, d, r);
}

struct decision context_guard(struct pending_request *r, struct guard_op *op)
{
	r->guard_op = op;
	r->rest = &context_rest;
	return (struct decision){ .verdict = DISPATCH_GUARD, .pending = r };
}

/* --- hasp's own keys --------------------------------------------------------------------- */

const char reserved_keys_error[] =
	"NOPERM hasp: keys that begin with hasp: are reserved; clients may only read them";

bool reserved_keys_are_written(const struct context *x)
{
	const struct command *c = x->what->command;
	size_t n = x->keys.n;
	bool written = false;

	if (!x->what->may_release)
		return false;
	/* Only Redis knows which arguments are keys. */
	if (c->flags & COMMAND_HIDDEN_KEYS)
		return reserved_keys_are_named(x->req->argv + 1, x->req->argc - 1);
	if (command_runs_script(c) || command_writes(c, n))
		for (size_t i = 0; i < n; i++)
			written |= command_writes_key(c, i, n) &&
			           match_is_own(context_key(x, i));
	return written;
}

/* True if all keys of an `EVAL script numkeys key ...` have arrived. */
static bool has_all_keys(const struct resp_view *beginning)
{
	int64_t n;

	if (beginning->argc < 3)
		return false;
	/* Redis refuses such a number, and looks at no key. */
	if (!slice_integer(beginning->argv[2], &n) || n < 0)
		return true;
	return (uint64_t)n <= beginning->argc - 3;
}

bool reserved_keys_are_untouched(const struct context *x)
{
	const struct command *c = x->what->command;

	if (!x->what->may_release)
		return true;
	if (command_single_key(c))
		return x->keys.n && !match_is_own(context_key(x, 0));
	return command_runs_script(c) && has_all_keys(x->req) && !reserved_keys_are_written(x);
}
