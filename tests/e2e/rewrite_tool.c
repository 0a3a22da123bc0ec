/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rewrite_tool: lets a test ask the rewriter, without a proxy in between. One
 * request per line, one answer per line; keys, tokens and arguments in hex,
 * `-` for an empty one. Keys that begin with "lock" have the rule.
 *
 *   lock OWNER LEASE MAX REENTRANT WAIT HOW ARG...
 *   verb VERB LAYOUT LEASE MAX HOW ARG...
 *       -> pass
 *       -> call SCRIPT EFFECT SUCCESS LEASED LEASE_MS KEY VALUE OWNER KIND WAIT_MS SHORT
 *          BYTES
 *       HOW: FORM RESP TICKET MAY_WAIT_MS PLACE TOKEN
 *       FORM: 0 EVALSHA, 1 EVAL, 2 EVALSHA that is short if the script allows it
 *   renew LOCK LEASE FENCE [LOCK LEASE FENCE ...] -> BYTES
 *   release LOCK TICKET MOST_MS                 -> BYTES
 *   unlock LOCK FENCE                           -> BYTES
 *   poll LOCK VALUE TICKET PLACE LEASE          -> BYTES
 *   dequeue LOCK VALUE TICKET PLACE undo|tell [AGE_MS if PLACE < 0] -> BYTES
 *       LOCK: h|s|r|v|l KEY TOKEN
 *   keys ARG...                                 -> KNOWN ARITY_OK INDEX...
 *   slots KEY...                                -> SLOT TAG ...
 *   scripts                                     -> NAME SHA TEXT ...
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/rewrite/rewrite.h"
#include "commands/command.h"
#include "resp/write.h"
#include "upstream/slot.h"

static const char *const owners[] = { "connection", "address", "name", "user", "value" };
static const char *const reentrants[] = { "no", "refresh", "count" };
static const char *const verb_names[] = { "LOCK", "UNLOCK", "EXTEND", "INFO",
	                                  "LIST", "MLOCK",  "MUNLOCK" };
static const char *const effects[] = {
	"none", "takes", "stores", "counts", "drops", "expires"
};
static const char *const successes[] = { "ok", "one", "positive", "nil", "value", "no-error" };

#define INDEX(names, s) index_of(names, sizeof(names) / sizeof((names)[0]), s)

static int index_of(const char *const *names, size_t n, const char *s)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], s) == 0)
			return (int)i;
	fprintf(stderr, "rewrite_tool: what is %s?\n", s);
	exit(2);
}

static char *word(void)
{
	char *w = strtok(NULL, " \n");

	if (!w) {
		fputs("rewrite_tool: line too short\n", stderr);
		exit(2);
	}
	return w;
}

/* Decodes in place. */
static struct slice unhex(char *w)
{
	size_t n = 0;

	if (strcmp(w, "-") == 0)
		return slice_of("", 0);
	for (; w[2 * n]; n++) {
		unsigned v;
		sscanf(w + 2 * n, "%2x", &v);
		w[n] = (char)v;
	}
	return slice_of(w, n);
}

static void put_hex(struct slice s)
{
	static const char digits[] = "0123456789abcdef";

	putchar(' ');
	if (s.n == 0)
		putchar('-');
	for (size_t i = 0; i < s.n; i++) {
		putchar(digits[(unsigned char)s.p[i] >> 4]);
		putchar(digits[s.p[i] & 15]);
	}
}

/* In place of a process'. */
static const struct rewrite_opts own = { .secret = SLICE_LIT("secret") };

static struct rewrite_opts read_opts(void)
{
	struct rewrite_opts opts = own;
	char form;

	form = *word();
	opts.eval = form == '1';
	opts.may_be_short = opts.report_refusal = form == '2';
	opts.resp3 = *word() == '3';
	opts.ticket = unhex(word());
	opts.wait_max_ms = atoll(word());
	opts.place = atoll(word());
	return opts;
}

static struct resp_view read_args(struct slice **argv)
{
	size_t n = 0, room = 16;
	char *w;

	*argv = xcalloc(room, sizeof(**argv));
	while ((w = strtok(NULL, " \n"))) {
		if (n == room)
			*argv = xrealloc(*argv, (room *= 2) * sizeof(**argv));
		(*argv)[n++] = unhex(w);
	}
	return (struct resp_view){ n, *argv };
}

static void put_call(const struct lock_call *c, const struct buf *out)
{
	printf("call %s %s %s %d %lld", script_get(c->script)->name, effects[c->effect],
	       successes[c->success], c->leased, (long long)c->lease_ms);
	put_hex(c->key);
	put_hex(c->value);
	put_hex(c->owner);
	printf(" %c %lld %d", c->kind ? (char)c->kind : '-', (long long)c->wait_ms,
	       c->is_short);
	put_hex(buf_slice(out));
	putchar('\n');
}

static size_t find_keys(const struct commands *t, const struct resp_view *req, size_t **args)
{
	const struct command *c = commands_get(t, req->argv[0]);
	size_t n = c ? command_key_args(c, req, NULL, 0) : 0;

	*args = xcalloc(n, sizeof(**args));
	return c ? command_key_args(c, req, *args, n) : 0;
}

static void do_lock(const struct commands *t)
{
	struct rule rule = { .section.name = (char *)"test" };
	struct buf out = BUF_INIT;
	struct lock_call call = { 0 };
	struct lock_key *keys;
	struct slice *argv, token;
	size_t *args, n;
	bool has_rule = false;

	rule.owner = (enum owner_kind)INDEX(owners, word());
	rule.lease_ms = atoll(word());
	rule.max_lease_ms = atoll(word());
	rule.reentrant = (enum reentrant_mode)INDEX(reentrants, word());
	rule.wait_ms = atoll(word());
	struct rewrite_opts opts = read_opts();
	token = unhex(word());
	struct resp_view req = read_args(&argv);
	n = find_keys(t, &req, &args);
	keys = xcalloc(n, sizeof(*keys));
	for (size_t i = 0; i < n; i++) {
		bool ruled = slice_starts(argv[args[i]], SLICE_LIT("lock"));
		keys[i] = (struct lock_key){
			.arg = args[i],
			.rule = ruled ? &rule : NULL,
			.token = token,
		};
		has_rule |= ruled;
	}
	if (has_rule && rewrite_lock(&out, commands_get(t, argv[0]), &req, keys, n, &opts,
	                             &call) == REWRITE_CALL)
		put_call(&call, &out);
	else
		puts("pass");
	buf_release(&out);
	free(keys);
	free(args);
	free(argv);
}

static void do_verb(void)
{
	struct verbs verbs = { .names[VERB_LOCK] = (char *)"LOCK",
		               .names[VERB_UNLOCK] = (char *)"UNLOCK",
		               .names[VERB_EXTEND] = (char *)"LOCK.EXTEND",
		               .names[VERB_INFO] = (char *)"LOCK.INFO" };
	enum verb verb = (enum verb)INDEX(verb_names, word());
	struct buf out = BUF_INIT, given_back = BUF_INIT;
	struct lock_call call = { 0 };
	struct mlock_keys keys;
	struct slice *argv, token;

	verbs.reentrant = (enum reentrant_mode)INDEX(reentrants, word());
	verbs.lease_ms = atoll(word());
	verbs.max_lease_ms = atoll(word());
	struct rewrite_opts opts = read_opts();
	token = unhex(word());
	/* UNLOCK and MUNLOCK name the acquisition that they give back: its ticket, and perhaps
	 * a space and its fencing token. */
	for (size_t i = 0; i < MLOCK_KEYS_MAX; i++) {
		buf_append(&given_back, opts.ticket);
		buf_append(&given_back, SLICE_LIT(","));
	}
	opts.given_back = buf_slice(&given_back);
	struct resp_view req = read_args(&argv);
	if (verb == VERB_MLOCK || verb == VERB_MUNLOCK)
		rewrite_mlock(&out, verb, &req, &verbs, token, &opts, 0, &keys, &call);
	else
		rewrite_verb(&out, verb, &req, &verbs, token, &opts, &call);
	put_call(&call, &out);
	buf_release(&out);
	buf_release(&given_back);
	free(argv);
}

/* Of the kind whose first letter is at `kind`. */
static struct lock_ident read_ident(const char *kind)
{
	struct lock_ident id = { .kind = (enum lock_kind)kind[0] };

	id.key = unhex(word());
	id.token = unhex(word());
	return id;
}

static void put_own(struct buf *out)
{
	put_hex(buf_slice(out));
	putchar('\n');
	buf_release(out);
}

static void do_renew(void)
{
	struct lock_renewal locks[64];
	struct buf out = BUF_INIT;
	const char *kind;
	size_t n = 0;

	while (n < 64 && (kind = strtok(NULL, " \n"))) {
		locks[n].id = read_ident(kind);
		locks[n].lease_ms = atoll(word());
		locks[n++].fence = atoll(word());
	}
	rewrite_renew(&out, rewrite_renewal(locks[0].id.kind), locks, n, &own);
	put_own(&out);
}

static void do_release(void)
{
	struct buf out = BUF_INIT;
	struct lock_ident id = read_ident(word());

	struct slice ticket = unhex(word());

	(void)rewrite_release(&out, &id, ticket, atoll(word()), &own);
	put_own(&out);
}

static void do_unlock(void)
{
	struct buf out = BUF_INIT;
	struct lock_ident id = read_ident(word());

	(void)rewrite_unlock(&out, &id, unhex(word()), &own);
	put_own(&out);
}

static void do_try(bool poll)
{
	struct buf out = BUF_INIT;
	struct attempt t = { .id = read_ident(word()) };

	t.value = unhex(word());
	t.ticket = unhex(word());
	t.place = atoll(word());
	if (poll)
		(void)rewrite_poll(&out, &t, atoll(word()), &own);
	else
		(void)rewrite_dequeue(&out, &t, strcmp(word(), "undo") == 0, &own);
	/* How many ms ago it was sent. */
	if (!poll && t.place < 0)
		resp_write_bulk_str(&out, word());
	put_own(&out);
}

static void do_keys(const struct commands *t)
{
	struct slice *argv;
	struct resp_view req = read_args(&argv);
	const struct command *c = commands_get(t, argv[0]);
	size_t *args, n = find_keys(t, &req, &args);

	printf("%d %d", c != NULL, c && command_arity_ok(c, req.argc));
	for (size_t i = 0; i < n; i++)
		printf(" %zu", args[i]);
	putchar('\n');
	free(args);
	free(argv);
}

static void do_slots(void)
{
	struct slice *keys;
	struct resp_view list = read_args(&keys);

	for (size_t i = 0; i < list.argc; i++) {
		uint16_t slot = slot_of_key(keys[i]);
		printf(" %u", slot);
		put_hex(slot_tag(slot));
	}
	putchar('\n');
	free(keys);
}

static void do_scripts(void)
{
	for (int i = 0; i < SCRIPT_COUNT; i++) {
		const struct script *s = script_get((enum script_id)i);
		printf(" %s %.*s", s->name, (int)s->sha.n, s->sha.p);
		put_hex(s->text);
	}
	putchar('\n');
}

int main(void)
{
	struct commands *t = commands_new();
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, stdin) > 0) {
		const char *what = strtok(line, " \n");

		if (strcmp(what, "lock") == 0)
			do_lock(t);
		else if (strcmp(what, "verb") == 0)
			do_verb();
		else if (strcmp(what, "renew") == 0)
			do_renew();
		else if (strcmp(what, "release") == 0)
			do_release();
		else if (strcmp(what, "unlock") == 0)
			do_unlock();
		else if (strcmp(what, "poll") == 0 || strcmp(what, "dequeue") == 0)
			do_try(strcmp(what, "poll") == 0);
		else if (strcmp(what, "keys") == 0)
			do_keys(t);
		else if (strcmp(what, "slots") == 0)
			do_slots();
		else
			do_scripts();
		fflush(stdout);
	}
	free(line);
	commands_free(t);
	return 0;
}
