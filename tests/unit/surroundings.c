/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/surroundings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/watch.h"
#include "tests/unit/testing.h"

void surroundings_init(struct surroundings *s, size_t scratch_size)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	*s = (struct surroundings){ .loop = watch_loop_new(EVFLAG_AUTO) };
	stream_flusher_init(&s->flusher, s->loop);
	strcpy(s->dir, "/tmp/hasp-unit-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/s", s->dir);
	s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(s->listener, 64), 0);
	links_init(&s->env);
	s->env.flusher = &s->flusher;
	s->env.dialer = (struct dialer){ .loop = s->loop, .timeout_ms = 10000 };
	s->env.address.local = true;
	s->env.name = "there";
	s->env.clock = clock_now;
	strcpy(s->env.address.host, sun.sun_path);
	s->env.scratch_size = scratch_size;
	s->env.scratch = malloc(scratch_size);
}

double now_s;

static double test_clock(void)
{
	return now_s;
}

void use_test_clock(struct link_env *env)
{
	now_s = 1000;
	env->clock = test_clock;
}

void surroundings_fini(struct surroundings *s)
{
	char path[128];

	links_reap(&s->env);
	close(s->listener);
	snprintf(path, sizeof(path), "%s/s", s->dir);
	unlink(path);
	rmdir(s->dir);
	stream_flusher_fini(&s->flusher);
	watch_loop_free(s->loop);
	free(s->env.scratch);
}
