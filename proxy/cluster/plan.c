/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/plan.h"

#include "commands/args.h"
#include "upstream/slot.h"

const struct slice plan_crossslot = SLICE_LIT(
	"-CROSSSLOT Keys in request don't hash to the same slot\r\n");
const struct slice plan_disabled = SLICE_LIT(
	"-ERR This instance has cluster support disabled\r\n");

static const struct plan default_node = { .kind = PLAN_HOME };

static struct plan to_each(enum merge_kind merge)
{
	return (struct plan){ .kind = PLAN_EACH, .merge = merge };
}

/* Returns the common slot of `n` arguments from argv[first] on; -1: there are several. */
static int common_slot(const struct resp_view *req, size_t first, size_t n, size_t step)
{
	int slot = slot_of_key(req->argv[first]);

	for (size_t i = 1; i < n; i++)
		if (slot_of_key(req->argv[first + i * step]) != slot)
			return -1;
	return slot;
}

/* Plans a command whose keys are the `n` arguments from argv[first] on. */
static struct plan by_keys(const struct resp_view *req, size_t first, size_t n)
{
	int slot;

	if (n == 0 || first >= req->argc || n > req->argc - first)
		return default_node;
	slot = common_slot(req, first, n, 1);
	if (slot < 0)
		return (struct plan){ .kind = PLAN_CROSSSLOT };
	return (struct plan){ .kind = PLAN_SLOT, .slot = (uint16_t)slot, .several = n > 1 };
}

/* Plans a command by the key positions in the table of commands. */
static struct plan by_known_keys(const struct command *c, const struct resp_view *req)
{
	struct plan p = default_node;
	struct key_args keys;

	if (command_single_key(c))
		return by_keys(req, 1, 1);
	key_args_init(&keys, c, req);
	for (size_t i = 0; i < keys.n; i++) {
		uint16_t slot = slot_of_key(req->argv[keys.v[i]]);
		if (i > 0 && slot != p.slot) {
			p.kind = PLAN_CROSSSLOT;
			break;
		}
		p.kind = PLAN_SLOT;
		p.slot = slot;
		p.several = keys.n > 1;
	}
	key_args_fini(&keys);
	return p;
}

/* Plans a command whose arguments are keys, or groups of `step` that begin with a key. */
static struct plan by_slots(const struct resp_view *req, size_t step, enum merge_kind merge)
{
	size_t n = (req->argc - 1 + step - 1) / step;
	int slot;

	slot = common_slot(req, 1, n, step);
	if (slot >= 0)
		return (struct plan){ .kind = PLAN_SLOT,
			              .slot = (uint16_t)slot,
			              .several = n > 1 };
	if ((req->argc - 1) % step)
		return (struct plan){ .kind = PLAN_MALFORMED,
			              .slot = slot_of_key(req->argv[1]) };
	return (struct plan){ .kind = PLAN_SPLIT, .merge = merge, .step = (uint8_t)step };
}

/* XREAD [options] STREAMS key [key ...] id [id ...]: finds keys as xreadGetKeys() does. */
static struct plan by_streams(const struct resp_view *req)
{
	for (size_t i = 1; i < req->argc; i++) {
		struct slice option = req->argv[i];

		if (args_option(option, "BLOCK") || args_option(option, "COUNT"))
			i++;
		else if (args_option(option, "GROUP"))
			i += 2;
		else if (args_option(option, "STREAMS"))
			return by_keys(req, i + 1, (req->argc - i - 1) / 2);
		else if (!args_option(option, "NOACK"))
			break;
	}
	return default_node;
}

static struct plan by_numkeys(const struct resp_view *req)
{
	int64_t n;

	if (req->argc < 3 || !slice_integer(req->argv[2], &n) || n < 0)
		return default_node;
	return by_keys(req, 3, (size_t)n);
}

/* MIGRATE host port key|"" db timeout [options] [KEYS key [key ...]] */
static struct plan by_migrate(const struct resp_view *req)
{
	if (req->argv[3].n)
		return by_keys(req, 3, 1);
	for (size_t i = 6; i < req->argc; i++) {
		if (args_option(req->argv[i], "KEYS"))
			return by_keys(req, i + 1, req->argc - i - 1);
		if (args_option(req->argv[i], "AUTH"))
			i++;
		else if (args_option(req->argv[i], "AUTH2"))
			i += 2;
	}
	return default_node;
}

/* The subcommands for all primaries; other subcommands are for the home node. */
static const struct {
	const char *command, *subcommand;
	enum merge_kind merge;
} of_all[] = {
	{ "acl", "DELUSER", MERGE_SAME },
	{ "acl", "LOAD", MERGE_SAME },
	{ "acl", "SAVE", MERGE_SAME },
	{ "acl", "SETUSER", MERGE_SAME },
	{ "config", "RESETSTAT", MERGE_SAME },
	{ "config", "REWRITE", MERGE_SAME },
	{ "config", "SET", MERGE_SAME },
	{ "function", "DELETE", MERGE_SAME },
	{ "function", "FLUSH", MERGE_SAME },
	{ "function", "KILL", MERGE_ANY },
	{ "function", "LOAD", MERGE_SAME },
	{ "function", "RESTORE", MERGE_SAME },
	{ "pubsub", "CHANNELS", MERGE_NAMES },
	{ "pubsub", "NUMPAT", MERGE_SUM },
	{ "pubsub", "NUMSUB", MERGE_COUNTS },
	{ "pubsub", "SHARDCHANNELS", MERGE_NAMES },
	{ "pubsub", "SHARDNUMSUB", MERGE_COUNTS },
	{ "script", "EXISTS", MERGE_LEAST },
	{ "script", "FLUSH", MERGE_SAME },
	{ "script", "KILL", MERGE_ANY },
	{ "script", "LOAD", MERGE_SAME },
};

static struct plan by_subcommand(const struct command *c, const struct resp_view *req)
{
	for (size_t i = 0; req->argc > 1 && i < sizeof(of_all) / sizeof(*of_all); i++)
		if (strcmp(c->name, of_all[i].command) == 0 &&
		    args_option(req->argv[1], of_all[i].subcommand))
			return to_each(of_all[i].merge);
	return default_node;
}

struct plan plan_request(const struct command *c, const struct resp_view *req)
{
	/* Any node refuses a request with a wrong number of arguments, whatever its keys
	 * are. */
	if (!c || !command_arity_ok(c, req->argc))
		return default_node;
	switch ((enum command_cluster)c->facts.cluster) {
	case CLUSTER_KEYS:
		break;
	case CLUSTER_COUNT:
		return by_slots(req, 1, MERGE_SUM);
	case CLUSTER_VALUES:
		return by_slots(req, 1, MERGE_VALUES);
	case CLUSTER_PAIRS:
		return by_slots(req, 2, MERGE_SAME);
	case CLUSTER_SUM:
		return to_each(MERGE_SUM);
	case CLUSTER_LIST:
		return to_each(MERGE_LIST);
	case CLUSTER_SAME:
		return to_each(MERGE_SAME);
	case CLUSTER_LEAST:
		return to_each(MERGE_LEAST);
	case CLUSTER_SCAN:
		return (struct plan){ .kind = req->argc > 1 ? PLAN_SCAN : PLAN_HOME };
	case CLUSTER_RANDOM:
		return to_each(MERGE_FOUND);
	case CLUSTER_SUBCOMMAND:
		return by_subcommand(c, req);
	case CLUSTER_STREAMS:
		return by_streams(req);
	case CLUSTER_SECOND:
		return by_keys(req, 2, req->argc > 2);
	case CLUSTER_NUMKEYS:
		return by_numkeys(req);
	case CLUSTER_MIGRATE:
		return by_migrate(req);
	case CLUSTER_ANY:
	case CLUSTER_MODE:
		return default_node;
	case CLUSTER_DISABLED:
		return (struct plan){ .kind = PLAN_DISABLED };
	}
	return by_known_keys(c, req);
}
