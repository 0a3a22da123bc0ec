/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/fatal.h"
#include "config/config_internal.h"
#include "config/match.h"
#include "config/sections.h"
#include "config/value.h"

struct checks_place *checks_place(const struct checks_section *s, const char *name)
{
	const struct option *o = table_find(s->kind, name);

	HASP_ASSERT(o);
	return &s->places[o - table_options];
}

/* --- tls_* options, without reading the files that they name --- */

/* Checks that a certificate and its key are both set, or neither. */
static void checks_certificate(const struct checks_section *s, struct faults *f)
{
	int cert = checks_place(s, "tls_cert_file")->line;
	int key = checks_place(s, "tls_key_file")->line;

	if (!cert == !key)
		return;
	faults_add(f, cert ? cert : key, "[%s] has '%s' and no '%s'; expected both or neither",
	           s->title, cert ? "tls_cert_file" : "tls_key_file",
	           cert ? "tls_key_file" : "tls_cert_file");
}

/* Checks the tls_* options of [hasp], at the end of the section. */
static void checks_tls_of_clients(const struct checks_section *s, struct faults *f)
{
	const struct checks_place *listen = checks_place(s, "listen_tls");

	checks_certificate(s, f);
	if (listen->line && !listen->bad && checks_place(s, "tls_cert_file")->line == 0)
		faults_add(f, listen->line,
		           "'listen_tls' needs 'tls_cert_file' and 'tls_key_file'; add both");
}

/* Checks the tls_* options for connections to servers: a file for TLS, but no TLS, is a
 * mistake. */
static void checks_tls_of_servers(const struct checks_section *s, const struct server_tls *tls,
                                  struct faults *f)
{
	static const char *const with_tls[] = { "tls_ca_cert_file", "tls_cert_file",
		                                "tls_key_file", "tls_server_name" };

	checks_certificate(s, f);
	for (size_t i = 0; i < sizeof(with_tls) / sizeof(with_tls[0]); i++) {
		int line = checks_place(s, with_tls[i])->line;

		if (!line || tls->tls == SWITCH_YES || checks_place(s, "tls")->bad)
			continue;
		faults_add(f, line,
		           "'%s' of [%s] has no effect without 'tls = yes'; add it, or nothing "
		           "is encrypted",
		           with_tls[i], s->title);
		return;
	}
}

/* ---- a section ---- */

/* Checks that the options of a section have values. Call it at the section's end, because a
 * list may begin in the line below its name. */
static void checks_presence(const struct checks_section *s, struct faults *f)
{
	struct buf expected = BUF_INIT;

	for (const struct option *o = NULL; (o = table_next(s->kind, o));) {
		const struct checks_place *at = &s->places[o - table_options];
		bool is_string = o->type == OPTION_STRING && o->required;

		if ((o->type != OPTION_LIST && !is_string) || at->bad)
			continue;
		if (is_string ? at->line > 0 : option_list(o, s->base)->n > 0)
			continue;
		if (at->line == 0 && !o->required)
			continue;
		buf_clear(&expected);
		option_print_expected(o, &expected);
		if (at->line)
			faults_add(f, at->line, "'%s' has no value; expected %.*s", o->name,
			           FAULTS_BUF(&expected));
		else
			faults_add(f, s->line, "[%s] has no '%s'; expected %.*s", s->title,
			           o->name, FAULTS_BUF(&expected));
	}
	buf_release(&expected);
}

static void checks_leases(const struct checks_section *s, int64_t lease_ms,
                          int64_t max_lease_ms, struct faults *f)
{
	const struct checks_place *lease = checks_place(s, "lease");
	const struct checks_place *max_lease = checks_place(s, "max_lease");
	struct buf b = BUF_INIT;

	if (max_lease_ms == 0 || max_lease_ms >= lease_ms || lease->bad || max_lease->bad)
		return;
	value_print_duration(&b, lease_ms);
	faults_add(f, max_lease->line,
	           "'max_lease' of [%s] is less than its 'lease'; expected %.*s or more, or 0 "
	           "for no limit",
	           s->title, FAULTS_BUF(&b));
	buf_release(&b);
}

/* Warns of a 'max_hold' that ends renewal before the first lease is over. */
static void checks_max_hold(const struct checks_section *s, int64_t lease_ms,
                            int64_t max_hold_ms, bool renewed, struct faults *f)
{
	const struct checks_place *lease = checks_place(s, "lease");
	const struct checks_place *max_hold = checks_place(s, "max_hold");
	struct buf b = BUF_INIT;

	if (!renewed || max_hold_ms == 0 || max_hold_ms >= lease_ms || lease->bad ||
	    max_hold->bad)
		return;
	value_print_duration(&b, lease_ms);
	faults_warn(f, max_hold->line ? max_hold->line : lease->line,
	            "'max_hold' of [%s] is less than its 'lease', so renewal ends within "
	            "the first lease; expected %.*s or more, or 0 for no limit",
	            s->title, FAULTS_BUF(&b));
	buf_release(&b);
}

const char *const verb_options[VERB_COUNT] = {
	[VERB_LOCK] = "lock",       [VERB_UNLOCK] = "unlock", [VERB_EXTEND] = "extend",
	[VERB_INFO] = "info",       [VERB_LIST] = "list",     [VERB_MLOCK] = "mlock",
	[VERB_MUNLOCK] = "munlock",
};

/* Notes the lines of the verbs' names, and reports verbs with the same name; Redis ignores the
 * case of command names. */
static void checks_verb_names(const struct checks_section *s, struct verbs *verbs,
                              struct faults *f)
{
	char *const *names = verbs->names;

	for (size_t i = 0; i < VERB_COUNT; i++) {
		verbs->name_lines[i] = checks_place(s, verb_options[i])->line;
		for (size_t j = 0; j < i; j++) {
			if (strcasecmp(names[i], names[j]) != 0)
				continue;
			faults_add(f,
			           verbs->name_lines[i] ? verbs->name_lines[i]
			                                : verbs->name_lines[j],
			           "'%s' and '%s' are both '%s'; expected different names",
			           verb_options[j], verb_options[i], names[i]);
		}
	}
}

/* Checks a user and its password. `command_option` NULL: the section has no such option. */
static void checks_user(const struct checks_section *s, const char *user_option,
                        const char *password_option, const char *file_option,
                        const char *command_option, struct faults *f)
{
	const struct checks_place *user = checks_place(s, user_option);

	if (user->line && !user->bad && checks_place(s, password_option)->line == 0 &&
	    checks_place(s, file_option)->line == 0 &&
	    (!command_option || checks_place(s, command_option)->line == 0))
		faults_add(f, user->line,
		           "'%s' of [%s] needs '%s'; expected both, neither, or a password "
		           "without a user",
		           user_option, s->title, password_option);
}

static bool checks_others_read(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && (st.st_mode & S_IROTH);
}

/* Reports two options that exclude each other, at the line of `other`. */
static void checks_not_both(const struct checks_section *s, const char *option,
                            const char *other, struct faults *f)
{
	int line = checks_place(s, other)->line;

	if (line && checks_place(s, option)->line)
		faults_add(f, line, "[%s] has both '%s' and '%s'; expected one of the two",
		           s->title, option, other);
}

/* Checks a password. `path`: value of `file_option`; NULL: none. */
static void checks_password(const struct checks_section *s, const char *option,
                            const char *file_option, const char *path, struct faults *f)
{
	int password = checks_place(s, option)->line;
	int file = checks_place(s, file_option)->line;

	checks_not_both(s, option, file_option, f);
	if (password && checks_others_read(sources_path(f->sources, password)))
		faults_warn(f, password,
		            "every user of this machine can read this file, and '%s' in it; "
		            "make it readable for hasp's user or group only (chmod o-r)",
		            option);
	if (file && path && checks_others_read(path))
		faults_warn(f, file,
		            "every user of this machine can read %s of '%s'; make it readable "
		            "for hasp's user or group only (chmod o-r)",
		            path, file_option);
}

/* Checks that the password has only one source, and an interval comes with a command. */
static void checks_password_command(const struct checks_section *s, struct faults *f)
{
	int interval = checks_place(s, "password_command_interval")->line;

	checks_not_both(s, "password", "password_command", f);
	checks_not_both(s, "password_file", "password_command", f);
	if (interval && checks_place(s, "password_command")->line == 0)
		faults_add(f, interval,
		           "'password_command_interval' of [upstream] needs "
		           "'password_command'; add it");
}

/* Checks that [upstream] names Redis in only one way: an address, sentinels or a cluster. */
static void checks_whereabouts(const struct checks_section *s, struct faults *f)
{
	static const char *const ways[] = { "address", "sentinels", "cluster" };
	static const char *const with_sentinels[] = { "master", "sentinel_user",
		                                      "sentinel_password",
		                                      "sentinel_password_file" };
	int sentinels = checks_place(s, "sentinels")->line;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		for (size_t k = i + 1; k < sizeof(ways) / sizeof(ways[0]); k++) {
			int one = checks_place(s, ways[i])->line;
			int other = checks_place(s, ways[k])->line;
			if (one && other)
				faults_add(
					f, one > other ? one : other,
					"[upstream] has both '%s' and '%s'; expected only one "
					"of 'address' (one server), 'sentinels' (they report "
					"the primary) and 'cluster' (some of its nodes)",
					ways[i], ways[k]);
		}
	if (sentinels && checks_place(s, "master")->line == 0)
		faults_add(f, sentinels,
		           "'sentinels' of [upstream] needs 'master'; add the name under which "
		           "they know the primary, such as mymaster");
	for (size_t i = 0; i < sizeof(with_sentinels) / sizeof(with_sentinels[0]); i++) {
		int line = checks_place(s, with_sentinels[i])->line;

		if (line && !sentinels)
			faults_add(f, line,
			           "'%s' of [upstream] needs 'sentinels'; add some, such as "
			           "s1:26379 s2:26379 s3:26379",
			           with_sentinels[i]);
	}
}

/* Checks that `server_timeout` leaves time for the answer to a server check. */
static void checks_server_timeout(const struct checks_section *s, const struct config *c,
                                  struct faults *f)
{
	const struct checks_place *delay = checks_place(s, "server_check_delay");
	const struct checks_place *timeout = checks_place(s, "server_timeout");
	struct buf b = BUF_INIT;

	if (delay->bad || timeout->bad || c->server_timeout_ms == 0 ||
	    c->server_check_delay_ms <= c->server_timeout_ms / 2)
		return;
	value_print_duration(&b, c->server_timeout_ms / 2);
	faults_add(f, delay->line ? delay->line : timeout->line,
	           "'server_check_delay' is more than half of 'server_timeout'; expected %.*s "
	           "or less, or a longer 'server_timeout'",
	           FAULTS_BUF(&b));
	buf_release(&b);
}

/* Checks that a console has protection: each of its clients can stop hasp. */
static void checks_admin(const struct checks_section *s, const struct config *c,
                         struct faults *f)
{
	const struct strings *l = &c->admin_listen;

	if (checks_place(s, "password")->line || checks_place(s, "password_file")->line)
		return;
	for (size_t i = 0; i < l->n; i++) {
		if (strncmp(l->v[i], "unix:", 5) == 0)
			continue;
		faults_add(f, l->lines[i],
		           "[admin] listens at '%s' without a 'password'; add one, or use a "
		           "unix socket, such as unix:/run/hasp/admin.sock",
		           l->v[i]);
		return;
	}
}

/* True for commands that return a whole string value, of which hasp can keep a digest. */
static bool checks_is_digested(const char *command)
{
	return strcasecmp(command, "GET") == 0 || strcasecmp(command, "GETEX") == 0 ||
	       strcasecmp(command, "MGET") == 0;
}

static void checks_strategy(const struct checks_section *s, const struct guard *g,
                            struct faults *f)
{
	/* strategy = check takes no guard, so these options mean nothing. */
	static const char *const of_locks[] = { "release_on",   "lease",
		                                "wait",         "on_disconnect",
		                                "replicas_ack", "replicas_ack_timeout",
		                                "log_waited" };

	if (g->strategy != STRATEGY_CHECK)
		return;
	for (size_t i = 0; i < sizeof(of_locks) / sizeof(*of_locks); i++) {
		int line = checks_place(s, of_locks[i])->line;

		if (line)
			faults_add(f, line,
			           "'%s' of [%s] needs strategy = lock, because with strategy "
			           "= check reads take no guard; remove one of the two",
			           of_locks[i], s->title);
	}
	for (size_t i = 0; i < g->acquire_on.n; i++)
		if (!checks_is_digested(g->acquire_on.v[i]))
			faults_add(f, g->acquire_on.lines[i],
			           "'%s' in 'acquire_on' of [%s] does not return a whole "
			           "string; with strategy = check expected GET, GETEX or MGET",
			           g->acquire_on.v[i], s->title);
}

void checks_on_section(const struct checks_section *s, const struct config *c, struct faults *f)
{
	const struct rule *rule = s->base;
	const struct guard *guard = s->base;
	const struct verbs *verbs = s->base;
	const struct quorum_settings *quorum = s->base;

	checks_presence(s, f);
	switch (s->kind) {
	case SECTION_HASP:
		checks_tls_of_clients(s, f);
		break;
	case SECTION_UPSTREAM:
		checks_whereabouts(s, f);
		checks_user(s, "user", "password", "password_file", "password_command", f);
		checks_user(s, "sentinel_user", "sentinel_password", "sentinel_password_file",
		            NULL, f);
		checks_password(s, "password", "password_file", c->upstream_password_file, f);
		checks_password(s, "sentinel_password", "sentinel_password_file",
		                c->sentinel_password_file, f);
		checks_password_command(s, f);
		checks_server_timeout(s, c, f);
		checks_tls_of_servers(s, &c->upstream_tls, f);
		break;
	case SECTION_ADMIN:
		checks_password(s, "password", "password_file", c->admin_password_file, f);
		checks_admin(s, c, f);
		break;
	case SECTION_LOCK:
		checks_leases(s, rule->lease_ms, rule->max_lease_ms, f);
		checks_max_hold(s, rule->lease_ms, rule->max_hold_ms, rule->renew != RENEW_NO,
		                f);
		break;
	case SECTION_GUARD:
		checks_strategy(s, guard, f);
		break;
	case SECTION_QUORUM:
		checks_quorum_servers(quorum, f);
		checks_user(s, "user", "password", "password_file", NULL, f);
		checks_password(s, "password", "password_file", quorum->password_file, f);
		checks_tls_of_servers(s, &quorum->tls, f);
		break;
	case SECTION_VERBS:
		checks_leases(s, verbs->lease_ms, verbs->max_lease_ms, f);
		checks_max_hold(s, verbs->lease_ms, verbs->max_hold_ms, true, f);
		checks_verb_names(s, s->base, f);
		break;
	default:
		break;
	}
}

/* ---- the file ---- */

/* Returns the first section of this kind that matches all keys of `pattern`, among the first
 * `end` sections; NULL: none of them does. */
static const struct named_section *checks_covering(const struct config *c, enum section kind,
                                                   size_t end, const char *pattern)
{
	const struct named_section *s;

	for (size_t i = 0; i < end && (s = sections_at(c, kind, i)); i++) {
		if (pattern_set_covers(&s->patterns, pattern))
			return s;
	}
	return NULL;
}

/* Warns if the user probably meant another pattern. Returns true if so. */
static bool checks_spelling(const char *pattern, const char *word, const char *name, int line,
                            struct faults *f)
{
	if (pattern_is_quoted(pattern))
		faults_warn(f, line,
		            "pattern '%s' of [%s %s] has quotes, which hasp takes literally; "
		            "remove them, or write \\%c if the keys have them",
		            pattern, word, name,
		            strchr("\"'`", *pattern) ? *pattern : pattern[strlen(pattern) - 1]);
	else if (pattern_is_anchored(pattern))
		faults_warn(f, line,
		            "pattern '%s' of [%s %s] looks like a regular expression; expected "
		            "a glob pattern for the whole key, such as lock:*, or \\^ and \\$ "
		            "if the keys have them",
		            pattern, word, name);
	else if (pattern_looks_like_prefix(pattern))
		faults_warn(f, line,
		            "pattern '%s' of [%s %s] has no wildcard and matches only the key "
		            "of that name; expected '%s*', or a whole key",
		            pattern, word, name, pattern);
	else
		return false;
	return true;
}

static void checks_pattern(const struct config *c, enum section kind,
                           const struct named_section *s, size_t i, struct faults *f)
{
	const char *pattern = s->patterns.v[i], *word = table_section_word(kind);
	int line = s->patterns.lines[i];
	const struct named_section *other;

	if (checks_spelling(pattern, word, s->name, line, f))
		return;
	/* A [lock] section wins over all guards, wherever it is in the file. */
	other = kind == SECTION_GUARD ? checks_covering(c, SECTION_LOCK, c->nrules, pattern)
	                              : NULL;
	if (other) {
		faults_warn(f, line,
		            "pattern '%s' of [guard %s] never applies, since [lock %s] matches "
		            "the same keys and locks are not guarded; remove one of the two",
		            pattern, s->name, other->name);
		return;
	}
	other = checks_covering(c, kind, s->index, pattern);
	if (other)
		faults_warn(f, line,
		            "pattern '%s' of [%s %s] never applies, since the earlier [%s %s] "
		            "matches the same keys; remove it or move it up",
		            pattern, word, s->name, word, other->name);
	else if (pattern_is_any(pattern))
		faults_warn(f, line, "pattern '%s' of [%s %s] %s", pattern, word, s->name,
		            kind == SECTION_GUARD
		                    ? "guards every key; name only keys that clients read, "
		                      "change and write back, such as stock:*"
		                    : "makes every key a lock; name only the keys that are "
		                      "locks, such as lock:*");
	else if (match_is_own(slice_str(pattern)))
		faults_warn(f, line,
		            "pattern '%s' of [%s %s] never applies, since keys that begin with "
		            "'hasp:' are reserved for hasp",
		            pattern, word, s->name);
}

static void checks_patterns(const struct config *c, enum section kind,
                            const struct named_section *s, struct faults *f)
{
	for (size_t i = 0; i < s->patterns.n; i++)
		checks_pattern(c, kind, s, i, f);
}

static void checks_commands(const struct guard *g, const char *option,
                            const struct strings *list, struct faults *f)
{
	for (size_t i = 1; i < list->n; i++) {
		for (size_t j = 0; j < i; j++) {
			if (strcasecmp(list->v[i], list->v[j]) != 0)
				continue;
			faults_warn(f, list->lines[i],
			            "'%s' stands twice in '%s' of [guard %s]; remove one",
			            list->v[i], option, g->section.name);
			break;
		}
	}
}

/* True if one of the first `n` strings is `address`. */
static bool checks_has(const struct strings *list, size_t n, const char *address)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list->v[i], address) == 0)
			return true;
	return false;
}

static bool checks_listens_at(const struct config *c, const char *address)
{
	return checks_has(&c->listen, c->listen.n, address) ||
	       checks_has(&c->listen_tls, c->listen_tls.n, address);
}

static void checks_except(const struct config *c, const struct guard *g, struct faults *f)
{
	static const char prefix[] = "listener:";
	const char *example = c->listen.n ? c->listen.v[0] : NULL;

	for (size_t i = 0; i < g->except.n; i++) {
		const char *word = g->except.v[i];

		if (strncmp(word, prefix, strlen(prefix)) != 0 ||
		    checks_listens_at(c, word + strlen(prefix)))
			continue;
		faults_add(f, g->except.lines[i],
		           "'except' of [guard %s] has '%s', but hasp does not listen there; "
		           "expected an address as in 'listen' of [hasp]%s%s%s",
		           g->section.name, word, example ? ", such as " : "",
		           example ? prefix : "", example ? example : "");
	}
}

/* Reports equal addresses to listen at. Port 0 may appear several times. */
static void checks_listen(const struct config *c, struct faults *f)
{
	char *v[] = { c->http_listen };
	int lines[] = { c->http_line };
	const struct strings http = { .v = v, .lines = lines, .n = c->http_listen != NULL };
	const struct {
		const char *option;
		const struct strings *list;
	} all[] = {
		{ "'listen' of [hasp]", &c->listen },
		{ "'listen_tls' of [hasp]", &c->listen_tls },
		{ "'listen' of [admin]", &c->admin_listen },
		{ "'listen' of [http]", &http },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (size_t k = 0; k < all[i].list->n; k++) {
			const char *address = all[i].list->v[k], *port = strrchr(address, ':');
			size_t j = 0;

			if (strcmp(port, ":0") == 0)
				continue;
			while (j < i && !checks_has(all[j].list, all[j].list->n, address))
				j++;
			if (j < i)
				faults_add(f, all[i].list->lines[k],
				           "%s has '%s', which is also in %s; expected "
				           "each address once",
				           all[i].option, address, all[j].option);
			else if (checks_has(all[i].list, k, address))
				faults_add(f, all[i].list->lines[k],
				           "%s has '%s' twice; expected each address once",
				           all[i].option, address);
		}
}

/* Warns if 'address' leads to hasp itself. `address_line`: its line; 0: it is the default. */
static void checks_upstream(const struct config *c, int address_line, struct faults *f)
{
	for (size_t i = 0; i < c->listen.n && !c->master; i++) {
		if (!value_address_reaches(c->address, c->listen.v[i]))
			continue;
		faults_warn(f, address_line ? address_line : c->listen.lines[i],
		            "'address' of [upstream] is '%s', but hasp itself listens at '%s'; "
		            "expected the address of Redis",
		            c->address, c->listen.v[i]);
		return;
	}
}

/* Reports settings with which discovery would not see all commands in their order. */
static void checks_discover(const struct config *c, struct faults *f)
{
	if (c->discover && c->workers > 1)
		faults_add(f, c->discover_line,
		           "[discover] needs 'workers = 1', to see the order of all commands, "
		           "but 'workers' is %lld",
		           (long long)c->workers);
	if (c->discover && c->cluster.n)
		faults_add(f, c->discover_line,
		           "[discover] watches one server, but [upstream] has 'cluster'; "
		           "expected 'address' or 'sentinels'");
}

void checks_on_file(const struct config *c, bool listen_known, int address_line,
                    struct faults *f)
{
	if (listen_known) {
		checks_listen(c, f);
		checks_upstream(c, address_line, f);
	}
	checks_quorum_users(c, f);
	checks_discover(c, f);
	for (size_t i = 0; i < c->nrules; i++)
		checks_patterns(c, SECTION_LOCK, &c->rules[i]->section, f);
	for (size_t i = 0; i < c->nguards; i++) {
		const struct guard *g = c->guards[i];

		checks_patterns(c, SECTION_GUARD, &g->section, f);
		checks_commands(g, "acquire_on", &g->acquire_on, f);
		checks_commands(g, "release_on", &g->release_on, f);
		if (listen_known)
			checks_except(c, g, f);
	}
}
