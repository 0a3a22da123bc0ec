/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of files without faults: the settings, the warnings, and the life of a configuration.
 */
#include <stdio.h>

#include "config/config.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"
#include "worker/encryption.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

TEST(no_file_means_defaults)
{
	struct config *c = config_load(NULL, NULL, NULL);

	assert_int_equal(c->sources.n, 0);
	assert_string_equal(config_name(c), "defaults");
	assert_int_equal(c->listen.n, 1);
	assert_string_equal(c->listen.v[0], "127.0.0.1:6380");
	assert_int_equal(c->unix_socket_mode, 0770);
	assert_int_equal(c->workers, 1);
	assert_int_equal(c->backlog, 511);
	assert_int_equal(c->max_clients, 10000);
	assert_int_equal(c->client_idle_timeout_ms, 0);
	assert_int_equal(c->client_login_timeout_ms, 60 * 1000);
	assert_int_equal(c->client_login_timeout_ms, 60 * 1000);
	assert_int_equal(c->tcp_keepalive_ms, 300 * 1000);
	assert_int_equal(c->max_request, 64 << 20);
	assert_int_equal(c->drain_timeout_ms, 30 * 1000);
	assert_string_equal(c->log, "stderr");
	assert_int_equal(c->log_level, LOG_LEVEL_INFO);
	assert_string_equal(c->address, "127.0.0.1:6379");
	assert_null(c->upstream_user);
	assert_null(c->upstream_password);
	assert_int_equal(c->connect_timeout_ms, 5000);
	assert_int_equal(c->links_max, 0);
	assert_int_equal(c->dns_max_ttl_ms, 15 * 1000);
	assert_int_equal(c->server_check_delay_ms, 1000);
	assert_int_equal(c->server_timeout_ms, 30 * 1000);
	assert_int_equal(c->tcp_user_timeout_ms, 20 * 1000);
	assert_int_equal(c->nrules, 0);
	assert_int_equal(c->nguards, 0);
	assert_false(c->verbs.enabled);
	config_unref(c);
}

TEST(hasp_and_upstream_are_set)
{
	struct config *c = load("[hasp]\n"
	                        "listen = *:0, [::1]:6380 unix:/run/hasp.sock\n"
	                        "unix_socket_mode = 0700\n"
	                        "workers = 64\n"
	                        "client_idle_timeout = 90\n"
	                        "max_request = 1gb\n"
	                        "drain_timeout = 500ms\n"
	                        "log = /var/log/hasp.log\n"
	                        "log_level = debug\n"
	                        "[upstream]\n"
	                        "address = redis-1.example:6379\n"
	                        "user = proxy\n"
	                        "password = a;b#c d = e ; a comment\n");

	assert_string_equal(config_name(c), ini_path);
	assert_int_equal(c->listen.n, 3);
	assert_string_equal(c->listen.v[0], "*:0");
	assert_string_equal(c->listen.v[1], "[::1]:6380");
	assert_string_equal(c->listen.v[2], "unix:/run/hasp.sock");
	assert_int_equal(c->unix_socket_mode, 0700);
	assert_int_equal(c->workers, 64);
	assert_int_equal(c->client_idle_timeout_ms, 90 * 1000);
	assert_int_equal(c->max_request, 1 << 30);
	assert_int_equal(c->drain_timeout_ms, 500);
	assert_string_equal(c->log, "/var/log/hasp.log");
	assert_int_equal(c->log_level, LOG_LEVEL_DEBUG);
	assert_string_equal(c->address, "redis-1.example:6379");
	assert_string_equal(c->upstream_user, "proxy");
	assert_string_equal(c->upstream_password, "a;b#c d = e");
	config_unref(c);
}

TEST(a_rule_has_defaults_but_for_its_pattern)
{
	struct config *c = load("\n[lock orders]\npattern = lock:order:*\n");
	const struct rule *r = c->rules[0];

	assert_int_equal(c->nrules, 1);
	assert_string_equal(r->section.name, "orders");
	assert_int_equal(r->section.line, 2);
	assert_int_equal(r->section.index, 0);
	assert_int_equal(r->section.patterns.n, 1);
	assert_string_equal(r->section.patterns.v[0], "lock:order:*");
	assert_int_equal(r->owner, OWNER_CONNECTION);
	assert_int_equal(r->lease_ms, 30 * 1000);
	assert_int_equal(r->max_lease_ms, 0);
	assert_int_equal(r->wait_ms, 0);
	assert_int_equal(r->max_hold_ms, 600 * 1000);
	assert_int_equal(r->renew, RENEW_UNLEASED);
	assert_int_equal(r->on_disconnect, DISCONNECT_EXPIRE);
	assert_int_equal(r->reentrant, REENTRANT_NO);
	assert_int_equal(r->mode, MODE_ENFORCE);
	config_unref(c);
}

TEST(a_rule_is_set)
{
	struct config *c = load("[lock a]\npattern = a\n"
	                        "[lock b]\npattern = b\nowner = value\nlease = 2m\n"
	                        "max_lease = 1h\nwait = 3s\nmax_hold = 0\nrenew = yes\n"
	                        "on_disconnect = release\nreentrant = refresh\n"
	                        "mode = observe\n");
	const struct rule *r = c->rules[1];

	assert_string_equal(r->section.name, "b");
	assert_int_equal(r->section.index, 1);
	assert_int_equal(r->owner, OWNER_VALUE);
	assert_int_equal(r->lease_ms, 120 * 1000);
	assert_int_equal(r->max_lease_ms, 3600 * 1000);
	assert_int_equal(r->wait_ms, 3 * 1000);
	assert_int_equal(r->max_hold_ms, 0);
	assert_int_equal(r->renew, RENEW_YES);
	assert_int_equal(r->on_disconnect, DISCONNECT_RELEASE);
	assert_int_equal(r->reentrant, REENTRANT_REFRESH);
	assert_int_equal(r->mode, MODE_OBSERVE);
	config_unref(c);
}

TEST(a_guard_has_defaults_but_for_its_pattern_and_reads)
{
	struct config *c = load("\n[guard stock]\npattern = stock:*\nacquire_on = GET\n");
	const struct guard *g = c->guards[0];

	assert_int_equal(c->nguards, 1);
	assert_int_equal(c->nrules, 0);
	assert_string_equal(g->section.name, "stock");
	assert_int_equal(g->section.line, 2);
	assert_int_equal(g->section.index, 0);
	assert_int_equal(g->section.patterns.n, 1);
	assert_string_equal(g->section.patterns.v[0], "stock:*");
	assert_int_equal(g->acquire_on.n, 1);
	assert_string_equal(g->acquire_on.v[0], "GET");
	assert_int_equal(g->release_on.n, 0);
	assert_int_equal(g->except.n, 0);
	assert_int_equal(g->lease_ms, 5 * 1000);
	assert_int_equal(g->wait_ms, 2 * 1000);
	assert_int_equal(g->on_disconnect, DISCONNECT_RELEASE);
	assert_int_equal(g->mode, MODE_ENFORCE);
	config_unref(c);
}

TEST(a_guard_is_set)
{
	struct config *c = load("[guard a]\npattern = a\nacquire_on = get\n"
	                        "[guard b]\npattern = b c\nacquire_on = HGET, json.get\n"
	                        "\tgetdel\nrelease_on = hset\nlease = 2m\nwait = 0\n"
	                        "on_disconnect = expire\nmode = observe\n"
	                        "except = name:r-* user:reports listener:127.0.0.1:6380\n");
	const struct guard *g = c->guards[1];

	assert_string_equal(g->section.name, "b");
	assert_int_equal(g->section.index, 1);
	assert_int_equal(g->section.patterns.n, 2);
	assert_int_equal(g->acquire_on.n, 3);
	assert_string_equal(g->acquire_on.v[1], "json.get");
	assert_int_equal(g->acquire_on.lines[1], 6);
	assert_string_equal(g->acquire_on.v[2], "getdel");
	assert_int_equal(g->acquire_on.lines[2], 7);
	assert_int_equal(g->release_on.n, 1);
	assert_int_equal(g->lease_ms, 120 * 1000);
	assert_int_equal(g->wait_ms, 0);
	assert_int_equal(g->on_disconnect, DISCONNECT_EXPIRE);
	assert_int_equal(g->mode, MODE_OBSERVE);
	assert_int_equal(g->except.n, 3);
	assert_string_equal(g->except.v[0], "name:r-*");
	config_unref(c);
}

TEST(an_empty_verbs_section_turns_them_on)
{
	struct config *c = load("[hasp]\n[verbs]\n");

	assert_true(c->verbs.enabled);
	assert_int_equal(c->verbs.line, 2);
	assert_string_equal(c->verbs.names[VERB_LOCK], "LOCK");
	assert_string_equal(c->verbs.names[VERB_UNLOCK], "UNLOCK");
	assert_string_equal(c->verbs.names[VERB_EXTEND], "LOCK.EXTEND");
	assert_string_equal(c->verbs.names[VERB_INFO], "LOCK.INFO");
	assert_string_equal(c->verbs.names[VERB_LIST], "LOCK.LIST");
	assert_int_equal(c->verbs.owner, OWNER_CONNECTION);
	assert_int_equal(c->verbs.reentrant, REENTRANT_COUNT);
	assert_int_equal(c->verbs.lease_ms, 30 * 1000);
	assert_int_equal(c->verbs.max_lease_ms, 0);
	assert_int_equal(c->verbs.max_hold_ms, 600 * 1000);
	assert_int_equal(c->verbs.on_disconnect, DISCONNECT_EXPIRE);
	config_unref(c);
}

TEST(verbs_are_set)
{
	struct config *c = load("[verbs]\nlock = ACQUIRE\nunlock = LOCK\nowner = user\n"
	                        "reentrant = no\nlease = 1\nmax_lease = 1s\n");

	assert_string_equal(c->verbs.names[VERB_LOCK], "ACQUIRE");
	assert_string_equal(c->verbs.names[VERB_UNLOCK], "LOCK");
	assert_int_equal(c->verbs.owner, OWNER_USER);
	assert_int_equal(c->verbs.reentrant, REENTRANT_NO);
	assert_int_equal(c->verbs.lease_ms, 1000);
	assert_int_equal(c->verbs.max_lease_ms, 1000);
	config_unref(c);
}

TEST(an_indented_line_goes_on_with_a_list)
{
	struct config *c = load("[hasp]\nlisten =\n\t127.0.0.1:1\n\n  ; two\n\t127.0.0.1:2\n"
	                        "[lock a]\npattern = a, b\n  [cd]* ; a comment\n\te=1\n");

	assert_int_equal(c->listen.n, 2);
	assert_string_equal(c->listen.v[1], "127.0.0.1:2");
	assert_int_equal(c->rules[0]->section.patterns.n, 4);
	assert_string_equal(c->rules[0]->section.patterns.v[2], "[cd]*");
	assert_string_equal(c->rules[0]->section.patterns.v[3], "e=1");
	config_unref(c);
}

TEST(windows_line_ends_and_a_byte_order_mark_are_fine)
{
	struct config *c = load("\xef\xbb\xbf[hasp]\r\nworkers = 2\r\n\r\nbacklog = 5\r\n");

	assert_int_equal(c->workers, 2);
	assert_int_equal(c->backlog, 5);
	config_unref(c);
	/* The file has no line but for the byte order mark. */
	config_unref(load("\xef\xbb\xbf\n"));
}

TEST(lines_may_be_as_long_as_inih_allows)
{
	char text[400], value[187];
	struct config *c;

	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	snprintf(text, sizeof(text), "[upstream]\npassword = %s\r\n", value);
	assert_int_equal(strlen("password = ") + strlen(value), 197);
	c = load(text);
	assert_string_equal(c->upstream_password, value);
	config_unref(c);
}

TEST(long_comments_are_no_fault)
{
	char text[1000];

	memset(text, '#', sizeof(text) - 1);
	text[sizeof(text) - 2] = '\n';
	text[sizeof(text) - 1] = '\0';
	config_unref(load(text));
}

/* ---- use ---- */

TEST(the_last_unref_frees)
{
	struct config *c = config_load(NULL, NULL, NULL);

	assert_ptr_equal(config_ref(c), c);
	config_unref(c);
	assert_int_equal(c->workers, 1);
	config_unref(c);
	config_unref(NULL);
}

TEST(a_restart_is_needed_for_what_cannot_change)
{
	struct config *a = load("[hasp]\nworkers = 1\nmax_clients = 5\nlisten = a:1\n");
	struct config *b = load("[hasp]\nworkers = 2\nmax_clients = 6\nlisten = a:1 b:2\n"
	                        "backlog = 7\n[lock a]\npattern = a\n[verbs]\nlock = L\n"
	                        "owner = user\n"
	                        "[guard g]\npattern = g\nacquire_on = GET\n");
	struct buf out = BUF_INIT;

	config_needs_restart(a, b, &out);
	buf_append(&out, SLICE_LIT("\0"));
	assert_string_equal(buf_head(&out), "'listen' in [hasp]: a:1 -> a:1 b:2\n"
	                                    "'workers' in [hasp]: 1 -> 2\n"
	                                    "'backlog' in [hasp]: 511 -> 7\n");
	buf_clear(&out);
	config_needs_restart(b, b, &out);
	assert_int_equal(buf_len(&out), 0);
	buf_release(&out);
	config_unref(a);
	config_unref(b);
}

TEST(a_restart_is_needed_for_what_was_not_set)
{
	struct config *a = load("[hasp]\nlisten = a:1\n");
	struct config *b = load("[hasp]\nlisten = a:1\n[http]\nlisten = a:2\n");
	struct buf out = BUF_INIT;

	config_needs_restart(a, b, &out);
	buf_append(&out, SLICE_LIT("\0"));
	assert_string_equal(buf_head(&out), "'listen' in [http]: none -> a:2\n");
	buf_release(&out);
	config_unref(a);
	config_unref(b);
}

static void add_section(void *arg, const char *section, const struct option *o,
                        const void *base)
{
	char(*last)[64] = arg;

	(void)o;
	(void)base;
	if (strlen(*last) < strlen(section) ||
	    strcmp(*last + strlen(*last) - strlen(section), section) != 0)
		strcat(strcat(*last, " "), section);
}

TEST(each_option_of_each_section_is_shown)
{
	char all[64] = "", few[64] = "";
	struct config *c = load("[hasp]\n[upstream]\n[lock a]\npattern = a:*\n"
	                        "[guard b]\npattern = b:*\nacquire_on = GET\n[verbs]\n"
	                        "[discover]\n[http]\nlisten = 127.0.0.1:0\n"
	                        "[admin]\nlisten = unix:/a\n"),
		      *none = config_load(NULL, NULL, NULL);

	config_each_option(c, add_section, &all);
	config_each_option(none, add_section, &few);
	assert_string_equal(all, " hasp upstream lock a guard b verbs discover http admin");
	assert_string_equal(few, " hasp upstream");
	config_unref(c);
	config_unref(none);
}

TEST(workers_share_links_max_and_each_has_at_least_one_link)
{
	static const struct {
		const char *text;
		int64_t each;
	} cases[] = {
		{ "[hasp]\nworkers = 3\n", 0 },
		{ "[hasp]\nworkers = 1\n[upstream]\nlinks_max = 7\n", 7 },
		{ "[hasp]\nworkers = 3\n[upstream]\nlinks_max = 6\n", 2 },
		{ "[hasp]\nworkers = 3\n[upstream]\nlinks_max = 8\n", 2 },
		{ "[hasp]\nworkers = 3\n[upstream]\nlinks_max = 2\n", 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct config *c = load(cases[i].text);
		assert_int_equal(config_links_of_worker(c), cases[i].each);
		config_unref(c);
	}
}

TEST(servers_are_encrypted_as_their_own_section_says)
{
	struct config *c = load_anyway("[quorum q]\nservers = a:1 b:1 c:1\n"
	                               "[quorum r]\nservers = d:1 e:1 f:1\ntls = yes\n");
	struct buf faults = BUF_INIT;

	assert_int_equal(encryption_load(c, &faults), 0);
	assert_null(encryption_of_clients(c));
	assert_null(encryption_of_servers(c).context);
	assert_int_equal(c->nquorums, 2);
	assert_null(encryption_of_quorum(c, c->quorums[0]).context);
	assert_non_null(encryption_of_quorum(c, c->quorums[1]).context);
	config_unref(c);
}
