/* SPDX-License-Identifier: BSD-3-Clause */
#include "settings.h"

#include <stdio.h>

#include "base/fatal.h"
#include "commands/learn.h"
#include "config/config.h"
#include "lock/guard/check_commands.h"
#include "net/address.h"
#include "upstream/ask.h"

/* Signals wait meanwhile, and so does the parent of a hasp that is started. */
#define SETTINGS_ASK_MS_MAX 5000

static size_t settings_on_commands(void *arg, const redisReply *reply)
{
	return learn_commands(arg, reply);
}

/* Returns the number of faults. */
static size_t settings_check_guards(const struct config *c, struct buf *faults,
                                    struct buf *warnings)
{
	struct ask how = {
		.user = c->upstream_user,
		.password = c->upstream_password,
		.timeout_ms = c->connect_timeout_ms < SETTINGS_ASK_MS_MAX
		                      ? c->connect_timeout_ms
		                      : SETTINGS_ASK_MS_MAX,
		.on_commands = settings_on_commands,
	};
	struct commands *t;
	struct buf why = BUF_INIT;
	size_t n;
	int rc;

	if (c->nguards == 0)
		return 0;
	rc = address_parse(&how.address, c->address);
	HASP_ASSERT(rc == 0);
	how.arg = t = commands_new();
	if (ask_commands(&how, &why) < 0)
		buf_printf(warnings,
		           "%s:%d: the commands of guards are checked only in part, since "
		           "Redis at %s cannot be asked: %.*s; the rest is checked when it "
		           "can\n",
		           c->path, c->guards[0]->section.line, c->address, (int)buf_len(&why),
		           buf_head(&why));
	n = check_commands(c, t, faults);
	buf_release(&why);
	commands_free(t);
	return n;
}

static void settings_print_lines(const char *before, struct slice lines)
{
	struct slice line;

	while (slice_cut(&lines, '\n', &line))
		fprintf(stderr, "%s%.*s\n", before, (int)line.n, line.p);
}

void settings_print(const struct buf *faults, const struct buf *warnings)
{
	settings_print_lines("", buf_slice(faults));
	settings_print_lines("warning: ", buf_slice(warnings));
}

struct config *settings_load(const char *file, struct buf *faults, struct buf *warnings)
{
	struct config *config = config_load(file, faults, warnings);

	if (config && settings_check_guards(config, faults, warnings) > 0) {
		config_unref(config);
		config = NULL;
	}
	return config;
}
