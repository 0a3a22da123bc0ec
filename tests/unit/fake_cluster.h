/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fake_cluster: two nodes, each a fake_redis: the test's own fake_redis, which has the clock
 * and the jobs, and a second one.
 *
 *   keys that begin with `a`        the first serves them
 *   all others                      the second, unless it is gone, or the key was moved
 */
#ifndef HASP_TESTS_UNIT_FAKE_CLUSTER_H
#define HASP_TESTS_UNIT_FAKE_CLUSTER_H

#include "tests/unit/fake_redis.h"

struct fake_cluster {
	struct topology topology;
	struct fake_redis *a, *b;
	bool b_is_gone; /* there is no map: the node of each key is unknown */
	const char *moved; /* the first node serves this key, whatever it begins with; NULL: no
	                    * key was moved */
};

/* `a`: initialised; gets the jobs for all nodes. */
void fake_cluster_init(struct fake_cluster *c, struct fake_redis *a);
/* Call it before fake_redis_fini() of `a`. */
void fake_cluster_fini(struct fake_cluster *c);

#endif
