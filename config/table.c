/* SPDX-License-Identifier: BSD-3-Clause
 *
 * table: lists all options. An option's help line also stands above the option in hasp.ini.
 */
#include "config/config_internal.h"

#include <string.h>

#include "base/fatal.h"
#include "config/network.h"
#include "config/value.h"

#define MS INT64_C(1)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)
#define LONGEST (8760 * HOUR) /* a year; keeps sums far from overflow */

#define REPLICAS_MAX 100

#define KB INT64_C(1024)
#define MB (1024 * KB)
#define GB (1024 * MB)

static const char *table_check_include(const char *s)
{
	return *s == '#' ? "a comment after a value begins with ' ;'" : NULL;
}

static const char *table_check_listen(const char *s)
{
	return value_address_fault(s, ADDRESS_TO_LISTEN);
}

static const char *table_check_listen_tls(const char *s)
{
	if (strncmp(s, "unix:", 5) == 0)
		return "a unix socket needs no TLS: its traffic does not leave the machine";
	return value_address_fault(s, ADDRESS_TO_LISTEN);
}

static const char *table_check_network(const char *s)
{
	struct network n;

	return network_parse(&n, s) < 0 ? "not a network" : NULL;
}

static const char *table_check_listen_http(const char *s)
{
	if (strncmp(s, "unix:", 5) == 0)
		return "Prometheus connects by host and port only";
	return value_address_fault(s, ADDRESS_TO_LISTEN);
}

static const char *table_check_host(const char *s)
{
	if (strchr(s, ':') || strchr(s, '/'))
		return "a host name without a port, which is for all ports";
	return NULL;
}

static const char *table_check_upstream(const char *s)
{
	return value_address_fault(s, ADDRESS_TO_CONNECT);
}

/* Rejects unix sockets, too: nodes of a cluster name each other by host and port. */
static const char *table_check_cluster(const char *s)
{
	if (strncmp(s, "unix:", 5) == 0)
		return "nodes of a cluster announce each other by host and port only";
	return value_address_fault(s, ADDRESS_TO_CONNECT);
}

/* Rejects relative paths, which would depend on the directory where hasp is started. */
static const char *table_check_path(const char *s)
{
	return *s == '/' ? NULL : "the path must begin with '/'";
}

static const char *table_check_log(const char *s)
{
	if (strcmp(s, "stderr") == 0 || strcmp(s, "syslog") == 0)
		return NULL;
	return *s == '/' ? NULL
	                 : "it is neither stderr nor syslog, and does not begin with '/'";
}

/* hasp would read `pattern = a # why` as three patterns, so this reports the `#`. */
static const char *table_check_pattern(const char *s)
{
	if (*s == '#')
		return "a comment after a value begins with ' ;'; for a '#' at the start of a "
		       "pattern write '\\#'";
	if (strcmp(s, "=") == 0)
		return "a '=' with blanks on both sides";
	if (pattern_ends_with_semicolon(s))
		return "a comment after a value begins with ' ;'; for a ';' at the end of a "
		       "pattern write '\\;'";
	if (pattern_is_open(s))
		return "a '[' has no ']'; for a '[' in the keys write '\\['";
	return NULL;
}

static const char *table_check_command(const char *s)
{
	if (*s == '#')
		return "a comment after a value begins with ' ;'";
	if (strchr(s, '|'))
		return "a guard does not distinguish subcommands: name the command alone";
	return value_word_fault(s);
}

static const char *table_check_except(const char *s)
{
	static const char *const kinds[] = { "name:", "user:", "listener:" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t n = strlen(kinds[i]);

		if (strncmp(s, kinds[i], n) == 0)
			return s[n] ? NULL : "there is nothing after the ':'";
	}
	return *s == '#' ? "a comment after a value begins with ' ;'"
	                 : "it begins with none of name:, user: and listener:";
}

/* The offset of an option's field in the struct of its section. */
#define IN_CONFIG(field) offsetof(struct config, field)
#define IN_RULE(field) offsetof(struct rule, field)
#define IN_GUARD(field) offsetof(struct guard, field)
#define IN_QUORUM(field) offsetof(struct quorum_settings, field)
#define IN_VERBS(field) offsetof(struct verbs, field)

#define INCLUDE_EXPECTED "paths relative to the folder of this file, such as conf.d/*.ini"
#define PASSWORD_FILE_EXPECTED "a path such as /etc/hasp/redis.password"
#define LISTEN_TLS_EXPECTED "HOST:PORT, [V6]:PORT or *:PORT"
#define NETWORKS_EXPECTED "addresses or networks such as 10.0.0.0/8 or fd00::/8"
#define PEM_EXPECTED "a path such as /etc/hasp/hasp.crt"
#define PEM_KEY_EXPECTED "a path such as /etc/hasp/hasp.key"
#define PEM_CA_EXPECTED "a path such as /etc/hasp/ca.crt"
#define LISTEN_EXPECTED "HOST:PORT, [V6]:PORT, *:PORT or unix:/PATH"
#define CONNECT_EXPECTED "HOST:PORT, [V6]:PORT or unix:/PATH"
#define SERVERS_EXPECTED "an odd number of addresses, such as a:6379 b:6379 c:6379"
#define CLUSTER_EXPECTED "HOST:PORT or [V6]:PORT of some nodes, separated by blanks"
#define PATTERN_EXPECTED "patterns of keys, such as lock:* or orders:?"
#define ACQUIRE_EXPECTED "commands that read a value, such as GET or HGETALL"
#define RELEASE_EXPECTED "commands that write, such as SET or HSET"
#define EXCEPT_EXPECTED "name:GLOB, user:GLOB or listener:ADDRESS"
#define VERB_EXPECTED "a command's name, such as LOCK"

/* clang-format off */
/* The values of an OPTION_ENUM. */
#define CHOICES(...) (const struct option_choice[]){ __VA_ARGS__, { NULL, 0 } }
#define LOG_LEVELS \
	CHOICES({ "error", LOG_LEVEL_ERROR }, { "warning", LOG_LEVEL_WARNING }, \
	        { "info", LOG_LEVEL_INFO }, { "debug", LOG_LEVEL_DEBUG })
#define LOG_FORMATS CHOICES({ "logfmt", LOG_AS_LOGFMT }, { "json", LOG_AS_JSON })
#define SWITCHES CHOICES({ "no", SWITCH_NO }, { "yes", SWITCH_YES })
#define AUTH_CLIENTS \
	CHOICES({ "no", AUTH_CLIENTS_NO }, { "optional", AUTH_CLIENTS_OPTIONAL }, \
	        { "yes", AUTH_CLIENTS_YES })
#define POOLINGS CHOICES({ "shared", POOLING_SHARED }, { "session", POOLING_SESSION })
#define LOST_MODES CHOICES({ "log", LOST_LOG }, { "close", LOST_CLOSE })
#define RULE_OWNERS \
	CHOICES({ "connection", OWNER_CONNECTION }, { "address", OWNER_ADDRESS }, \
	        { "name", OWNER_NAME }, { "user", OWNER_USER }, { "value", OWNER_VALUE })
#define VALUELESS_OWNERS \
	CHOICES({ "connection", OWNER_CONNECTION }, { "address", OWNER_ADDRESS }, \
	        { "name", OWNER_NAME }, { "user", OWNER_USER })
#define RENEW_MODES \
	CHOICES({ "no", RENEW_NO }, { "yes", RENEW_YES }, { "unleased", RENEW_UNLEASED })
#define DISCONNECT_MODES \
	CHOICES({ "expire", DISCONNECT_EXPIRE }, { "release", DISCONNECT_RELEASE })
#define RULE_REENTRANT_MODES CHOICES({ "no", REENTRANT_NO }, { "refresh", REENTRANT_REFRESH })
#define FOREIGN_MODES CHOICES({ "refuse", FOREIGN_REFUSE }, { "allow", FOREIGN_ALLOW })
#define VERBS_REENTRANT_MODES \
	CHOICES({ "count", REENTRANT_COUNT }, { "refresh", REENTRANT_REFRESH }, \
	        { "no", REENTRANT_NO })
#define GUARD_STRATEGIES CHOICES({ "lock", STRATEGY_LOCK }, { "check", STRATEGY_CHECK })
#define RULE_MODES CHOICES({ "enforce", MODE_ENFORCE }, { "observe", MODE_OBSERVE })

/* NOLINTBEGIN(bugprone-macro-parentheses): offsetof() takes no parentheses */
/* The options of a struct server_tls, except `tls`. */
#define SERVER_TLS(section, type, field) \
	{ section, "tls_ca_cert_file", OPTION_STRING, offsetof(type, field.ca_cert_file), \
	  .check = table_check_path, .expected = PEM_CA_EXPECTED, .reloadable = true, \
	  .help = "CA file for verifying the servers' certificates; default: the system's CAs." }, \
	{ section, "tls_cert_file", OPTION_STRING, offsetof(type, field.cert_file), \
	  .check = table_check_path, .expected = PEM_EXPECTED, .reloadable = true, \
	  .help = "hasp's client certificate, if the servers require one (tls-auth-clients)." }, \
	{ section, "tls_key_file", OPTION_STRING, offsetof(type, field.key_file), \
	  .check = table_check_path, .expected = PEM_KEY_EXPECTED, .reloadable = true, \
	  .help = "Private key of the certificate, in PEM and not encrypted." }, \
	{ section, "tls_server_name", OPTION_STRING, offsetof(type, field.server_name), \
	  .expected = "a name such as redis.example.net", .reloadable = true, \
	  .help = "Name in the servers' certificates, if it is not the host name that hasp connects to." }, \
	{ section, "tls_verify", OPTION_ENUM, offsetof(type, field.verify), \
	  .def = "yes", .choices = SWITCHES, .reloadable = true, \
	  .help = "Whether hasp verifies the servers' certificates; set it to no for tests only." }
/* The options of a struct event_settings in [lock NAME] and [verbs]. */
#define LOCK_EVENTS(section, type) \
	{ section, "log_events", OPTION_ENUM, offsetof(type, events.log_events), \
	  .def = "yes", .choices = SWITCHES, .reloadable = true, \
	  .help = "Logs each refusal, with the client and the lock's owner; at most 10 of a kind in 10 seconds." }, \
	{ section, "log_held", OPTION_DURATION, offsetof(type, events.log_held_ms), \
	  .def = "0", .min = 0, .max = LONGEST, .reloadable = true, \
	  .help = "Logs locks that were held for this long or longer, when they end; 0: none." }, \
	{ section, "log_waited", OPTION_DURATION, offsetof(type, events.log_waited_ms), \
	  .def = "0", .min = 0, .max = LONGEST, .reloadable = true, \
	  .help = "Logs locks that a client gets only after waiting for this long or longer; 0: none." }
/* NOLINTEND(bugprone-macro-parentheses) */

const struct option table_options[] = {
	/* [hasp] */
	{ SECTION_HASP, "include", OPTION_LIST, IN_CONFIG(include),
	  .check = table_check_include, .expected = INCLUDE_EXPECTED, .reloadable = true,
	  .help = "More files to read after this one, in the order of their names; globs are allowed." },
	{ SECTION_HASP, "listen", OPTION_LIST, IN_CONFIG(listen),
	  .def = "127.0.0.1:6380", .check = table_check_listen, .expected = LISTEN_EXPECTED,
	  .help = "Addresses where hasp listens for clients; the default is reachable from this machine only." },
	{ SECTION_HASP, "listen_tls", OPTION_LIST, IN_CONFIG(listen_tls),
	  .check = table_check_listen_tls, .expected = LISTEN_TLS_EXPECTED,
	  .help = "Addresses where hasp listens for TLS clients; requires tls_cert_file and tls_key_file." },
	{ SECTION_HASP, "tls_cert_file", OPTION_STRING, IN_CONFIG(tls_cert_file),
	  .check = table_check_path, .expected = PEM_EXPECTED, .reloadable = true,
	  .help = "hasp's certificate, followed by its intermediate certificates, in PEM." },
	{ SECTION_HASP, "tls_key_file", OPTION_STRING, IN_CONFIG(tls_key_file),
	  .check = table_check_path, .expected = PEM_KEY_EXPECTED, .reloadable = true,
	  .help = "Private key of the certificate, in PEM and not encrypted." },
	{ SECTION_HASP, "tls_ca_cert_file", OPTION_STRING, IN_CONFIG(tls_ca_cert_file),
	  .check = table_check_path, .expected = PEM_CA_EXPECTED, .reloadable = true,
	  .help = "CA file for verifying clients' certificates; default: the system's CAs." },
	{ SECTION_HASP, "tls_auth_clients", OPTION_ENUM, IN_CONFIG(tls_auth_clients),
	  .def = "no", .choices = AUTH_CLIENTS, .reloadable = true,
	  .help = "Whether clients need a certificate: no, optional or yes. A certificate replaces no login to Redis." },
	{ SECTION_HASP, "tls_protocols", OPTION_STRING, IN_CONFIG(tls_protocols),
	  .expected = "TLSv1.2, TLSv1.3, or both separated by a blank", .reloadable = true,
	  .help = "TLS versions that clients may use; default: TLSv1.2 and TLSv1.3." },
	{ SECTION_HASP, "tls_ciphers", OPTION_STRING, IN_CONFIG(tls_ciphers),
	  .expected = "ciphers as in ciphers(1)", .reloadable = true,
	  .help = "TLSv1.2 ciphers that clients may use, as in ciphers(1); default: OpenSSL's choice." },
	{ SECTION_HASP, "tls_ciphersuites", OPTION_STRING, IN_CONFIG(tls_ciphersuites),
	  .expected = "cipher suites as in ciphers(1)", .reloadable = true,
	  .help = "TLSv1.3 cipher suites that clients may use; default: OpenSSL's choice." },
	{ SECTION_HASP, "proxy_protocol", OPTION_LIST, IN_CONFIG(proxy_protocol),
	  .check = table_check_network, .expected = NETWORKS_EXPECTED, .reloadable = true,
	  .help = "Addresses of load balancers that send a PROXY header." },
	{ SECTION_HASP, "unix_socket_mode", OPTION_OCTAL, IN_CONFIG(unix_socket_mode),
	  .def = "0770", .min = 0, .max = 0777,
	  .help = "Permissions of the unix sockets for clients, which decide which local users may connect." },
	{ SECTION_HASP, "workers", OPTION_INT, IN_CONFIG(workers),
	  .def = "1", .min = 1, .max = 64,
	  .help = "Threads that serve clients; one keeps up with one Redis unless clients pipeline heavily." },
	{ SECTION_HASP, "backlog", OPTION_INT, IN_CONFIG(backlog),
	  .def = "511", .min = 1, .max = 65535,
	  .help = "Connections that the kernel queues until hasp accepts them; same default as Redis." },
	{ SECTION_HASP, "max_clients", OPTION_INT, IN_CONFIG(max_clients),
	  .def = "10000", .min = 1, .max = 1000000, .reloadable = true,
	  .help = "Most clients at the same time, over all workers; same default as Redis." },
	{ SECTION_HASP, "client_idle_timeout", OPTION_DURATION, IN_CONFIG(client_idle_timeout_ms),
	  .def = "0", .min = 0, .max = LONGEST, .reloadable = true,
	  .help = "Closes clients that neither send nor receive for this long, except subscribers; 0: never." },
	{ SECTION_HASP, "client_login_timeout", OPTION_DURATION, IN_CONFIG(client_login_timeout_ms),
	  .def = "60s", .min = 0, .max = LONGEST, .reloadable = true,
	  .help = "Closes clients that do not log in within this time, if Redis requires a login; 0: never." },
	{ SECTION_HASP, "tcp_keepalive", OPTION_DURATION, IN_CONFIG(tcp_keepalive_ms),
	  .def = "300s", .min = 0, .max = 9 * HOUR, .step = SECOND, .reloadable = true,
	  .help = "Probes clients that are silent this long, to stop renewing dead clients' locks; 0: off." },
	{ SECTION_HASP, "max_request", OPTION_SIZE, IN_CONFIG(max_request),
	  .def = "64mb", .min = 64 * KB, .max = 1 * GB, .reloadable = true,
	  .help = "Longest request that hasp buffers because a rule may apply to it; hasp streams all others." },
	{ SECTION_HASP, "client_output_limit", OPTION_SIZE, IN_CONFIG(client_output_limit),
	  .def = "64mb", .min = 1 * MB, .max = 16 * GB, .reloadable = true,
	  .help = "Closes a client that leaves this many bytes of replies unread." },
	{ SECTION_HASP, "memory_limit", OPTION_SIZE, IN_CONFIG(memory_limit),
	  .def = "1gb", .min = 16 * MB, .max = 1024 * (int64_t)GB, .reloadable = true,
	  .help = "Memory for all clients together: their replies, requests, transactions and locks." },
	{ SECTION_HASP, "drain_timeout", OPTION_DURATION, IN_CONFIG(drain_timeout_ms),
	  .def = "30s", .min = 0, .max = LONGEST, .reloadable = true,
	  .help = "How long hasp waits, after SIGTERM or SIGUSR2, for clients that are busy or hold locks." },
	{ SECTION_HASP, "lame_duck", OPTION_DURATION, IN_CONFIG(lame_duck_ms),
	  .def = "0", .min = 0, .max = HOUR, .reloadable = true,
	  .help = "How long hasp still accepts clients after SIGTERM, while /readyz fails; 0: not at all." },
	{ SECTION_HASP, "allow_own_keys", OPTION_ENUM, IN_CONFIG(allow_reserved_keys),
	  .def = "no", .choices = SWITCHES, .reloadable = true,
	  .help = "Lets clients write the keys hasp:*, where hasp stores the owners of locks." },
	{ SECTION_HASP, "log", OPTION_STRING, IN_CONFIG(log),
	  .def = "stderr", .check = table_check_log, .expected = "stderr, syslog or a path such as /var/log/hasp/hasp.log",
	  .reloadable = true,
	  .help = "Where to log: stderr (which systemd collects), syslog or the path of a file." },
	{ SECTION_HASP, "log_level", OPTION_ENUM, IN_CONFIG(log_level),
	  .def = "info", .choices = LOG_LEVELS, .reloadable = true,
	  .help = "Least severity to log; starts and reloads are logged as info, lost locks as warnings." },
	{ SECTION_HASP, "log_format", OPTION_ENUM, IN_CONFIG(log_format),
	  .def = "logfmt", .choices = LOG_FORMATS, .reloadable = true,
	  .help = "Format of log lines: key=value pairs (logfmt) or one JSON object each (json)." },

	/* [upstream] */
	{ SECTION_UPSTREAM, "address", OPTION_STRING, IN_CONFIG(address),
	  .def = "127.0.0.1:6379", .check = table_check_upstream, .expected = CONNECT_EXPECTED, .reloadable = true,
	  .help = "Where Redis listens." },
	{ SECTION_UPSTREAM, "sentinels", OPTION_LIST, IN_CONFIG(sentinels),
	  .check = table_check_upstream, .expected = CONNECT_EXPECTED, .reloadable = true,
	  .help = "Instead of `address`: sentinels, which report where the primary is. Name three." },
	{ SECTION_UPSTREAM, "master", OPTION_STRING, IN_CONFIG(master),
	  .check = value_word_fault, .expected = "the primary's name at the sentinels, such as mymaster",
	  .reloadable = true,
	  .help = "Name under which the sentinels know the primary." },
	{ SECTION_UPSTREAM, "sentinel_user", OPTION_STRING, IN_CONFIG(sentinel_user),
	  .expected = "the name of a user of the sentinels", .reloadable = true,
	  .help = "User that hasp logs in as at the sentinels, if they require a login." },
	{ SECTION_UPSTREAM, "sentinel_password", OPTION_STRING, IN_CONFIG(sentinel_password),
	  .expected = "a password", .reloadable = true, .secret = true,
	  .help = "Password that hasp sends to the sentinels, if they require a login." },
	{ SECTION_UPSTREAM, "sentinel_password_file", OPTION_STRING, IN_CONFIG(sentinel_password_file),
	  .check = table_check_path, .expected = PASSWORD_FILE_EXPECTED, .reloadable = true,
	  .help = "File with the password in its first line, in place of sentinel_password." },
	{ SECTION_UPSTREAM, "failover_wait", OPTION_DURATION, IN_CONFIG(failover_wait_ms),
	  .min = 0, .max = HOUR, .reloadable = true,
	  .help = "How long clients wait for a primary before they get an error; default with address: 0." },
	{ SECTION_UPSTREAM, "cluster", OPTION_LIST, IN_CONFIG(cluster),
	  .check = table_check_cluster, .expected = CLUSTER_EXPECTED, .reloadable = true,
	  .help = "Instead of `address`: some nodes of a Redis Cluster. Clients see one server." },
	{ SECTION_UPSTREAM, "user", OPTION_STRING, IN_CONFIG(upstream_user),
	  .expected = "the name of a Redis user", .reloadable = true,
	  .help = "Redis user that hasp logs in as on its own connections; clients log in themselves." },
	{ SECTION_UPSTREAM, "password", OPTION_STRING, IN_CONFIG(upstream_password),
	  .expected = "a password", .reloadable = true, .secret = true,
	  .help = "Password of user or, without user, that of requirepass; it cannot contain a blank followed by ';'." },
	{ SECTION_UPSTREAM, "password_file", OPTION_STRING, IN_CONFIG(upstream_password_file),
	  .check = table_check_path, .expected = PASSWORD_FILE_EXPECTED, .reloadable = true,
	  .help = "File with the password in its first line, in place of password; read again at each reload." },
	{ SECTION_UPSTREAM, "password_command", OPTION_STRING, IN_CONFIG(password_command),
	  .expected = "a command of the shell that prints the password", .reloadable = true,
	  .help = "Shell command that prints the password, in place of password; for passwords that expire." },
	{ SECTION_UPSTREAM, "password_command_interval", OPTION_DURATION, IN_CONFIG(password_command_interval_ms),
	  .def = "5m", .min = 0, .max = 24 * HOUR, .reloadable = true,
	  .help = "How often password_command runs; 0: only at start, reloads and refused logins." },
	{ SECTION_UPSTREAM, "tls", OPTION_ENUM, IN_CONFIG(upstream_tls.tls),
	  .def = "no", .choices = SWITCHES, .reloadable = true,
	  .help = "Whether hasp uses TLS to Redis, sentinels and cluster nodes; never on unix sockets." },
	SERVER_TLS(SECTION_UPSTREAM, struct config, upstream_tls),
	{ SECTION_UPSTREAM, "pooling", OPTION_ENUM, IN_CONFIG(pooling),
	  .def = "shared", .choices = POOLINGS, .reloadable = true,
	  .help = "shared: clients share links (connections to Redis) until one needs its own; session: one each." },
	{ SECTION_UPSTREAM, "links_per_worker", OPTION_INT, IN_CONFIG(links_per_worker),
	  .def = "1", .min = 1, .max = 64, .reloadable = true,
	  .help = "Links that each worker shares among its clients; more than 1 helps only with large values." },
	{ SECTION_UPSTREAM, "connect_timeout", OPTION_DURATION, IN_CONFIG(connect_timeout_ms),
	  .def = "5s", .min = MS, .max = HOUR, .reloadable = true,
	  .help = "Time limit for resolving Redis' name and connecting; after that, clients get an error." },
	{ SECTION_UPSTREAM, "links_max", OPTION_INT, IN_CONFIG(links_max),
	  .def = "0", .min = 0, .max = 1000000, .reloadable = true,
	  .help = "Most links to one server, over all workers; set less than Redis' maxclients. 0: no limit." },
	{ SECTION_UPSTREAM, "dns_max_ttl", OPTION_DURATION, IN_CONFIG(dns_max_ttl_ms),
	  .def = "15s", .min = 0, .max = 24 * HOUR, .reloadable = true,
	  .help = "How often hasp resolves the host name in `address` again; 0: only for new links." },
	{ SECTION_UPSTREAM, "server_check_delay", OPTION_DURATION, IN_CONFIG(server_check_delay_ms),
	  .def = "1s", .min = 0, .max = HOUR, .reloadable = true,
	  .help = "How often hasp checks whether Redis answers and which role it has; 0: never." },
	{ SECTION_UPSTREAM, "server_timeout", OPTION_DURATION, IN_CONFIG(server_timeout_ms),
	  .def = "30s", .min = 0, .max = HOUR, .reloadable = true,
	  .help = "Closes links on which a reply is due, but Redis sends nothing for this long; 0: never." },
	{ SECTION_UPSTREAM, "tcp_user_timeout", OPTION_DURATION, IN_CONFIG(tcp_user_timeout_ms),
	  .def = "20s", .min = 0, .max = HOUR, .reloadable = true,
	  .help = "Closes links if Redis' machine does not acknowledge bytes for this long; 0: the kernel's limit." },
	{ SECTION_UPSTREAM, "replicas_ack", OPTION_INT, IN_CONFIG(replicas_ack),
	  .def = "0", .min = 0, .max = REPLICAS_MAX, .reloadable = true,
	  .help = "How many replicas must have a lock before the client gets it; 0: none." },
	{ SECTION_UPSTREAM, "replicas_ack_timeout", OPTION_DURATION, IN_CONFIG(replicas_ack_timeout_ms),
	  .def = "1s", .min = MS, .max = 20 * SECOND, .reloadable = true,
	  .help = "How long hasp waits for the replicas of replicas_ack before it releases the lock again." },

	/* [lock NAME] */
	{ SECTION_LOCK, "pattern", OPTION_LIST, IN_RULE(section.patterns),
	  .check = table_check_pattern, .expected = PATTERN_EXPECTED, .required = true, .reloadable = true,
	  .help = "Glob patterns of the keys that are locks, as for KEYS; the first rule that matches wins." },
	{ SECTION_LOCK, "owner", OPTION_ENUM, IN_RULE(owner),
	  .def = "connection", .choices = RULE_OWNERS,
	  .help = "Which connections count as one owner; connection pools need address, name, user or value." },
	{ SECTION_LOCK, "lease", OPTION_DURATION, IN_RULE(lease_ms),
	  .def = "30s", .min = MS, .max = LONGEST, .reloadable = true,
	  .help = "Expiry of locks that are taken without one; a crashed owner blocks others for this long." },
	{ SECTION_LOCK, "max_lease", OPTION_DURATION, IN_RULE(max_lease_ms),
	  .def = "0", .min = 0, .max = LONGEST, .reloadable = true,
	  .help = "Longest expiry of a lock; hasp shortens longer ones. 0: no limit." },
	{ SECTION_LOCK, "wait", OPTION_DURATION, IN_RULE(wait_ms),
	  .def = "0", .min = 0, .max = LONGEST, .reloadable = true,
	  .help = "How long SETNX and SET NX wait for a lock that another owner has; 0: not at all." },
	{ SECTION_LOCK, "renew", OPTION_ENUM, IN_RULE(renew),
	  .def = "unleased", .choices = RENEW_MODES, .reloadable = true,
	  .help = "Which locks hasp renews while their owner is connected; unleased: those without an expiry." },
	{ SECTION_LOCK, "max_hold", OPTION_DURATION, IN_RULE(max_hold_ms),
	  .def = "10m", .min = 0, .max = LONGEST, .reloadable = true,
	  .help = "Renewal ends after this time, so that a hung owner cannot block for ever; 0: no limit." },
	{ SECTION_LOCK, "on_disconnect", OPTION_ENUM, IN_RULE(on_disconnect),
	  .def = "expire", .choices = DISCONNECT_MODES, .reloadable = true,
	  .help = "When the owner's connection ends: let the lease expire, or release the lock." },
	{ SECTION_LOCK, "on_lost", OPTION_ENUM, IN_RULE(on_lost),
	  .def = "log", .choices = LOST_MODES, .reloadable = true,
	  .help = "When a renewal finds that the lock is lost: only log it, or close the owner's connection." },
	{ SECTION_LOCK, "reentrant", OPTION_ENUM, IN_RULE(reentrant),
	  .def = "no", .choices = RULE_REENTRANT_MODES, .reloadable = true,
	  .help = "When the owner locks again: fail as Redis does (no), or succeed with a new expiry (refresh)." },
	{ SECTION_LOCK, "foreign_del", OPTION_ENUM, IN_RULE(foreign_del),
	  .def = "refuse", .choices = FOREIGN_MODES, .reloadable = true,
	  .help = "With owner = value: whether a connection that never stored or read the value may delete the lock." },
	{ SECTION_LOCK, "mode", OPTION_ENUM, IN_RULE(mode),
	  .def = "enforce", .choices = RULE_MODES, .reloadable = true,
	  .help = "enforce acts; observe changes nothing, and logs what enforce would prevent: try it first." },
	{ SECTION_LOCK, "replicas_ack", OPTION_INT, IN_RULE(replicas_ack),
	  .min = 0, .max = REPLICAS_MAX, .reloadable = true,
	  .help = "How many replicas must have a lock of this rule; default: as in [upstream]." },
	{ SECTION_LOCK, "replicas_ack_timeout", OPTION_DURATION, IN_RULE(replicas_ack_timeout_ms),
	  .min = MS, .max = 20 * SECOND, .reloadable = true,
	  .help = "How long hasp waits for the replicas of replicas_ack; default: as in [upstream]." },
	{ SECTION_LOCK, "quorum", OPTION_STRING, IN_RULE(quorum),
	  .expected = "the NAME of a [quorum NAME]",
	  .help = "NAME of the [quorum NAME] whose servers store the locks; default: [upstream] stores them." },
	LOCK_EVENTS(SECTION_LOCK, struct rule),

	/* [guard NAME] */
	{ SECTION_GUARD, "pattern", OPTION_LIST, IN_GUARD(section.patterns),
	  .check = table_check_pattern, .expected = PATTERN_EXPECTED, .required = true, .reloadable = true,
	  .help = "Glob patterns of the guarded keys; a [lock] that matches wins over guards, else the first guard." },
	{ SECTION_GUARD, "acquire_on", OPTION_LIST, IN_GUARD(acquire_on),
	  .check = table_check_command, .expected = ACQUIRE_EXPECTED, .required = true, .reloadable = true,
	  .help = "Commands that read a value to change it and write it back; these commands wait for the guard." },
	{ SECTION_GUARD, "strategy", OPTION_ENUM, IN_GUARD(strategy),
	  .def = "lock", .choices = GUARD_STRATEGIES, .reloadable = true,
	  .help = "lock: one reader at a time; check: no waiting, but a write fails if the value has changed." },
	{ SECTION_GUARD, "release_on", OPTION_LIST, IN_GUARD(release_on),
	  .check = table_check_command, .expected = RELEASE_EXPECTED, .reloadable = true,
	  .help = "Write commands that release the guard; default: all write commands not in acquire_on." },
	{ SECTION_GUARD, "lease", OPTION_DURATION, IN_GUARD(lease_ms),
	  .def = "5s", .min = MS, .max = LONGEST, .reloadable = true,
	  .help = "Expiry of the guard: longest time from read to write; hasp refuses a later write." },
	{ SECTION_GUARD, "wait", OPTION_DURATION, IN_GUARD(wait_ms),
	  .def = "2s", .min = 0, .max = LONGEST, .reloadable = true,
	  .help = "How long commands wait for the guard before they fail; 0: not at all." },
	{ SECTION_GUARD, "on_disconnect", OPTION_ENUM, IN_GUARD(on_disconnect),
	  .def = "release", .choices = DISCONNECT_MODES, .reloadable = true,
	  .help = "When the reader's connection ends: release the guard, or let its lease expire." },
	{ SECTION_GUARD, "mode", OPTION_ENUM, IN_GUARD(mode),
	  .def = "enforce", .choices = RULE_MODES, .reloadable = true,
	  .help = "enforce acts; observe changes nothing, and logs what enforce would prevent: try it first." },
	{ SECTION_GUARD, "except", OPTION_LIST, IN_GUARD(except),
	  .check = table_check_except, .expected = EXCEPT_EXPECTED, .reloadable = true,
	  .help = "Clients whose reads take no guard, such as reports; hasp still checks their writes." },
	{ SECTION_GUARD, "replicas_ack", OPTION_INT, IN_GUARD(replicas_ack),
	  .min = 0, .max = REPLICAS_MAX, .reloadable = true,
	  .help = "How many replicas must have the guard before hasp reads the key; default: as in [upstream]." },
	{ SECTION_GUARD, "replicas_ack_timeout", OPTION_DURATION, IN_GUARD(replicas_ack_timeout_ms),
	  .min = MS, .max = 20 * SECOND, .reloadable = true,
	  .help = "How long hasp waits for the replicas of replicas_ack; default: as in [upstream]." },
	{ SECTION_GUARD, "log_events", OPTION_ENUM, IN_GUARD(events.log_events),
	  .def = "yes", .choices = SWITCHES, .reloadable = true,
	  .help = "Logs each refusal, with the client; at most 10 of a kind in 10 seconds." },
	{ SECTION_GUARD, "log_waited", OPTION_DURATION, IN_GUARD(events.log_waited_ms),
	  .def = "0", .min = 0, .max = LONGEST, .reloadable = true,
	  .help = "Logs guards that a client gets only after waiting for this long or longer; 0: none." },

	/* [quorum NAME] */
	{ SECTION_QUORUM, "servers", OPTION_LIST, IN_QUORUM(servers),
	  .check = table_check_upstream, .expected = SERVERS_EXPECTED, .required = true,
	  .help = "Independent servers, an odd number from 3 to 15; a majority of them grants a lock." },
	{ SECTION_QUORUM, "user", OPTION_STRING, IN_QUORUM(user),
	  .expected = "a user's name",
	  .help = "User that hasp logs in as at each server; default: the default user." },
	{ SECTION_QUORUM, "password", OPTION_STRING, IN_QUORUM(password),
	  .expected = "a password", .secret = true,
	  .help = "Password that hasp sends to each server; default: no login." },
	{ SECTION_QUORUM, "password_file", OPTION_STRING, IN_QUORUM(password_file),
	  .check = table_check_path, .expected = PASSWORD_FILE_EXPECTED,
	  .help = "File with the password in its first line, in place of password." },
	{ SECTION_QUORUM, "tls", OPTION_ENUM, IN_QUORUM(tls.tls),
	  .def = "no", .choices = SWITCHES, .reloadable = true,
	  .help = "Whether hasp uses TLS to these servers; never on unix sockets." },
	SERVER_TLS(SECTION_QUORUM, struct quorum_settings, tls),
	{ SECTION_QUORUM, "timeout", OPTION_DURATION, IN_QUORUM(timeout_ms),
	  .def = "200ms", .min = MS, .max = 20 * SECOND,
	  .help = "How long hasp waits for a server's answer; keep it far below the lease." },
	{ SECTION_QUORUM, "restart_delay", OPTION_DURATION, IN_QUORUM(restart_delay_ms),
	  .min = 0, .max = LONGEST,
	  .help = "How long a server has no vote after its start; default: max_lease. 0: servers vote at once." },
	{ SECTION_QUORUM, "on_lost", OPTION_ENUM, IN_QUORUM(on_lost),
	  .def = "log", .choices = LOST_MODES,
	  .help = "When no majority renews a lock in time: only log it, or close the owner's connection." },

	/* [verbs] */
	{ SECTION_VERBS, "lock", OPTION_STRING, IN_VERBS(names[VERB_LOCK]),
	  .def = "LOCK", .check = value_word_fault, .expected = VERB_EXPECTED, .reloadable = true,
	  .help = "Name of the command that takes a lock; change the name if a module has a command LOCK." },
	{ SECTION_VERBS, "unlock", OPTION_STRING, IN_VERBS(names[VERB_UNLOCK]),
	  .def = "UNLOCK", .check = value_word_fault, .expected = VERB_EXPECTED, .reloadable = true,
	  .help = "Name of the command that releases one hold of a lock." },
	{ SECTION_VERBS, "extend", OPTION_STRING, IN_VERBS(names[VERB_EXTEND]),
	  .def = "LOCK.EXTEND", .check = value_word_fault, .expected = VERB_EXPECTED, .reloadable = true,
	  .help = "Name of the command that sets the lease of the owner's lock." },
	{ SECTION_VERBS, "info", OPTION_STRING, IN_VERBS(names[VERB_INFO]),
	  .def = "LOCK.INFO", .check = value_word_fault, .expected = VERB_EXPECTED, .reloadable = true,
	  .help = "Name of the command that describes the owner of a lock." },
	{ SECTION_VERBS, "list", OPTION_STRING, IN_VERBS(names[VERB_LIST]),
	  .def = "LOCK.LIST", .check = value_word_fault, .expected = VERB_EXPECTED, .reloadable = true,
	  .help = "Name of the command that lists the locks of all clients of this hasp with the caller's Redis user." },
	{ SECTION_VERBS, "mlock", OPTION_STRING, IN_VERBS(names[VERB_MLOCK]),
	  .def = "MLOCK", .check = value_word_fault, .expected = VERB_EXPECTED, .reloadable = true,
	  .help = "Name of the command that takes several locks, all or none." },
	{ SECTION_VERBS, "munlock", OPTION_STRING, IN_VERBS(names[VERB_MUNLOCK]),
	  .def = "MUNLOCK", .check = value_word_fault, .expected = VERB_EXPECTED, .reloadable = true,
	  .help = "Name of the command that releases one hold of each of several locks." },
	{ SECTION_VERBS, "owner", OPTION_ENUM, IN_VERBS(owner),
	  .def = "connection", .choices = VALUELESS_OWNERS,
	  .help = "Which connections count as one owner if a command has no AS." },
	{ SECTION_VERBS, "reentrant", OPTION_ENUM, IN_VERBS(reentrant),
	  .def = "count", .choices = VERBS_REENTRANT_MODES, .reloadable = true,
	  .help = "Whether an owner can take its lock again: count (as with Redisson), refresh (go-zero) or no." },
	{ SECTION_VERBS, "lease", OPTION_DURATION, IN_VERBS(lease_ms),
	  .def = "30s", .min = MS, .max = LONGEST, .reloadable = true,
	  .help = "Lease of a LOCK without PX or EX, which hasp renews while its owner is connected." },
	{ SECTION_VERBS, "max_lease", OPTION_DURATION, IN_VERBS(max_lease_ms),
	  .def = "0", .min = 0, .max = LONGEST, .reloadable = true,
	  .help = "Longest lease of a lock; hasp shortens longer ones. 0: no limit." },
	{ SECTION_VERBS, "max_hold", OPTION_DURATION, IN_VERBS(max_hold_ms),
	  .def = "10m", .min = 0, .max = LONGEST, .reloadable = true,
	  .help = "Renewal ends after this time; 0: no limit." },
	{ SECTION_VERBS, "on_disconnect", OPTION_ENUM, IN_VERBS(on_disconnect),
	  .def = "expire", .choices = DISCONNECT_MODES, .reloadable = true,
	  .help = "When the owner's connection ends: let the lease expire, or release the lock." },
	{ SECTION_VERBS, "on_lost", OPTION_ENUM, IN_VERBS(on_lost),
	  .def = "log", .choices = LOST_MODES, .reloadable = true,
	  .help = "When a renewal finds that the lock is lost: only log it, or close the owner's connection." },
	{ SECTION_VERBS, "replicas_ack", OPTION_INT, IN_VERBS(replicas_ack),
	  .min = 0, .max = REPLICAS_MAX, .reloadable = true,
	  .help = "How many replicas must have the lock; default: as in [upstream]." },
	{ SECTION_VERBS, "replicas_ack_timeout", OPTION_DURATION, IN_VERBS(replicas_ack_timeout_ms),
	  .min = MS, .max = 20 * SECOND, .reloadable = true,
	  .help = "How long hasp waits for the replicas of replicas_ack; default: as in [upstream]." },
	{ SECTION_VERBS, "quorum", OPTION_STRING, IN_VERBS(quorum),
	  .expected = "the NAME of a [quorum NAME]",
	  .help = "NAME of the [quorum NAME] whose servers store the locks; default: [upstream] stores them." },
	LOCK_EVENTS(SECTION_VERBS, struct verbs),

	/* [discover] */
	{ SECTION_DISCOVER, "memory", OPTION_SIZE, IN_CONFIG(discover_memory),
	  .def = "64mb", .min = 1 * MB, .max = 16 * GB, .reloadable = true,
	  .help = "Memory for what hasp records about keys; when the memory is full, hasp watches fewer keys." },
	{ SECTION_DISCOVER, "file", OPTION_STRING, IN_CONFIG(discover_file),
	  .check = table_check_path, .expected = "a path such as /var/log/hasp/discovered.ini", .reloadable = true,
	  .help = "File that hasp writes its proposed sections to, on SIGUSR1 and when hasp ends." },
	{ SECTION_DISCOVER, "examples", OPTION_ENUM, IN_CONFIG(discover_examples),
	  .def = "no", .choices = SWITCHES, .reloadable = true,
	  .help = "Whether each proposed section names one of its keys as an example." },

	/* [http] */
	{ SECTION_HTTP, "listen", OPTION_STRING, IN_CONFIG(http_listen),
	  .check = table_check_listen_http, .expected = "HOST:PORT such as 127.0.0.1:9380",
	  .required = true,
	  .help = "Address where Prometheus and health checks connect; there is no login." },
	{ SECTION_HTTP, "allowed_hosts", OPTION_LIST, IN_CONFIG(http_allowed_hosts),
	  .check = table_check_host, .expected = "names such as hasp.example.com", .reloadable = true,
	  .help = "Host names under which browsers may open the status page, besides addresses and localhost." },

	/* [admin] */
	{ SECTION_ADMIN, "listen", OPTION_LIST, IN_CONFIG(admin_listen),
	  .check = table_check_listen, .expected = LISTEN_EXPECTED, .required = true,
	  .help = "Addresses of the console; only hasp's own user can open a unix socket (mode 0600)." },
	{ SECTION_ADMIN, "password", OPTION_STRING, IN_CONFIG(admin_password),
	  .expected = "a password", .reloadable = true, .secret = true,
	  .help = "Password for the console; required on a TCP port." },
	{ SECTION_ADMIN, "password_file", OPTION_STRING, IN_CONFIG(admin_password_file),
	  .check = table_check_path, .expected = PASSWORD_FILE_EXPECTED, .reloadable = true,
	  .help = "File with the password in its first line, in place of password; read again at each reload." },
};
/* clang-format on */

const size_t table_noptions = sizeof(table_options) / sizeof(table_options[0]);

_Static_assert(sizeof(enum owner_kind) == sizeof(int), "option_set() keeps an enum as int");

static const struct {
	const char *word, *title;
} table_sections[] = {
	[SECTION_HASP] = { "hasp", "[hasp]" },
	[SECTION_UPSTREAM] = { "upstream", "[upstream]" },
	[SECTION_LOCK] = { "lock", "[lock NAME]" },
	[SECTION_GUARD] = { "guard", "[guard NAME]" },
	[SECTION_QUORUM] = { "quorum", "[quorum NAME]" },
	[SECTION_VERBS] = { "verbs", "[verbs]" },
	[SECTION_DISCOVER] = { "discover", "[discover]" },
	[SECTION_HTTP] = { "http", "[http]" },
	[SECTION_ADMIN] = { "admin", "[admin]" },
};

const char *table_section_word(enum section section)
{
	HASP_ASSERT(section < SECTION_NONE);
	return table_sections[section].word;
}

const char *table_section_title(enum section section)
{
	HASP_ASSERT(section < SECTION_NONE);
	return table_sections[section].title;
}

const struct option *table_next(enum section section, const struct option *o)
{
	o = o ? o + 1 : table_options;
	while (o < table_options + table_noptions && o->section != section)
		o++;
	return o < table_options + table_noptions ? o : NULL;
}

const struct option *table_find(enum section section, const char *name)
{
	const struct option *o = NULL;

	while ((o = table_next(section, o)) && strcmp(o->name, name) != 0)
		;
	return o;
}

void table_set_defaults(enum section section, void *base)
{
	struct buf why = BUF_INIT;

	table_clear(section, base);
	for (const struct option *o = NULL; (o = table_next(section, o));) {
		if (o->def) {
			int rc = option_set(o, base, o->def, 0, false, &why);
			HASP_ASSERT(rc == 0);
		} else {
			option_unset(o, base);
		}
	}
	buf_release(&why);
}

void table_inherit(enum section section, void *base, const void *upstream)
{
	for (const struct option *o = NULL; (o = table_next(section, o));)
		if (option_is_unset(o, base))
			option_copy(o, base, table_find(SECTION_UPSTREAM, o->name), upstream);
}

void table_clear(enum section section, void *base)
{
	for (const struct option *o = NULL; (o = table_next(section, o));)
		option_clear(o, base);
}
