/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/decode.h"

redisReply *reply_decode(struct slice frame)
{
	redisReader *reader = redisReaderCreate();
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
