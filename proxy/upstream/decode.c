/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/decode.h"

#include <string.h>

/* The reader takes up to 100 bytes for each element, and an element has four bytes at least.
 * The replies to hasp's requests are shorter than a tenth of this. */
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
		                             "NOREPLICAS ", "OOM ",  NULL };

	return begins_with_one_of(error, codes);
}

bool reply_error_redirects(const char *error)
{
	static const char *const codes[] = { "MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN ",
		                             NULL };

	return begins_with_one_of(error, codes);
}
