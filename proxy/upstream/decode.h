/* SPDX-License-Identifier: BSD-3-Clause
 *
 * decode: decodes replies to hasp's own requests by hiredis' reader, and reads facts about a
 * server from them: its role, its version, whether it evicts keys.
 */
#ifndef HASP_UPSTREAM_DECODE_H
#define HASP_UPSTREAM_DECODE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "base/slice.h"

/* Decodes a whole reply. The caller frees the result with freeReplyObject(). NULL: hiredis
 * cannot decode the frame, or it is too long. An empty `frame` was too long to capture. */
redisReply *reply_decode(struct slice frame);

/* Returns a field's value in a reply of names and values in turn, if both are strings; NULL:
 * the reply, which may be NULL, lacks the field. */
const char *reply_value(const redisReply *reply, const char *name);

/* True if the same request may succeed later, because Redis loads its data, runs a long script,
 * or is a replica now, for example. `error`: without the dash. */
bool reply_error_is_temporary(const char *error);

/* True if the error means that this node of a cluster refused the request because another node
 * serves the keys, or no node does at the moment. */
bool reply_error_redirects(const char *error);

/* Returns the value of the line `name:value` in INFO's reply; empty: there is no such line. */
struct slice info_field(struct slice info, const char *name);

/* --- role --- */

/* The role that a server reports. Source: https://redis.io/commands/role */

enum server_role {
	ROLE_UNKNOWN, /* the server did not report a role, or an ACL forbids ROLE */
	ROLE_MASTER,
	ROLE_REPLICA,
	ROLE_SENTINEL,
};

/* Reads the reply to ROLE, which may be an error, or NULL. */
enum server_role role_of(const redisReply *reply);
/* Returns a word for logs: "master", "replica", "sentinel", "unknown". */
const char *role_name(enum server_role role);

/* --- version --- */

/* The oldest server that hasp supports. Valkey 7.2 reports itself as Redis 7.2. */
#define SERVER_NEEDED "hasp needs Redis 6.2 or Valkey 7.2"

/* True if hasp does not support servers of this version, such as "6.0.16" in HELLO or INFO.
 * False if `version` is not a version. */
bool version_is_too_old(const char *version);

/* --- eviction --- */

/* A server that evicts keys when its memory is full can remove a lock, or the record of its
 * owner. Source: https://redis.io/docs/reference/eviction/ */

/* The hint to the operator, in the log and in `hasp -t`. */
#define EVICTION_HINT "set maxmemory-policy noeviction, or keep locks on another Redis"

/* Space for the name of a policy, in bytes. */
#define EVICTION_POLICY_MAX 32

/* Reads the reply to INFO memory, and writes the policy to `policy`; "": no eviction, or not
 * reported. Returns false if it is not reported. */
bool eviction_read(struct slice info, char policy[EVICTION_POLICY_MAX]);

#endif
