/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of upstream/sync_query.c: a server's answer is reported once, in whatever order the
 * answer and the end of the connection arrive.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/surroundings.h"
#include "tests/unit/testing.h"
#include "upstream/sync_query.h"

/* In about one of a hundred queries, hasp writes the request after the server has closed. */
#define NASKED 3000

/* Refuses each connection as Redis does at maxclients: sends the error, and closes without
 * reading. */
static void *refuse(void *arg)
{
	const struct surroundings *s = arg;
	const char says[] = "-ERR go away\r\n";

	for (int i = 0; i < NASKED; i++) {
		int fd = accept(s->listener, NULL, NULL);
		if (fd < 0 || write(fd, says, sizeof(says) - 1) < 0)
			abort();
		close(fd);
	}
	return NULL;
}

static size_t on_commands(void *arg, const redisReply *reply)
{
	(void)arg;
	(void)reply;
	return 0;
}

TEST(a_refusal_is_the_only_reason)
{
	struct surroundings s;
	pthread_t server;

	surroundings_init(&s, 1024);
	assert_int_equal(pthread_create(&server, NULL, refuse, &s), 0);
	for (int i = 0; i < NASKED; i++) {
		struct ask opts = { .address = s.env.address, .timeout_ms = 60000 };
		struct buf why = BUF_INIT;
		assert_int_equal(ask_commands(&opts, on_commands, NULL, &why), -1);
		assert_int_equal(buf_len(&why), strlen("ERR go away"));
		assert_memory_equal(buf_slice(&why).p, "ERR go away", buf_len(&why));
		buf_release(&why);
	}
	pthread_join(server, NULL);
	surroundings_fini(&s);
}
