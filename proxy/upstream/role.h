/* SPDX-License-Identifier: BSD-3-Clause
 *
 * role: what a server says of itself: its role and its version. Sources:
 * https://redis.io/commands/role, https://redis.io/commands/hello
 */
#ifndef HASP_UPSTREAM_ROLE_H
#define HASP_UPSTREAM_ROLE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

enum server_role {
	ROLE_UNKNOWN, /* it did not say, or an ACL forbids it to */
	ROLE_MASTER,
	ROLE_REPLICA,
	ROLE_SENTINEL,
};

/* `reply`: to ROLE; may be an error, or NULL. */
enum server_role role_of(const redisReply *reply);
/* For logs: "master", "replica", "sentinel", "unknown". */
const char *role_name(enum server_role role);

/* The oldest server that hasp supports. Valkey 7.2 reports itself as Redis 7.2. */
#define SERVER_NEEDED "hasp needs Redis 6.2 or Valkey 7.2"

/* `version`: "6.0.16", as HELLO and INFO report it. True if hasp does not support that server.
 * False for anything that is not such a number. */
bool version_is_too_old(const char *version);

#endif
