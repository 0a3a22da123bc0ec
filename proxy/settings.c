/* SPDX-License-Identifier: BSD-3-Clause */
#include "settings.h"

#include <stdio.h>

#include "base/fatal.h"
#include "base/log.h"
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

/* To stderr, unless `to_log`. */
static void settings_tell(const struct buf *lines, enum log_severity level, bool to_log)
{
	struct slice rest = buf_slice(lines), line;

	if (to_log) {
		log_lines(level, rest);
		return;
	}
	while (slice_cut(&rest, '\n', &line))
		fprintf(stderr, "%s%.*s\n", level == LOG_SEV_WARNING ? "warning: " : "",
		        (int)line.n, line.p);
}

struct config *settings_load(const char *file, bool to_log)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	struct config *config = config_load(file, &faults, &warnings);

	if (config && settings_check_guards(config, &faults, &warnings) > 0) {
		config_unref(config);
		config = NULL;
	}
	settings_tell(&faults, LOG_SEV_ERROR, to_log);
	settings_tell(&warnings, LOG_SEV_WARNING, to_log);
	buf_release(&faults);
	buf_release(&warnings);
	return config;
}
