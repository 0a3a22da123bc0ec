/* SPDX-License-Identifier: BSD-3-Clause
 *
 * role: what a server says that it is. Source: https://redis.io/commands/role
 */
#ifndef HASP_UPSTREAM_ROLE_H
#define HASP_UPSTREAM_ROLE_H

#include <hiredis/hiredis.h>

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

#endif
