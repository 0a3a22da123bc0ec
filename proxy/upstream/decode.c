/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/decode.h"

#include <stdio.h>
#include <string.h>

/* Limit of a reply, in bytes. hiredis' reader takes up to 100 bytes of memory for an element of
 * four bytes. The replies to hasp's requests are shorter than a tenth of the limit. */
#define DECODE_MAX ((size_t)2 * 1024 * 1024)

redisReply *reply_decode(struct slice frame)
{
	redisReader *reader = frame.n <= DECODE_MAX ? redisReaderCreate() : NULL;
	void *reply = NULL;

	if (!reader)
		return NULL;
	/* The scanner has checked that the frame is whole and bounded, so no length in it can
	 * make the reader reserve many times its size. */
	if (redisReaderFeed(reader, frame.p, frame.n) != REDIS_OK ||
	    redisReaderGetReply(reader, &reply) != REDIS_OK)
		reply = NULL;
	redisReaderFree(reader);
	return reply;
}

const char *reply_value(const redisReply *reply, const char *name)
{
	if (!reply || reply->type != REDIS_REPLY_ARRAY)
		return NULL;
	for (size_t i = 0; i + 1 < reply->elements; i += 2)
		if (reply->element[i]->type == REDIS_REPLY_STRING &&
		    reply->element[i + 1]->type == REDIS_REPLY_STRING &&
		    strcmp(reply->element[i]->str, name) == 0)
			return reply->element[i + 1]->str;
	return NULL;
}

static bool begins_with_one_of(const char *error, const char *const *codes)
{
	for (; *codes; codes++)
		if (strncmp(error, *codes, strlen(*codes)) == 0)
			return true;
	return false;
}

bool reply_error_is_temporary(const char *error)
{
	static const char *const codes[] = { "LOADING ",    "BUSY ", "MASTERDOWN ", "READONLY ",
		                             "NOREPLICAS ", "OOM ",  "MISCONF ",    NULL };

	return begins_with_one_of(error, codes);
}

bool reply_error_redirects(const char *error)
{
	static const char *const codes[] = { "MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN ",
		                             NULL };

	return begins_with_one_of(error, codes);
}

static const struct {
	const char *word; /* name of the role in the reply to ROLE */
	const char *name; /* name of the role in hasp's log */
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
		if (strcmp(reply->element[0]->str, roles[r].word) == 0)
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

struct slice info_field(struct slice info, const char *name)
{
	struct slice value, word;

	while (slice_cut(&info, '\n', &value)) {
		if (!slice_cut(&value, ':', &word) || !slice_is(word, name))
			continue;
		if (value.n && value.p[value.n - 1] == '\r')
			value.n--;
		return value;
	}
	return SLICE_NONE;
}

bool eviction_read(struct slice info, char policy[EVICTION_POLICY_MAX])
{
	struct slice limit = info_field(info, "maxmemory"),
		     found = info_field(info, "maxmemory_policy");

	*policy = '\0';
	if (!limit.n || !found.n)
		return false;
	if (!slice_is(limit, "0") && !slice_is(found, "noeviction"))
		snprintf(policy, EVICTION_POLICY_MAX, "%.*s", (int)found.n, found.p);
	return true;
}
