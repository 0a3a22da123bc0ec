/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/rewrite_fixture.h"

#include "commands/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "tests/unit/testing.h"

#define ARGS_MAX (ARGS_UNPACK_MAX + 8)

const struct rule rule = { .owner = OWNER_CONNECTION, .lease_ms = 30000 };
const struct rule capping = { .owner = OWNER_CONNECTION,
	                      .lease_ms = 5000,
	                      .max_lease_ms = 8000 };
const struct rule by_value = { .owner = OWNER_VALUE, .lease_ms = 30000 };
const struct rule waiting = { .owner = OWNER_CONNECTION, .lease_ms = 30000, .wait_ms = 4000 };
const struct rule waiting_by_value = { .owner = OWNER_VALUE,
	                               .lease_ms = 30000,
	                               .max_lease_ms = 60000,
	                               .wait_ms = 4000,
	                               .reentrant = REENTRANT_REFRESH };

const struct rewrite_opts may_wait = { .ticket = SLICE_LIT(TICKET), .wait_max_ms = INT64_MAX };

struct buf out;
struct lock_call call;

/* A command line, split at blanks. */
struct line {
	char *copy;
	struct slice argv[ARGS_MAX];
	struct resp_view view;
};

/* The command line of the last rewriting: `call` points into its words. */
static struct line last;

struct verbs verbs(enum reentrant_mode layout)
{
	return (struct verbs){ .names[VERB_LOCK] = (char *)"LOCK",
		               .names[VERB_UNLOCK] = (char *)"UNLOCK",
		               .names[VERB_EXTEND] = (char *)"Lock.Extend",
		               .names[VERB_INFO] = (char *)"LOCK.INFO",
		               .reentrant = layout,
		               .lease_ms = 30000 };
}

static void split(struct line *l, const char *text)
{
	*l = (struct line){ .copy = xstrdup(text) };
	for (char *w = strtok(l->copy, " "); w; w = strtok(NULL, " "))
		l->argv[l->view.argc++] = slice_str(w);
	l->view.argv = l->argv;
}

/* Makes room for the next rewriting. */
static const struct resp_view *next(const char *text)
{
	free(last.copy);
	split(&last, text);
	buf_clear(&out);
	return &last.view;
}

int rewrite_tear_down(void **state)
{
	(void)state;
	free(last.copy);
	last.copy = NULL;
	buf_release(&out);
	return 0;
}

enum rewrite_result rewrite_keys(const char *text, const struct lock_key *keys, size_t n,
                                 struct rewrite_opts opts)
{
	const struct resp_view *view = next(text);

	static const struct command unknown = { .flags = COMMAND_WRITE };
	struct commands *commands = commands_new();
	const struct command *c = commands_get(commands, view->argv[0]);
	enum rewrite_result result = rewrite_lock(&out, c ? c : &unknown, view, keys, n, &opts,
	                                          &call);

	commands_free(commands);
	return result;
}

enum rewrite_result rewrite_as(const char *text, const struct rule *r, struct rewrite_opts opts)
{
	struct lock_key key = { .arg = 1, .rule = r, .token = slice_str(TOKEN) };

	return rewrite_keys(text, &key, 1, opts);
}

enum rewrite_result rewrite(const char *text, const struct rule *r)
{
	return rewrite_as(text, r, (struct rewrite_opts){ 0 });
}

void rewrite_verbs_as(const char *text, enum verb verb, struct verbs v,
                      struct rewrite_opts opts)
{
	const struct resp_view *view = next(text);

	rewrite_verb(&out, verb, view, &v, slice_str(TOKEN), &opts, &call);
}

void rewrite_verbs(const char *text, enum verb verb, struct verbs v)
{
	rewrite_verbs_as(text, verb, v, (struct rewrite_opts){ 0 });
}

bool out_has(const char *text)
{
	*buf_reserve(&out, 1) = '\0';
	return strstr(buf_head(&out), text) != NULL;
}

void assert_calls(enum script_id script, const char *words)
{
	struct buf expected = BUF_INIT;
	struct line l;

	split(&l, words);
	buf_printf(&expected, "*%zu\r\n$7\r\nEVALSHA\r\n$40\r\n%.40s\r\n", l.view.argc + 2,
	           script_get(script)->sha.p);
	for (size_t i = 0; i < l.view.argc; i++) {
		struct slice w = l.argv[i];
		if (slice_eq(w, SLICE_LIT("\"\"")))
			w = SLICE_LIT("");
		buf_printf(&expected, "$%zu\r\n%.*s\r\n", w.n, (int)w.n, w.p);
	}
	if (!slice_eq(buf_slice(&out), buf_slice(&expected)))
		fail_msg("%.*s\ninstead of\n%.*s", (int)buf_len(&out), buf_head(&out),
		         (int)buf_len(&expected), buf_head(&expected));
	buf_release(&expected);
	free(l.copy);
}
