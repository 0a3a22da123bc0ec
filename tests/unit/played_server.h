/* SPDX-License-Identifier: BSD-3-Clause
 *
 * played_server: a server at the surroundings' socket that the test plays by hand. Nothing here
 * sleeps: the loop runs until the awaited event, and the test fails if no event comes for long.
 */
#ifndef HASP_TESTS_UNIT_PLAYED_SERVER_H
#define HASP_TESTS_UNIT_PLAYED_SERVER_H

#include <stdbool.h>

#include "tests/unit/surroundings.h"

struct played_server {
	struct surroundings *at;
	int fd; /* the connection; -1: none */
};

void played_server_init(struct played_server *s, struct surroundings *at);
void played_server_fini(struct played_server *s);

/* Runs the loop until an event has come. */
void played_server_step(struct played_server *s);
/* Runs the loop until it has no more work. */
void played_server_settle(struct played_server *s);

/* Returns true if a connection waits to be accepted. */
bool played_server_is_dialled(const struct played_server *s);
/* Runs the loop until a connection arrives, and accepts it. */
void played_server_accept(struct played_server *s);
/* Runs the loop until these bytes have arrived; fails if others arrive. */
void played_server_expect(struct played_server *s, const char *bytes);
/* Sends the bytes, and runs the loop until it has no more work. */
void played_server_send(struct played_server *s, const char *bytes);
/* Closes the connection, and runs the loop until it has no more work. */
void played_server_close(struct played_server *s);

#endif
