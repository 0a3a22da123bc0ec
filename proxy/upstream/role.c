/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/role.h"

#include <stdio.h>
#include <string.h>

/* As ROLE words them, and as hasp does. */
static const struct {
	const char *told, *name;
} roles[] = {
	[ROLE_UNKNOWN] = { "", "unknown" },
	[ROLE_MASTER] = { "master", "master" },
	[ROLE_REPLICA] = { "slave", "replica" },
	[ROLE_SENTINEL] = { "sentinel", "sentinel" },
};

enum server_role role_of(const redisReply *reply)
{
	if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
	    reply->element[0]->type != REDIS_REPLY_STRING)
		return ROLE_UNKNOWN;
	for (enum server_role r = ROLE_MASTER; r <= ROLE_SENTINEL; r++)
		if (strcmp(reply->element[0]->str, roles[r].told) == 0)
			return r;
	return ROLE_UNKNOWN;
}

const char *role_name(enum server_role role)
{
	return roles[role].name;
}

bool version_is_too_old(const char *version)
{
	unsigned major, minor;

	return sscanf(version, "%u.%u", &major, &minor) == 2 &&
	       (major < 6 || (major == 6 && minor < 2));
}
