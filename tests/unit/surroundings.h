/* SPDX-License-Identifier: BSD-3-Clause
 *
 * surroundings: the objects that a link needs around it, and the socket of a server that the
 * test plays.
 */
#ifndef HASP_TESTS_UNIT_SURROUNDINGS_H
#define HASP_TESTS_UNIT_SURROUNDINGS_H

#include "upstream/link.h"

struct surroundings {
	struct ev_loop *loop;
	struct stream_flusher flusher;
	struct link_env env;
	char dir[64];
	int listener; /* on a unix socket, to which env.address leads */
};

void surroundings_init(struct surroundings *s, size_t scratch_size);
/* Call it when all links are closed. */
void surroundings_fini(struct surroundings *s);

/* The environment then takes the time from `now_s`, which begins at 1000 and only the test
 * advances. */
void use_test_clock(struct link_env *env);
extern double now_s;

#endif
