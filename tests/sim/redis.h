/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redis: a stand-in for a Redis server 7.0, in memory and without sockets. It keeps keys with
 * expiry in 16 databases, runs Lua scripts, and knows pub/sub, transactions and the commands
 * that hasp, its scripts and the simulation's clients send. The caller gives it the time and
 * the bytes, and gets the replies at once: the same calls make the same replies, byte for byte.
 * tests/sim/check_redis compares it with a real redis-server.
 *
 * It does not know: replication streams (see sim_redis_copy()), blocking commands (WAIT answers
 * at once), streams, bitmaps, functions, tracking, keyspace notifications, ACL rules, eviction.
 */
#ifndef HASP_TESTS_SIM_REDIS_H
#define HASP_TESTS_SIM_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct sim_redis; /* a server */
struct sim_redis_conn; /* a connection to it */

/* `now_us` returns the time of the server's machine, in microseconds since 1970. `seed` makes
 * its run id. */
struct sim_redis *sim_redis_new(int64_t (*now_us)(void *arg), void *arg, uint64_t seed);
/* Connections must be gone. */
void sim_redis_free(struct sim_redis *s);

/* `send` gets each reply and each push when it is made; it must not call back. `closed` is
 * called once if the server closes the connection. Do not use the connection after that. */
struct sim_redis_conn *sim_redis_connect(struct sim_redis *s,
                                         void (*send)(void *arg, const char *p, size_t n),
                                         void (*closed)(void *arg), void *arg);
/* Runs the requests that are complete by these bytes, in order, and keeps the rest. */
void sim_redis_receive(struct sim_redis_conn *c, const char *p, size_t n);
/* The client has closed; `closed` is not called. */
void sim_redis_disconnect(struct sim_redis_conn *c);

/* All connections are closed, and the scripts and the run id are lost; without `keep_data` the
 * keys are lost, too. */
void sim_redis_restart(struct sim_redis *s, bool keep_data);
/* The password of the default user; NULL: it needs none. */
void sim_redis_set_password(struct sim_redis *s, const char *password);
/* `to` gets all keys of `from` instead of its own. */
void sim_redis_copy(const struct sim_redis *from, struct sim_redis *to);

/* Deletes the keys of database 0 that have expired, then calls `key` for the others, in the
 * order of their names. expires_at_ms is 0 for a key that does not expire. */
void sim_redis_each(struct sim_redis *s,
                    void (*key)(void *arg, struct slice name, int64_t expires_at_ms),
                    void *arg);

#endif
