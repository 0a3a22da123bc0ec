/* SPDX-License-Identifier: BSD-3-Clause
 *
 * server: a Redis on a machine of its own, which listens on the simnet.
 */
#ifndef HASP_TESTS_SIM_SERVER_H
#define HASP_TESTS_SIM_SERVER_H

#include <hiredis/hiredis.h>

#include "base/list.h"
#include "tests/sim/simnet.h"
#include "tests/sim/redis.h"
#include "tests/sim/world.h"

/* Appends a request of words divided by single blanks. */
void request_words(struct buf *out, struct slice words);

struct server {
	struct machine machine;
	struct service service;
	struct sim_redis *redis;
	struct list connections;
	struct event back; /* when the server starts again */
	int64_t data_lost_at; /* world_now(): its last restart without data; -1: never */
	int port;
};

void server_start(struct server *s, const char *name, int port, uint64_t seed);
void server_end(struct server *s);
/* Ends the server at once, and starts it again after `down_us`. */
void server_restart(struct server *s, bool keep_data, int64_t down_us);
/* True if the server is up. */
bool server_is_up(const struct server *s);
/* Carries out a command at once, past the network, of words divided by single blanks, in which
 * `arg` takes the place of %s. The caller frees the reply. */
redisReply *server_ask(struct server *s, const char *command, const char *arg);

#endif
