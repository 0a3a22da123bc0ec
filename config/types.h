/* SPDX-License-Identifier: BSD-3-Clause
 *
 * types: the contents of the ini file as plain data: struct config, and a struct for each kind
 * of section.
 */
#ifndef HASP_CONFIG_TYPES_H
#define HASP_CONFIG_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* A list of strings, as "a b, c" in the file. */
struct strings {
	char **v;
	size_t *lengths;
	int *lines; /* line of each string in the file; 0: a default */
	size_t n;
};

static inline struct slice strings_at(const struct strings *list, size_t i)
{
	return slice_of(list->v[i], list->lengths[i]);
}

/* The files that a configuration was read from. Lines are numbered through all files, in the
 * order of reading, so that a line's number also identifies its file. */
struct source {
	char *path;
	int first; /* the file's line n has the number `first` + n */
};

struct sources {
	struct source *v;
	size_t n;
};

/* Adds a file whose line n has the number `first` + n. `first` is greater
 * than the number of each earlier line, or 0 for the main file. */
void sources_add(struct sources *s, const char *path, int first);
void sources_clear(struct sources *s);

/* Returns the file that has the line with this number. There must be at least one file. */
const char *sources_path(const struct sources *s, int line);

/* Appends "FILE:LINE" for the line. */
void sources_print(const struct sources *s, int line, struct buf *out);

/* Appends "line LINE", for a message about the line `seen_from`; "FILE:LINE" if the two lines
 * are in different files. */
void sources_print_from(const struct sources *s, int line, int seen_from, struct buf *out);

struct encryption;
struct glob_set;

enum owner_kind {
	OWNER_CONNECTION,
	OWNER_ADDRESS,
	OWNER_NAME,
	OWNER_USER,
	OWNER_VALUE,
};

enum renew_mode { RENEW_NO, RENEW_YES, RENEW_UNLEASED };
enum disconnect_mode { DISCONNECT_EXPIRE, DISCONNECT_RELEASE };
enum foreign_mode { FOREIGN_REFUSE, FOREIGN_ALLOW };
enum reentrant_mode { REENTRANT_NO, REENTRANT_REFRESH, REENTRANT_COUNT };
enum pooling { POOLING_SHARED, POOLING_SESSION };
enum rule_mode { MODE_ENFORCE, MODE_OBSERVE };
enum guard_strategy { STRATEGY_LOCK, STRATEGY_CHECK };
enum switch_mode { SWITCH_NO, SWITCH_YES };
enum lost_mode { LOST_LOG, LOST_CLOSE };

/* The first field of the structs of sections that a file may have several of. */
struct named_section {
	char *name;
	int line; /* where the section begins */
	size_t index; /* position in config.rules, config.guards or config.quorums */
	struct strings patterns; /* Redis globs, at least one; a quorum has none */
};

/* Lines of the options that name TLS files; 0: not set. */
struct tls_lines {
	int cert, key, ca_cert;
};

/* How connections to servers are encrypted, except those to unix sockets. */
struct server_tls {
	enum switch_mode tls;
	int line; /* line of `tls`; 0: not set */
	struct tls_lines files;
	char *ca_cert_file; /* CAs of the servers' certificates; NULL: the system's CAs */
	char *cert_file, *key_file; /* hasp's certificate and key; NULL: none */
	char *server_name; /* expected name in a certificate; NULL: the host that hasp dials */
	enum switch_mode verify;
};

/* The events of an enforced section that hasp logs. */
struct event_settings {
	enum switch_mode log_events;
	int64_t log_held_ms; /* hasp logs a lock that was held for at least this long; 0: never.
	                      * Guards always have 0 */
	int64_t log_waited_ms; /* hasp logs a wait that was at least this long; 0: never */
};

/* One [lock NAME] section. */
struct rule {
	struct named_section section;
	enum owner_kind owner;
	int64_t lease_ms; /* > 0 */
	int64_t max_lease_ms; /* 0: no limit; else >= lease_ms */
	int64_t wait_ms; /* how long a failed try waits; 0: not at all */
	int64_t max_hold_ms; /* renewal stops after this time; 0: no limit */
	enum renew_mode renew;
	enum disconnect_mode on_disconnect;
	enum lost_mode on_lost;
	enum reentrant_mode reentrant; /* only NO or REFRESH */
	enum foreign_mode foreign_del; /* with owner = value: whether a connection that does not
	                                * know the lock's value may delete or change the lock */
	enum rule_mode mode;
	int64_t replicas_ack; /* replicas that must have a lock before it is granted; 0: none */
	int64_t replicas_ack_timeout_ms; /* > 0 */
	char *quorum; /* name of the quorum that has the locks; NULL: [upstream] has them */
	struct event_settings events;
};

/* One [guard NAME] section. */
struct guard {
	struct named_section section;
	enum guard_strategy strategy;
	struct strings acquire_on; /* commands' names, at least one */
	struct strings release_on; /* commands' names; empty: writes not in acquire_on */
	struct strings except; /* clients whose reads take no guard: name:GLOB, user:GLOB,
	                        * listener:ADDRESS */
	/* With STRATEGY_CHECK, hasp ignores the options from here to `on_disconnect`, and
	 * `release_on` and `replicas_ack`. */
	int64_t lease_ms; /* > 0 */
	int64_t wait_ms; /* how long a command waits for the guard; 0: it does not */
	enum disconnect_mode on_disconnect;
	enum rule_mode mode;
	int64_t replicas_ack, replicas_ack_timeout_ms; /* as in struct rule */
	struct event_settings events;
};

/* One [quorum NAME] section. */
struct quorum_settings {
	struct named_section section;
	struct strings servers; /* HOST:PORT, [V6]:PORT or unix:/PATH; an odd number from 3
	                         * on */
	char *user; /* user of hasp's login at the servers; NULL: none */
	char *password; /* NULL: none; also read from password_file */
	char *password_file; /* NULL: none */
	struct server_tls tls;
	int64_t timeout_ms; /* limit for a server's answer; > 0 */
	int64_t restart_delay_ms; /* a server younger than this does not vote; 0: every server
	                           * votes */
	enum lost_mode on_lost;
};

enum verb {
	VERB_LOCK,
	VERB_UNLOCK,
	VERB_EXTEND,
	VERB_INFO,
	VERB_LIST,
	VERB_MLOCK,
	VERB_MUNLOCK,
};
#define VERB_COUNT (VERB_MUNLOCK + 1)
extern const char *const verb_options[VERB_COUNT]; /* the options that name the verbs */

/* The [verbs] section. */
struct verbs {
	bool enabled; /* the file has the section */
	int line;
	char *names[VERB_COUNT]; /* names of the commands, indexed by enum verb */
	int name_lines[VERB_COUNT]; /* the lines of these options; 0: a default */
	enum owner_kind owner; /* any but VALUE */
	enum reentrant_mode reentrant; /* the layout: COUNT, REFRESH or NO */
	int64_t lease_ms;
	int64_t max_lease_ms; /* 0: no limit */
	int64_t max_hold_ms; /* 0: no limit */
	enum disconnect_mode on_disconnect;
	enum lost_mode on_lost;
	int64_t replicas_ack, replicas_ack_timeout_ms; /* as in struct rule */
	char *quorum; /* name of the quorum that has the locks; NULL: [upstream] has them */
	struct event_settings events;
};

enum auth_clients { AUTH_CLIENTS_NO, AUTH_CLIENTS_OPTIONAL, AUTH_CLIENTS_YES };
enum log_as { LOG_AS_LOGFMT, LOG_AS_JSON };
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct config {
	struct sources sources; /* the files that the configuration was read from, in the order
	                         * of `include`; none: defaults only */

	/* [hasp] */
	struct strings include; /* paths as in the file; their last part may be a glob */
	struct strings listen; /* HOST:PORT, [V6]:PORT, *:PORT, unix:/PATH */
	struct strings listen_tls; /* addresses, but no unix: ones; empty: hasp does not listen
	                            * for TLS */
	char *tls_cert_file, *tls_key_file; /* certificate and key of listen_tls; NULL: none */
	char *tls_ca_cert_file; /* CAs of clients' certificates; NULL: the system's CAs */
	struct tls_lines tls_files;
	enum auth_clients tls_auth_clients;
	char *tls_protocols, *tls_ciphers, *tls_ciphersuites; /* NULL: the library's choice */
	struct strings proxy_protocol; /* networks of load balancers; empty: none */
	int64_t unix_socket_mode; /* permission bits of unix sockets */
	int64_t workers; /* threads, >= 1 */
	int64_t backlog; /* argument of listen(2) */
	int64_t max_clients; /* limit for all workers together */
	int64_t client_idle_timeout_ms; /* 0: no limit */
	int64_t client_login_timeout_ms; /* 0: no limit */
	int64_t tcp_keepalive_ms; /* in whole seconds; 0: off */
	int64_t max_request; /* longest request that hasp buffers, in bytes */
	int64_t client_output_limit; /* bytes of unread replies kept for a client */
	int64_t memory_limit; /* limit in bytes, for all clients and workers */
	int64_t drain_timeout_ms; /* how long SIGTERM waits for busy clients */
	int64_t lame_duck_ms; /* how long hasp still accepts clients after SIGTERM */
	enum switch_mode allow_reserved_keys; /* clients may write hasp:* */
	char *log; /* stderr, syslog, or a file's path */
	enum log_level log_level;
	enum log_as log_format;

	/* [upstream] */
	char *address; /* HOST:PORT, [V6]:PORT or unix:/PATH; the first node of `cluster`; not
	                * used if there is a master */
	struct strings sentinels; /* addresses; empty: there is one server, at `address` */
	char *master; /* the primary's name at the sentinels; NULL: there are none */
	char *sentinel_user; /* user of hasp's login at sentinels; NULL: none */
	char *sentinel_password; /* NULL: none; also read from sentinel_password_file */
	char *sentinel_password_file; /* NULL: none */
	int64_t failover_wait_ms; /* how long clients wait for a primary; 0: not at all */
	struct strings cluster; /* HOST:PORT or [V6]:PORT of some nodes; empty: Redis is not a
	                         * cluster */
	char *upstream_user; /* user of hasp's own connections; NULL: none */
	char *upstream_password; /* NULL: none; also read from password_file or printed by
	                          * password_command */
	char *upstream_password_file; /* NULL: none */
	char *password_command; /* command that prints upstream_password; NULL: none */
	int password_command_line;
	int64_t password_command_interval_ms; /* 0: only at loads and after refused logins */
	struct server_tls upstream_tls; /* TLS for servers, sentinels and nodes */
	enum pooling pooling;
	int64_t links_per_worker; /* shared links for each login, >= 1 */
	int64_t connect_timeout_ms; /* limit for resolving and connecting together */
	int64_t links_max; /* limit of all workers' links to one server; 0: no limit */
	int64_t dns_max_ttl_ms; /* 0: hasp resolves a name only to make a link */
	int64_t server_check_delay_ms; /* 0: no checks */
	int64_t server_timeout_ms; /* 0: no limit */
	int64_t tcp_user_timeout_ms; /* 0: the kernel's default */
	int64_t replicas_ack,
		replicas_ack_timeout_ms; /* defaults for sections without these options */

	/* [discover] */
	bool discover; /* the file has the section, or hasp was started with --discover */
	int discover_line;
	bool discover_alone; /* hasp --discover: the configuration has no rules */
	int64_t discover_memory; /* limit, in bytes */
	char *discover_file; /* NULL: none */
	enum switch_mode discover_examples;

	/* [http] */
	char *http_listen; /* HOST:PORT, [V6]:PORT, *:PORT; NULL: none */
	int http_line; /* line of `http_listen` */
	struct strings http_allowed_hosts; /* names, as browsers write them in Host: */

	/* [admin] */
	struct strings admin_listen; /* HOST:PORT, [V6]:PORT, unix:/PATH; none: no console */
	char *admin_password; /* NULL: none; also read from admin_password_file */
	char *admin_password_file; /* NULL: none */

	struct rule **rules; /* in the file's order: the first that matches wins */
	size_t nrules;
	struct guard **guards; /* in the file's order: the first that matches wins */
	size_t nguards;
	struct quorum_settings **quorums; /* in the file's order */
	size_t nquorums;
	struct glob_set *patterns; /* patterns of all rules and guards (match.c); NULL: all
	                            * settings have their defaults */
	uint8_t may_match[256]; /* flags of match_possible(), by the first byte of a key */
	struct verbs verbs;

	/* The contents of the files that tls_* name, which proxy/worker/encryption.h reads, and
	 * the function that frees them; NULL: none. */
	struct encryption *encryption;
	void (*free_encryption)(struct encryption *e);

	/* Set by config_with_password(): the configuration that owns everything but the
	 * password. */
	struct config *renews;

	_Atomic int refs;
};

#endif
