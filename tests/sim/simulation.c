/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/simulation.h"

#include <stdio.h>

#include "tests/sim/faults.h"
#include "tests/sim/history.h"

#define WORK_SECONDS 20
#define FINISH_SECONDS 60
#define REST_SECONDS 30
#define HASP_PORT 6400
#define CONNECT_US (300 * MS)
#define VOTE_LATE_MOST SECOND /* the model's time-out of a vote */
#define FOREVER (3600 * SECOND)

struct simulation_totals simulation_totals;

struct process *simulation_hasp(struct simulation *s, size_t number)
{
	return &s->hasps[number % s->nhasps];
}

int simulation_port(const struct simulation *s, size_t number)
{
	const struct process *p = &s->hasps[number % s->nhasps];

	return p->port + (int)(number / s->nhasps % p->nworkers);
}

static void begin(struct simulation *s, uint64_t seed, const struct model *model)
{
	char name[16];
	bool late;

	world_begin(seed);
	simnet_begin();
	trace("seed %llu model %s", (unsigned long long)seed, model->name);
	server_start(&s->redis, "redis", REDIS_PORT, chance(UINT64_MAX));
	history_begin(s);
	s->nquorum = model->nquorum;
	for (size_t i = 0; i < s->nquorum; i++) {
		snprintf(name, sizeof(name), "vote%u", (unsigned)i);
		server_start(&s->quorum[i], name, REDIS_PORT + 1 + (int)i, chance(UINT64_MAX));
		/* The servers' clocks need not agree. */
		s->quorum[i].machine.date_offset = chance_between(-2000, 2000) * MS;
	}
	late = model->votes_late && chance_one_in(2);
	for (size_t i = 0; i < s->nquorum && late; i++)
		s->quorum[i].machine.late_most = chance_between(0, VOTE_LATE_MOST);
	s->model = model;
	s->nhasps = model->nhasps;
	for (size_t i = 0; i < s->nhasps; i++) {
		snprintf(name, sizeof(name), "hasp%u", (unsigned)i);
		process_init(&s->hasps[i], name, HASP_PORT + (int)i * PROCESS_WORKERS_MAX,
		             model->nworkers, REDIS_PORT, i % 2 ? "session" : "shared",
		             model->ini);
		process_start(&s->hasps[i]);
		/* hasp refuses locks until a majority counts. */
		if (model->nquorum)
			machine_disturb(&s->hasps[i].machine,
			                late ? FOREVER : QUORUM_RESTART_DELAY + CONNECT_US);
	}
	model->begin(s);
}

static void end(struct simulation *s, const struct model *model)
{
	model->end();
	for (size_t i = 0; i < s->nhasps; i++)
		process_fini(&s->hasps[i]);
	for (size_t i = 0; i < s->nquorum; i++)
		server_end(&s->quorum[i]);
	server_end(&s->redis);
	simnet_end();
	world_end();
}

static void check_key(void *arg, struct slice name, int64_t expires_at_ms)
{
	const struct model *model = arg;

	if (!model->may_stay || !model->may_stay(name) ||
	    (slice_starts(name, SLICE_LIT("hasp:owner:")) && !expires_at_ms))
		history_fail("left behind: %.*s, expires at %lld", (int)name.n, name.p,
		             (long long)expires_at_ms);
}

static bool model_is_over(void *arg)
{
	return !((const struct model *)arg)->who_hangs();
}

static void run(struct simulation *s, const struct model *model, bool quiet_world)
{
	if (!quiet_world)
		faults_begin(s);
	world_run(world_now() + WORK_SECONDS * SECOND, NULL, NULL);
	faults_end();
	trace("the faults have ended; clients finish");
	s->closing = true;
	world_run(world_now() + FINISH_SECONDS * SECOND, model_is_over, (void *)model);
	if (model->who_hangs()) {
		history_fail("hangs: %s", model->who_hangs());
		return;
	}
	/* A Redis that is paused may still get commands of a hasp that was killed. */
	if (world_now() < s->redis.machine.paused_until)
		world_run(s->redis.machine.paused_until, NULL, NULL);
	world_run(world_now() + REST_SECONDS * SECOND, NULL, NULL);
	if (model->check)
		model->check(s);
	sim_redis_each(s->redis.redis, check_key, (void *)model);
	for (size_t i = 0; i < s->nquorum; i++)
		sim_redis_each(s->quorum[i].redis, check_key, (void *)model);
}

bool simulation_run(uint64_t seed, const struct simulation_opts *opts)
{
	static struct simulation s;
	const struct model *model = opts->model;
	size_t n = 0;
	bool good;

	while (models[n])
		n++;
	if (!model)
		model = models[seed % n];
	s = (struct simulation){ 0 };
	begin(&s, seed, model);
	run(&s, model, opts->quiet_world);
	good = history_nfailures() == 0;
	simulation_totals.seconds += world_seconds();
	simulation_totals.nfaults += faults_count();
	simulation_totals.ngrants += history_ngrants();
	if (!good)
		printf("%s", history_failures());
	history_end();
	end(&s, model);
	return good;
}
