/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of files with faults: hasp reports each fault with its line and a right value.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

TEST(unknown_options_are_faults_with_a_guess)
{
	assert_faults("[hasp]\n\n[lock orders]\npattern = a\nleese = 30s\n",
	              "5: unknown option 'leese' in [lock orders]; did you mean 'lease'?\n");
	assert_faults("[upstream]\nadress = a:1\n",
	              "2: unknown option 'adress' in [upstream]; did you mean 'address'?\n");
	assert_faults("[hasp]\nworkesr = 1\n",
	              "2: unknown option 'workesr' in [hasp]; did you mean 'workers'?\n");
	assert_faults("[verbs]\nlcok = L\n",
	              "2: unknown option 'lcok' in [verbs]; did you mean 'lock'?\n");
	assert_faults("[hasp]\ncolour = red\n", "2: unknown option 'colour' in [hasp]\n");
	assert_faults("[hasp]\nconnect_timeout = 5s\n",
	              "2: unknown option 'connect_timeout' in [hasp]; it belongs in "
	              "[upstream]\n");
	assert_faults("[hasp]\nlease = 5s\n",
	              "2: unknown option 'lease' in [hasp]; it belongs in [lock NAME] or "
	              "[guard NAME] or [verbs]\n");
}

#define HALF                                                                                   \
	"the file ends within a line, and may be half written; end the last line with a "      \
	"newline\n"

TEST(a_file_that_may_be_half_written_is_a_fault)
{
	assert_faults("", "0: is empty, and may be half written; write at least a comment "
	                  "into it\n");
	assert_faults("[upstream]\naddress = 127.0.0.1:63", "2: " HALF);
	assert_faults("[verbs]", "1: " HALF);
	assert_faults("[hasp]\n# The locks of th", "2: " HALF);
	assert_faults("[hasp]\n[lock a]\npattern = a:*\n\tb:", "4: " HALF);
	assert_faults("[hasp]\n  ", "2: " HALF);
}

TEST(a_line_without_an_equals_sign_is_named_without_its_value)
{
	assert_faults("[upstream]\naddress 127.0.0.1:6379\n",
	              "2: there is no '=' between 'address' and its value; expected 'address = "
	              "...'\n");
	assert_faults(
		"[upstream]\npassword sec:ret\n",
		"2: there is no '=' between 'password' and its value; expected 'password = "
		"...'\n");
}

TEST(an_address_is_no_url_and_no_list)
{
#define EXPECTED "; expected HOST:PORT, [V6]:PORT or unix:/PATH\n"
	assert_faults("[upstream]\naddress = redis://user:pw@h:6379/0\n",
	              "2: 'address' is 'redis://...': hasp takes no URL: user, password and "
	              "TLS have their own options, and clients choose the database" EXPECTED);
	assert_faults("[upstream]\naddress = a:1 b:1\n",
	              "2: 'address' is 'a:1 b:1': it is more than one address; only 'cluster' "
	              "and 'sentinels' name several servers" EXPECTED);
	assert_faults("[upstream]\naddress = a:1,b:1\n",
	              "2: 'address' is 'a:1,b:1': it is more than one address; only 'cluster' "
	              "and 'sentinels' name several servers" EXPECTED);
}

TEST(a_pattern_that_cannot_be_meant_is_a_fault)
{
#define PATTERNS "; expected patterns of keys, such as lock:* or orders:?\n"
	assert_faults("[lock a]\npattern = lock:*; mine\n",
	              "2: 'pattern' is 'lock:*;': a comment after a value begins with ' ;'; "
	              "for a ';' at the end of a pattern write '\\;'" PATTERNS);
	assert_faults("[lock a]\npattern = lock:[ab\n",
	              "2: 'pattern' is 'lock:[ab': a '[' has no ']'; for a '[' in the keys "
	              "write '\\['" PATTERNS);
	config_unref(load("[lock a]\npattern = lock:[a-c]:* x\\[ y\\; [\\]]\n"));
}

TEST(http_has_to_listen_somewhere)
{
	assert_faults("[http]\nallowed_hosts = x\n",
	              "1: [http] has no 'listen'; expected HOST:PORT such as 127.0.0.1:9380\n");
}

TEST(unknown_sections_are_one_fault_each)
{
	assert_faults("[upsteam]\naddress = a:1\nwhatever = 1\n",
	              "1: unknown section [upsteam]; did you mean [upstream]?\n");
	assert_faults("[lok a]\npattern = 1\n",
	              "1: unknown section [lok a]; did you mean [lock NAME]?\n");
	assert_faults("[hasp too]\n", "1: unknown section [hasp too]; did you mean [hasp]?\n");
	assert_faults("[gard a]\npattern = 1\n",
	              "1: unknown section [gard a]; did you mean [guard NAME]?\n");
	assert_faults("[]\n", "1: unknown section []; expected [hasp], [upstream], [lock "
	                      "NAME], [guard NAME], [quorum NAME], "
	                      "[verbs], [discover], [http] or [admin]\n");
}

TEST(a_guard_that_checks_has_no_options_of_one_that_locks)
{
#define CHECKS "[guard g]\npattern = g\nstrategy = check\n"
#define NEEDS_LOCK                                                                             \
	" of [guard g] needs strategy = lock, because with strategy = check reads take no "    \
	"guard; remove one of the two\n"
	config_unref(load(CHECKS "acquire_on = GET, getex MGET\nmode = observe\n"
	                         "except = name:x\nlog_events = no\n"));
	assert_faults(CHECKS "acquire_on = GET\nlease = 5s\nwait = 0\n",
	              "5: 'lease'" NEEDS_LOCK "6: 'wait'" NEEDS_LOCK);
	assert_faults(CHECKS "acquire_on = GET\nrelease_on = SET\non_disconnect = expire\n",
	              "5: 'release_on'" NEEDS_LOCK "6: 'on_disconnect'" NEEDS_LOCK);
	assert_faults(CHECKS "acquire_on = GET\nreplicas_ack = 1\n"
	                     "replicas_ack_timeout = 1s\nlog_waited = 1s\n",
	              "5: 'replicas_ack'" NEEDS_LOCK "6: 'replicas_ack_timeout'" NEEDS_LOCK
	              "7: 'log_waited'" NEEDS_LOCK);
	assert_faults(
		CHECKS "acquire_on = GET\n  HGETALL GETRANGE\n",
		"5: 'HGETALL' in 'acquire_on' of [guard g] does not return a whole string; "
		"with strategy = check expected GET, GETEX or MGET\n"
		"5: 'GETRANGE' in 'acquire_on' of [guard g] does not return a whole string; "
		"with strategy = check expected GET, GETEX or MGET\n");
	assert_faults("[guard g]\npattern = g\nacquire_on = GET\nstrategy = optimistic\n",
	              "4: 'strategy' is 'optimistic'; expected lock or check\n");
}

TEST(what_other_versions_may_have_is_unknown_to_this)
{
	assert_faults("[lock a]\npattern = a\ntomorrow = 5\n",
	              "3: unknown option 'tomorrow' in [lock a]\n");
	assert_faults("[hasp]\ntls_port = 1\n", "2: unknown option 'tls_port' in [hasp]\n");
	assert_faults(
		"[tomorrow]\n",
		"1: unknown section [tomorrow]; expected [hasp], [upstream], [lock NAME], "
		"[guard NAME], [quorum NAME], [verbs], [discover], [http] or [admin]\n");
}

#define QUORUM "[quorum q]\nservers = a:1 b:1 c:1\n"
#define OF_QUORUM "[verbs]\nquorum = q\nreentrant = no\n"

TEST(quorum_is_an_odd_number_of_servers)
{
	assert_faults("[quorum q]\n",
	              "1: [quorum q] has no 'servers'; expected an odd number of "
	              "addresses, such as a:6379 b:6379 c:6379\n");
	assert_faults("[quorum q]\nservers = a:1\n",
	              "2: 'servers' of [quorum q] names 1; expected an odd number from 3 to "
	              "15, so that a majority remains when some fail\n");
	assert_faults("[quorum q]\nservers = a:1 b:1 c:1 d:1\n",
	              "2: 'servers' of [quorum q] names 4; expected an odd number from 3 to "
	              "15, so that a majority remains when some fail\n");
	assert_faults("[quorum q]\nservers = a:1 b:1\n a:1\n",
	              "3: 'servers' of [quorum q] has 'a:1' twice; expected each server once, "
	              "since it has one vote\n");
	assert_faults(QUORUM "[quorum q]\nservers = a:1 b:1 c:1\n",
	              "3: duplicate section [quorum q], which is also in line 1; expected "
	              "another name\n");
}

TEST(quorum_must_outlast_what_its_servers_forget)
{
	assert_faults("[verbs]\nquorum = q\n", "1: 'quorum' of [verbs] is 'q', but there is no "
	                                       "[quorum q]; expected the NAME of a section\n");
	assert_faults(QUORUM OF_QUORUM,
	              "3: [verbs] has 'quorum' and needs 'max_lease'; add one, such as 30s: "
	              "for this long a restarted server must not vote\n");
	assert_faults(QUORUM "restart_delay = 29s\n" OF_QUORUM "max_lease = 30s\n",
	              "1: 'restart_delay' of [quorum q] is less than 'max_lease' of [verbs]; "
	              "expected 30s or more, or 0 if every server has 'appendfsync always'\n");
	assert_faults(QUORUM "[verbs]\nquorum = q\nmax_lease = 30s\n",
	              "3: [verbs] has 'quorum', so its locks cannot be reentrant; expected "
	              "'reentrant = no'\n");
	assert_faults(QUORUM OF_QUORUM "max_lease = 30s\nreplicas_ack = 1\n",
	              "3: [verbs] has both 'quorum' and 'replicas_ack'; expected one of the "
	              "two, since the servers of a quorum are not replicas of each other\n");
	assert_faults(
		QUORUM "timeout = 11s\n" OF_QUORUM "max_lease = 30s\n",
		"4: 'lease' of [verbs] is less than three times the 'timeout' of [quorum q]; "
		"expected 33s or more, or a shorter 'timeout'\n");
}

#define RULE_OF_QUORUM "[lock a]\npattern = a\nquorum = "

TEST(rules_ask_the_quorum_that_others_ask)
{
	assert_faults(RULE_OF_QUORUM "q\n", "1: 'quorum' of [lock a] is 'q', but there is no "
	                                    "[quorum q]; expected the NAME of a section\n");
	assert_faults(QUORUM RULE_OF_QUORUM "q\n",
	              "3: [lock a] has 'quorum' and needs 'max_lease'; add one, such as 30s: "
	              "for this long a restarted server must not vote\n");
	assert_faults(QUORUM RULE_OF_QUORUM "q\nmax_lease = 30s\nreentrant = refresh\n",
	              "3: [lock a] has 'quorum', so its locks cannot be reentrant; expected "
	              "'reentrant = no'\n");
	assert_faults(QUORUM "[quorum r]\nservers = a:1 b:1 c:1\n" OF_QUORUM
	                     "max_lease = 30s\n" RULE_OF_QUORUM "r\nmax_lease = 30s\n",
	              "9: 'quorum' of [lock a] is 'r', but another section's is 'q'; expected "
	              "the same one, since hasp uses only one quorum\n");
}

TEST(encryption_is_asked_for_whole)
{
	assert_faults("[hasp]\nlisten_tls = *:0\n",
	              "2: 'listen_tls' needs 'tls_cert_file' and 'tls_key_file'; add both\n");
	assert_faults(
		"[hasp]\nlisten_tls = *:0\ntls_cert_file = /c\n[upstream]\n"
		"tls = yes\ntls_key_file = /k\n",
		"3: [hasp] has 'tls_cert_file' and no 'tls_key_file'; expected both or "
		"neither\n"
		"6: [upstream] has 'tls_key_file' and no 'tls_cert_file'; expected both or "
		"neither\n");
	assert_faults(
		"[hasp]\nlisten_tls = unix:/x\ntls_cert_file = c\n",
		"2: 'listen_tls' is 'unix:/x': a unix socket needs no TLS: its traffic does "
		"not leave the machine; expected HOST:PORT, [V6]:PORT or *:PORT\n"
		"3: 'tls_cert_file' is 'c': the path must begin with '/'; expected a path "
		"such as /etc/hasp/hasp.crt\n"
		"3: [hasp] has 'tls_cert_file' and no 'tls_key_file'; expected both or "
		"neither\n");
	assert_faults("[upstream]\ntls_ca_cert_file = /ca\ntls_server_name = n\n",
	              "2: 'tls_ca_cert_file' of [upstream] has no effect without 'tls = yes'; "
	              "add it, or nothing is encrypted\n");
	config_unref(load("[hasp]\nlisten_tls = *:0\ntls_cert_file = /c\ntls_key_file = /k\n"
	                  "[upstream]\ntls = yes\n"));
}

TEST(console_is_for_those_who_have_its_file_or_its_password)
{
	assert_faults("[admin]\nlisten = unix:/x 127.0.0.1:6381\n",
	              "2: [admin] listens at '127.0.0.1:6381' without a 'password'; add one, "
	              "or use a unix socket, such as unix:/run/hasp/admin.sock\n");
	assert_faults("[admin]\npassword = p\n",
	              "1: [admin] has no 'listen'; expected HOST:PORT, [V6]:PORT, "
	              "*:PORT or unix:/PATH\n");
	assert_faults("[admin]\nlisten = unix:/x\npassword = p\npassword_file = /p\n",
	              "4: [admin] has both 'password' and 'password_file'; expected one of the "
	              "two\n");
	assert_faults(
		"[upstream]\npassword = p\npassword_command = p\n",
		"3: [upstream] has both 'password' and 'password_command'; expected one of "
		"the two\n");
	assert_faults("[upstream]\npassword_command_interval = 1m\n",
	              "2: 'password_command_interval' of [upstream] needs 'password_command'; "
	              "add it\n");
	config_unref(load("[upstream]\nuser = u\npassword_command = p\n"));
	assert_faults(QUORUM "password = p\npassword_file = /p\n",
	              "4: [quorum q] has both 'password' and 'password_file'; expected one of "
	              "the two\n");
	config_unref(load("[admin]\nlisten = unix:/x\n"));
	config_unref(load("[admin]\nlisten = 127.0.0.1:6381\npassword = p\n"));
}

TEST(redis_is_at_an_address_or_where_sentinels_say)
{
	assert_faults("[upstream]\naddress = a:1\nsentinels = a:1\nmaster = m\n",
	              "3: [upstream] has both 'address' and 'sentinels'; expected only one of "
	              "'address' (one server), 'sentinels' (they report the primary) and "
	              "'cluster' (some of its nodes)\n");
	assert_faults("[upstream]\ncluster = a:1\naddress = a:1\n",
	              "3: [upstream] has both 'address' and 'cluster'; expected only one of "
	              "'address' (one server), 'sentinels' (they report the primary) and "
	              "'cluster' (some of its nodes)\n");
	assert_faults("[upstream]\ncluster = a:1 unix:/x\n",
	              "2: 'cluster' is 'unix:/x': nodes of a cluster announce each other by "
	              "host and port only; expected HOST:PORT or [V6]:PORT of some nodes, "
	              "separated by blanks\n");
	assert_faults("[upstream]\nsentinels = a:1\n",
	              "2: 'sentinels' of [upstream] needs 'master'; add the name under which "
	              "they know the primary, such as mymaster\n");
	assert_faults("[upstream]\nmaster = m\nsentinel_user = u\nsentinel_password = p\n",
	              "2: 'master' of [upstream] needs 'sentinels'; add some, such as s1:26379 "
	              "s2:26379 s3:26379\n"
	              "3: 'sentinel_user' of [upstream] needs 'sentinels'; add some, such as "
	              "s1:26379 s2:26379 s3:26379\n"
	              "4: 'sentinel_password' of [upstream] needs 'sentinels'; add some, such "
	              "as s1:26379 s2:26379 s3:26379\n");
	assert_faults("[upstream]\nsentinels = a:1\nmaster = m\nsentinel_user = u\n",
	              "4: 'sentinel_user' of [upstream] needs 'sentinel_password'; expected "
	              "both, neither, or a password without a user\n");
	assert_faults(
		"[upstream]\nsentinels = a:1 b\nmaster = m\n",
		"2: 'sentinels' is 'b': there is no port; expected HOST:PORT, [V6]:PORT or "
		"unix:/PATH\n");
}

TEST(who_waits_for_a_failover_by_default_has_sentinels)
{
	struct config *c = load("[upstream]\nsentinels = a:1 b:2\nmaster = m\n");

	assert_int_equal(c->failover_wait_ms, 10000);
	config_unref(c);
	c = load("[upstream]\nfailover_wait = 0\nsentinels = a:1\nmaster = m\n");
	assert_int_equal(c->failover_wait_ms, 0);
	config_unref(c);
	c = load("[upstream]\naddress = a:1\n");
	assert_int_equal(c->failover_wait_ms, 0);
	config_unref(c);
	c = load("[upstream]\nfailover_wait = 3s\n");
	assert_int_equal(c->failover_wait_ms, 3000);
	config_unref(c);
}

TEST(addresses_to_listen_at_stand_once)
{
	assert_faults("[hasp]\nlisten = a:1 b:1 unix:/a\n  c:1 a:1\n  unix:/a\n",
	              "3: 'listen' of [hasp] has 'a:1' twice; expected each address once\n"
	              "4: 'listen' of [hasp] has 'unix:/a' twice; expected each address "
	              "once\n");
	assert_faults("[http]\nlisten = 127.0.0.1:6380\n",
	              "2: 'listen' of [http] has '127.0.0.1:6380', which is also in 'listen' "
	              "of [hasp]; expected each address once\n");
	assert_faults("[admin]\nlisten = unix:/a\n[hasp]\nlisten = a:1 unix:/a\n"
	              "listen_tls = a:1\ntls_cert_file = /c\ntls_key_file = /k\n",
	              "5: 'listen_tls' of [hasp] has 'a:1', which is also in 'listen' of "
	              "[hasp]; expected each address once\n"
	              "2: 'listen' of [admin] has 'unix:/a', which is also in 'listen' of "
	              "[hasp]; expected each address once\n");
	config_unref(load("[hasp]\nlisten = a:0 a:0 a:1\n"));
}

TEST(numbers_have_a_range)
{
	assert_faults("[hasp]\nworkers = 65\n",
	              "2: 'workers' is '65': too large; expected a whole number, from 1 to "
	              "64\n");
	assert_faults("[hasp]\nworkers = 0\n",
	              "2: 'workers' is '0': too small; expected a whole number, from 1 to "
	              "64\n");
	assert_faults("[hasp]\nworkers = -1\n",
	              "2: 'workers' is '-1'; expected a whole number, from 1 to 64\n");
	assert_faults("[hasp]\nworkers = 99999999999999999999\n",
	              "2: 'workers' is '99999999999999999999'; expected a whole number, from 1 "
	              "to 64\n");
	assert_faults("[hasp]\nunix_socket_mode = 0780\n",
	              "2: 'unix_socket_mode' is '0780'; expected an octal number, from 0000 to "
	              "0777\n");
}

TEST(durations_have_a_range_and_a_unit)
{
	assert_faults("[lock a]\npattern = a\nlease = 0\n",
	              "3: 'lease' is '0': too small; expected a duration such as 500ms, 30s, "
	              "5m or 2h, from 1ms to 8760h\n");
	assert_faults("[upstream]\nconnect_timeout = 5 s\n",
	              "2: 'connect_timeout' is '5 s'; expected a duration such as 500ms, 30s, "
	              "5m or 2h, from 1ms to 1h\n");
	assert_faults("[upstream]\nserver_timeout = 1s\n",
	              "2: 'server_check_delay' is more than half of 'server_timeout'; "
	              "expected 500ms or less, or a longer 'server_timeout'\n");
	assert_faults("[hasp]\ntcp_keepalive = 1500ms\n",
	              "2: 'tcp_keepalive' is '1500ms'; expected a duration such as 500ms, 30s, "
	              "5m or 2h, from 0 to 9h in steps of 1s\n");
	assert_faults("[hasp]\ndrain_timeout = 9223372036854775807h\n",
	              "2: 'drain_timeout' is '9223372036854775807h'; expected a duration such "
	              "as 500ms, 30s, 5m or 2h, from 0 to 8760h\n");
}

TEST(sizes_have_a_range_and_a_unit)
{
	assert_faults("[hasp]\nmax_request = 65535\n",
	              "2: 'max_request' is '65535': too small; expected a size such as 64kb, "
	              "64mb or 1gb, from 64kb to 1gb\n");
	assert_faults("[hasp]\nmax_request = 2GB\n",
	              "2: 'max_request' is '2GB': too large; expected a size such as 64kb, "
	              "64mb or 1gb, from 64kb to 1gb\n");
	assert_faults("[hasp]\nmax_request = 64tb\n",
	              "2: 'max_request' is '64tb'; expected a size such as 64kb, 64mb or 1gb, "
	              "from 64kb to 1gb\n");
	/* A client whose link hasp pauses may leave half of a megabyte unread. */
	assert_faults("[hasp]\nclient_output_limit = 1048575\n",
	              "2: 'client_output_limit' is '1048575': too small; expected a size such "
	              "as 64kb, 64mb or 1gb, from 1mb to 16gb\n");
}

TEST(enums_list_what_is_allowed)
{
	assert_faults("[lock a]\npattern = a\nowner = client\n",
	              "3: 'owner' is 'client'; expected connection, address, name, user or "
	              "value\n");
	assert_faults("[lock a]\npattern = a\nreentrant = count\n",
	              "3: 'reentrant' is 'count'; expected no or refresh\n");
	assert_faults("[verbs]\nowner = value\n",
	              "2: 'owner' is 'value'; expected connection, address, name or user\n");
}

TEST(options_and_sections_stand_once)
{
	assert_faults("[hasp]\nworkers = 1\nworkers = 2\n",
	              "3: duplicate option 'workers' in [hasp], which is also in line 2; "
	              "expected it once\n");
	assert_faults("[hasp]\n[verbs]\n[hasp]\n", "3: duplicate section [hasp], which begins "
	                                           "in line 1; move its options there\n");
	assert_faults("[lock a]\npattern = a\n[lock a]\npattern = b\n",
	              "3: duplicate section [lock a], which is also in line 1; expected "
	              "another name\n");
	assert_faults("[guard a]\npattern = a\nacquire_on = GET\n"
	              "[guard a]\npattern = b\nacquire_on = GET\n",
	              "4: duplicate section [guard a], which is also in line 1; expected "
	              "another name\n");
}

TEST(rules_need_a_fit_name)
{
	assert_faults("[lock]\npattern = a\n", "1: a rule has no name; expected [lock NAME]\n");
	assert_faults("[lock a b]\npattern = a\n", "1: a rule's name is 'a b'; expected only "
	                                           "letters, digits, '.', '_', ':' and '-'\n");
}

TEST(rules_need_a_pattern)
{
	assert_faults("[hasp]\n[lock a]\n[lock b]\npattern = b\n[lock c]\nlease = 5s\n",
	              "2: [lock a] has no 'pattern'; expected patterns of keys, such as lock:* "
	              "or orders:?\n"
	              "5: [lock c] has no 'pattern'; expected patterns of keys, such as lock:* "
	              "or orders:?\n");
}

TEST(guards_need_a_fit_name)
{
	assert_faults("[guard]\npattern = a\nacquire_on = GET\n",
	              "1: a guard has no name; expected [guard NAME]\n");
	assert_faults("[guard a/b]\npattern = a\nacquire_on = GET\n",
	              "1: a guard's name is 'a/b'; expected only letters, digits, '.', '_', "
	              "':' and '-'\n");
	config_unref(load("[lock a]\npattern = a\n[guard a]\npattern = b\nacquire_on = GET\n"));
}

TEST(guards_need_a_pattern_and_a_command)
{
	assert_faults(
		"[guard a]\n[guard b]\npattern = b\nacquire_on =\nrelease_on =\n",
		"1: [guard a] has no 'pattern'; expected patterns of keys, such as lock:* "
		"or orders:?\n"
		"1: [guard a] has no 'acquire_on'; expected commands that read a value, such "
		"as GET or HGETALL\n"
		"4: 'acquire_on' has no value; expected commands that read a value, such as "
		"GET or HGETALL\n"
		"5: 'release_on' has no value; expected commands that write, such as SET "
		"or HSET\n");
}

#define ACQUIRE_FAULT(value, what)                                                             \
	assert_faults("[guard a]\npattern = a\nacquire_on = GET " value "\n",                  \
	              "3: 'acquire_on' is '" value "': " what                                  \
	              "; expected commands that read a value, such as GET or "                 \
	              "HGETALL\n")

TEST(guards_name_whole_commands)
{
	ACQUIRE_FAULT("XINFO|STREAM",
	              "a guard does not distinguish subcommands: name the command alone");
	ACQUIRE_FAULT("#get", "a comment after a value begins with ' ;'");
	ACQUIRE_FAULT("g*t", "only letters, digits, '.', '_', ':' and '-'");
	assert_faults(
		"[guard a]\npattern = a\nacquire_on = GET\nrelease_on = XGROUP|CREATE\n",
		"4: 'release_on' is 'XGROUP|CREATE': a guard does not distinguish subcommands: "
		"name the command alone; expected commands that write, such as SET or HSET\n");
}

TEST(guards_have_no_owner)
{
	assert_faults("[guard a]\npattern = a\nacquire_on = GET\nowner = name\n",
	              "4: 'owner' in [guard a]: a guard belongs to the connection that read "
	              "the key; remove the line, and if another connection writes it, use LOCK "
	              "... AS or a [lock NAME]\n");
}

#define EXCEPT_FAULT(value, what)                                                              \
	assert_faults("[guard a]\npattern = a\nacquire_on = GET\nexcept = " value "\n",        \
	              "4: 'except' is '" value "': " what                                      \
	              "; expected name:GLOB, user:GLOB or listener:ADDRESS\n")

TEST(exceptions_are_of_three_kinds)
{
	EXCEPT_FAULT("reports", "it begins with none of name:, user: and listener:");
	EXCEPT_FAULT("names:a", "it begins with none of name:, user: and listener:");
	EXCEPT_FAULT("user:", "there is nothing after the ':'");
	EXCEPT_FAULT("#", "a comment after a value begins with ' ;'");
}

TEST(excepted_listeners_exist)
{
	assert_faults(
		"[guard a]\npattern = a\nacquire_on = GET\n"
		"except = name:x\n\tlistener:b:1 listener:c:1\n"
		"[hasp]\nlisten = a:1 b:1\n",
		"5: 'except' of [guard a] has 'listener:c:1', but hasp does not listen there; "
		"expected an address as in 'listen' of [hasp], such as listener:a:1\n");
	config_unref(load("[guard a]\npattern = a\nacquire_on = GET\n"
	                  "except = listener:127.0.0.1:6380\n"));
}

TEST(a_bad_listen_causes_no_fault_of_exceptions)
{
	assert_faults("[hasp]\nlisten = a:1 b\n"
	              "[guard a]\npattern = a\nacquire_on = GET\nexcept = listener:a:1\n",
	              "2: 'listen' is 'b': there is no port; expected HOST:PORT, [V6]:PORT, "
	              "*:PORT or unix:/PATH\n");
}

TEST(max_lease_is_not_less_than_lease)
{
	assert_faults("[lock a]\npattern = a\nmax_lease = 29s\n",
	              "3: 'max_lease' of [lock a] is less than its 'lease'; expected 30s or "
	              "more, or 0 for no limit\n");
	assert_faults("[verbs]\nmax_lease = 1m\nlease = 2m\n",
	              "2: 'max_lease' of [verbs] is less than its 'lease'; expected 2m or "
	              "more, or 0 for no limit\n");
	config_unref(load("[verbs]\nmax_lease = 2m\nlease = 2m\n"));
}

TEST(a_bad_value_causes_no_second_fault)
{
	assert_faults("[lock a]\npattern = #\nlease = x\nmax_lease = 1s\n",
	              "2: 'pattern' is '#': a comment after a value begins with ' ;'; for a "
	              "'#' at the start of a pattern write '\\#'; expected patterns of keys, "
	              "such as lock:* or orders:?\n"
	              "3: 'lease' is 'x'; expected a duration such as 500ms, 30s, 5m or 2h, "
	              "from 1ms to 8760h\n");
}

TEST(verbs_have_different_names)
{
	assert_faults("[verbs]\nunlock = lock\n",
	              "2: 'lock' and 'unlock' are both 'lock'; expected different names\n");
	assert_faults("[verbs]\nlist = UNLOCK\n",
	              "2: 'unlock' and 'list' are both 'UNLOCK'; expected different names\n");
	assert_faults("[verbs]\nlock = lock.info\n",
	              "2: 'lock' and 'info' are both 'LOCK.INFO'; expected different names\n");
	assert_faults("[verbs]\nlock = UN LOCK\nextend =\n",
	              "2: 'lock' is 'UN LOCK': only letters, digits, '.', '_', ':' and '-'; "
	              "expected a command's name, such as LOCK\n"
	              "3: 'extend' has no value; expected a command's name, such as LOCK\n");
}

TEST(an_upstream_user_needs_a_password)
{
	assert_faults("[upstream]\nuser = hasp\n",
	              "2: 'user' of [upstream] needs 'password'; expected both, neither, or a "
	              "password without a user\n");
	config_unref(load("[upstream]\npassword = secret\n"));
	config_unref(load("[upstream]\nuser = hasp\npassword = secret\n"));
}

TEST(options_need_a_value)
{
	assert_faults("[hasp]\nlog_level =\nlog = ; nowhere\nlisten =\n",
	              "2: 'log_level' has no value; expected error, warning, info or debug\n"
	              "3: 'log' has no value; expected stderr, syslog or a path such as "
	              "/var/log/hasp/hasp.log\n"
	              "4: 'listen' has no value; expected HOST:PORT, [V6]:PORT, *:PORT or "
	              "unix:/PATH\n");
}

TEST(paths_are_absolute)
{
	assert_faults(
		"[hasp]\nlog = file\n",
		"2: 'log' is 'file': it is neither stderr nor syslog, and does not begin with "
		"'/'; expected stderr, syslog or a path such as /var/log/hasp/hasp.log\n");
}

TEST(the_process_is_the_service_managers)
{
	assert_faults(
		"[hasp]\nuser = hasp\npid_file = /run/hasp.pid\n",
		"2: 'user' in [hasp]: hasp runs as the user that starts it; remove the "
		"line, and name the user in User= of systemd or command_user= of OpenRC, "
		"or start hasp by setpriv(1)\n"
		"3: 'pid_file' in [hasp]: hasp stays in the foreground and writes no pid "
		"file; remove the line, and let systemd, OpenRC or a container follow the "
		"process\n");
}

#define LISTEN_FAULT(value, what)                                                              \
	assert_faults("[hasp]\nlisten = " value "\n",                                          \
	              "2: 'listen' is '" value "': " what "; expected HOST:PORT, [V6]:PORT, "  \
	              "*:PORT or unix:/PATH\n")
#define ADDRESS_FAULT(value, what)                                                             \
	assert_faults("[upstream]\naddress = " value "\n",                                     \
	              "2: 'address' is '" value "': " what                                     \
	              "; expected HOST:PORT, [V6]:PORT or "                                    \
	              "unix:/PATH\n")

TEST(addresses_are_checked)
{
	LISTEN_FAULT("localhost", "there is no port");
	LISTEN_FAULT("[::1]", "there is no port");
	LISTEN_FAULT("[::1", "there is no ']' after the IPv6 address");
	LISTEN_FAULT("[::g]:1", "not an IPv6 address between the brackets");
	LISTEN_FAULT("::1:6380", "an IPv6 address needs brackets, as in [::1]:6379");
	LISTEN_FAULT(":6380", "there is no host before the ':'");
	LISTEN_FAULT("a:", "the port must be a number from 0 to 65535");
	LISTEN_FAULT("a:65536", "the port must be a number from 0 to 65535");
	LISTEN_FAULT("a:http", "the port must be a number from 0 to 65535");
	LISTEN_FAULT("10.0.0.256:1", "not an IPv4 address");
	LISTEN_FAULT("a/b:1", "a host's name has letters, digits, '.', '-' and '_' only");
	LISTEN_FAULT("unix:run", "the path of a unix socket must begin with '/'");
	ADDRESS_FAULT("*:6379", "'*' is not a host to connect to");
	ADDRESS_FAULT("a:0", "port 0 is only for listening");
	config_unref(
		load("[hasp]\nlisten = a:0 a:65535 [fe80::1%eth0]:1 0.0.0.0:1 my-host_1.x:1\n"
	             "[upstream]\naddress = unix:/run/redis.sock\n"));
}

TEST(unix_paths_fit_into_a_socket_address)
{
	char name[108], text[200], expected[400];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	snprintf(text, sizeof(text), "[hasp]\nlisten = unix:/%s\n", name + 1);
	config_unref(load(text));
	snprintf(text, sizeof(text), "[hasp]\nlisten = unix:/%s\n", name);
	snprintf(expected, sizeof(expected),
	         "2: 'listen' is 'unix:/%s': the path of a unix socket may have at most 107 "
	         "bytes; expected HOST:PORT, [V6]:PORT, *:PORT or unix:/PATH\n",
	         name);
	assert_faults(text, expected);
}

TEST(every_fault_is_found)
{
	assert_faults(
		"workers = 1\n[hasp]\nworkers = x\nbacklog\n[what]\n[lock a]\n"
		"[verbs]\nlease = 0\n",
		"1: option 'workers' before any section; expected [hasp] above it\n"
		"3: 'workers' is 'x'; expected a whole number, from 1 to 64\n"
		"4: the line is neither an option nor a section; expected 'name = value' or "
		"[section]\n"
		"5: unknown section [what]; expected [hasp], [upstream], [lock NAME], "
		"[guard NAME], [quorum NAME], [verbs], [discover], [http] or [admin]\n"
		"6: [lock a] has no 'pattern'; expected patterns of keys, such as lock:* "
		"or orders:?\n"
		"8: 'lease' is '0': too small; expected a duration such as 500ms, 30s, 5m "
		"or 2h, from 1ms to 8760h\n");
}

TEST(an_unreadable_file_is_a_fault)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;

	unlink(ini_path);
	assert_null(config_load(ini_path, &faults, &warnings));
	assert_lines(&faults, "0: cannot be opened: No such file or directory; give a readable "
	                      "file\n");
	buf_clear(&faults);
	assert_int_equal(mkdir(ini_path, 0700), 0);
	assert_null(config_load(ini_path, &faults, &warnings));
	assert_lines(&faults, "0: is no regular file; expected one\n");
	rmdir(ini_path);
	buf_release(&faults);
	buf_release(&warnings);
}

/* ---- lines ---- */

TEST(over_long_lines_are_faults_and_not_cut)
{
	char value[300], text[600];

	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	snprintf(text, sizeof(text), "[lock a]\npattern = %.188s\nlease = 1s\n", value);
	assert_faults(text, "2: the line has 198 bytes; at most 197 are allowed (an indented "
	                    "line continues a list)\n");
	snprintf(text, sizeof(text), "[lock a]\npattern = b\n\t%s\n", value);
	assert_faults(text, "3: the line has 300 bytes; at most 197 are allowed (an indented "
	                    "line continues a list)\n");
	snprintf(text, sizeof(text), "[hasp]\nworkers = %.188s\n", value);
	assert_faults(text, "2: the line has 198 bytes; at most 197 are allowed (an indented "
	                    "line continues a list)\n");
	snprintf(text, sizeof(text), "[hasp]\n%s\n", value);
	assert_faults(text, "2: the line has 299 bytes; at most 197 are allowed (an indented "
	                    "line continues a list)\n");
}

TEST(names_longer_than_inih_keeps_are_faults)
{
	char name[60], text[200], expected[200];

	memset(name, 'x', sizeof(name));
	snprintf(text, sizeof(text), "[lock %.44s]\npattern = a\n", name);
	config_unref(load(text));
	snprintf(text, sizeof(text), "[lock %.45s]\npattern = a\n", name);
	assert_faults(text, "1: a section's name has 50 bytes; at most 49 are allowed\n");
	snprintf(text, sizeof(text), "[hasp]\n%.49s = 1\n", name);
	snprintf(expected, sizeof(expected), "2: unknown option '%.49s' in [hasp]\n", name);
	assert_faults(text, expected);
	snprintf(text, sizeof(text), "[hasp]\n%.50s = 1\n", name);
	assert_faults(text, "2: an option's name has 50 bytes; at most 49 are allowed\n");
}

TEST(broken_section_lines_are_faults)
{
	assert_faults("[hasp\n", "1: a section's name has no ']'; expected [NAME]\n");
	assert_faults("[verbs ; all\nlease = 0\n",
	              "1: a section's name has no ']'; expected [NAME]\n"
	              "2: 'lease' is '0': too small; expected a duration such as 500ms, 30s, "
	              "5m or 2h, from 1ms to 8760h\n");
	assert_faults("[hasp] workers = 2\n",
	              "1: text after the section's ']'; put it on a line of its own\n");
	config_unref(load("[ hasp ] ; a comment\n"));
}

TEST(indented_lines_below_other_options_are_faults)
{
	assert_faults("[hasp]\nworkers = 1\n\t2\n",
	              "3: an indented line continues the list above it, but 'workers' is not a "
	              "list; begin in the first column\n");
	assert_faults("[hasp]\n  workers = 1\nbacklog = 1\n[upstream]\n\taddress = a:1\n",
	              "2: an indented line continues the option above it, but there is none; "
	              "begin in the first column\n"
	              "5: an indented line continues the option above it, but there is none; "
	              "begin in the first column\n");
	assert_faults("[lock a]\npattern = a\n  leese = 5s\n\trenew=no\n",
	              "3: an indented line continues 'pattern' above it; for another option "
	              "begin in the first column\n"
	              "4: an indented line continues 'pattern' above it; for another option "
	              "begin in the first column\n");
}

TEST(lines_without_a_name_are_faults)
{
	assert_faults("[hasp]\n= 1\n", "2: no name before the '='; expected 'name = value'\n");
}

TEST(nul_bytes_are_faults)
{
	assert_faults_of(SLICE_LIT("[hasp]\nuser = a\0b\n"),
	                 "2: the line has a NUL byte; expected text\n");
}

TEST(passwords_are_not_shown)
{
	assert_faults("[upstream]\npassword = a\n\tsecret\npasword = secret\n",
	              "3: an indented line continues the list above it, but 'password' is not "
	              "a list; begin in the first column\n"
	              "4: unknown option 'pasword' in [upstream]; did you mean 'password'?\n");
}
