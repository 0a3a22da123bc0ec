/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fatal.h"
#include "config/config.h"
#include "tests/sim/loop.h"

#define DRAIN_LOOK_US (20 * MS)

static void on_next(struct event *e);

/* Loads a configuration from memory, because hasp reads a file. */
static struct config *load(const char *text)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	int fd = memfd_create("hasp.ini", 0);
	struct config *config;
	char path[64];

	HASP_ASSERT(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	config = config_load(path, &faults, &warnings);
	close(fd);
	if (!config)
		fprintf(stderr, "%s\n%.*s", text, (int)buf_len(&faults), buf_head(&faults));
	HASP_ASSERT(config);
	buf_release(&faults);
	buf_release(&warnings);
	return config;
}

void process_init(struct process *p, const char *name, int port, size_t nworkers,
                  int redis_port, const char *pooling, const char *ini)
{
	memset(p, 0, sizeof(*p));
	machine_init(&p->machine, name);
	p->port = port;
	p->nworkers = nworkers;
	p->next = (struct event){ .run = on_next, .machine = &p->machine };
	buf_printf(
		&p->text,
		"[hasp]\nworkers = %zu\n[upstream]\naddress = 10.0.0.1:%d\npooling = %s\n%s%c",
		nworkers, redis_port, pooling, ini, '\0');
	p->config = load(buf_head(&p->text));
}

void process_start(struct process *p)
{
	struct machine *before = world_enter(&p->machine);

	trace("starts");
	memset(&p->shared, 0, sizeof(p->shared));
	workers_init(&p->shared, p->config);
	for (size_t i = 0; i < p->nworkers; i++) {
		struct listen_socket *s = &p->sockets[i];

		p->services[i] = (struct service){ .machine = &p->machine };
		*s = (struct listen_socket){ .entry = { "sim", LISTEN_PLAIN }, .worker = i };
		s->fd = simnet_listen_fd(p->port + (int)i, &p->services[i]);
		HASP_ASSERT(worker_start(worker_new((int)i, p->config, s, 1, &p->shared)) == 0);
	}
	HASP_ASSERT(workers_watch(&p->shared, p->config) == 0);
	loops_start(&p->machine);
	p->is_up = true;
	p->starts++;
	world_enter(before);
}

static void end(struct process *p)
{
	struct machine *before = world_enter(&p->machine);

	p->machine.died_at = world_now();
	workers_end_watch(&p->shared);
	for (size_t i = 0; i < p->nworkers; i++)
		worker_join(p->shared.workers[i]);
	workers_fini(&p->shared);
	p->is_up = false;
	trace("has ended");
	world_enter(before);
}

static void start_in(struct process *p, int64_t down_us)
{
	if (down_us >= 0)
		world_schedule_in(&p->next, down_us);
	else
		world_cancel(&p->next);
}

static void is_running(void *arg, struct ev_loop *loop)
{
	*(size_t *)arg += loop_is_over(loop);
}

/* The process has been down for long enough, or it drains. */
static void on_next(struct event *e)
{
	struct process *p = container_of(e, struct process, next);
	size_t nover = 0;

	if (!p->is_up) {
		process_start(p);
		return;
	}
	loops_each(&p->machine, is_running, &nover);
	if (nover < p->nworkers) {
		if (world_now() + DRAIN_LOOK_US >= p->closes_at)
			machine_disturb(&p->machine, 2 * DRAIN_LOOK_US);
		world_schedule_in(&p->next, DRAIN_LOOK_US);
		return;
	}
	end(p);
	start_in(p, p->down_us);
}

void process_reload(struct process *p)
{
	struct machine *before = world_enter(&p->machine);
	struct config *next = load(buf_head(&p->text));

	trace("reloads its configuration");
	for (size_t i = 0; i < p->nworkers; i++)
		worker_reload(p->shared.workers[i], next);
	workers_reload_watcher(&p->shared, next);
	config_unref(p->config);
	p->config = next;
	world_enter(before);
}

void process_leave(struct process *p, int64_t down_us)
{
	struct machine *before = world_enter(&p->machine);

	trace("drains");
	for (size_t i = 0; i < p->nworkers; i++)
		worker_drain(p->shared.workers[i]);
	p->down_us = down_us;
	p->closes_at = world_now() + p->config->drain_timeout_ms * MS;
	world_schedule_in(&p->next, DRAIN_LOOK_US);
	world_enter(before);
}

static void cut(void *arg, struct sock *s)
{
	(void)arg;
	sock_cut(s);
}

void process_kill(struct process *p, int64_t down_us)
{
	struct machine *before = world_enter(&p->machine);

	trace("is killed");
	/* Bytes that the process sends while it is taken apart arrive nowhere. */
	simnet_each(&p->machine, cut, NULL);
	for (size_t i = 0; i < p->nworkers; i++)
		worker_stop(p->shared.workers[i]);
	end(p);
	start_in(p, down_us);
	world_enter(before);
}

void process_fini(struct process *p)
{
	if (p->is_up)
		process_kill(p, -1);
	world_cancel(&p->next);
	config_unref(p->config);
	buf_release(&p->text);
}
