/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/faults.h"

#include "base/fatal.h"
#include "tests/sim/history.h"

#define PAUSE_LEAST (5 * MS)
#define PAUSE_MOST (12 * SECOND)
#define DOWN_LEAST (5 * MS)
#define DOWN_MOST (3 * SECOND)
#define KINDS_PER_SEED 3

static struct {
	struct simulation *world;
	struct event next;
	unsigned kinds; /* bits: kinds of faults that this seed has */
	int64_t most; /* longest time between two faults */
	uint64_t count;
} faults;

static int64_t length(void)
{
	return chance_delay(PAUSE_LEAST, PAUSE_MOST);
}

static struct process *any_hasp(void)
{
	return &faults.world->hasps[chance(faults.world->nhasps)];
}

/* Disturbs everything that depends on Redis. */
static void disturb_all(int64_t us)
{
	machine_disturb(&faults.world->redis.machine, us + FAULTS_RECOVERY);
	for (size_t i = 0; i < faults.world->nhasps; i++)
		machine_disturb(&faults.world->hasps[i].machine, us + FAULTS_RECOVERY);
}

/* Disturbs the hasps that take locks at a server of the quorum, which is down for `us`. */
static void disturb_votes(int64_t us)
{
	int64_t until = world_now() + us + QUORUM_RESTART_DELAY + FAULTS_RECOVERY;

	disturb_all(us);
	for (size_t i = 0; i < faults.world->nhasps; i++) {
		struct machine *m = &faults.world->hasps[i].machine;

		if (m->uncounted_until < until)
			m->uncounted_until = until;
	}
}

static void disturb_ends(struct sock *s, int64_t us)
{
	machine_disturb(sock_machine(s), us + FAULTS_RECOVERY);
	machine_disturb(sock_machine(sock_peer(s)), us + FAULTS_RECOVERY);
}

/* --- kinds -------------------------------------------------------------------------------- */

/* Requests that a hasp has not sent to Redis concern the clients of other hasps, too. */
static void pause_machine(struct machine *m)
{
	int64_t us = length();

	trace("FAULT %s is paused for %lld ms", m->name, (long long)(us / MS));
	machine_pause(m, us);
	disturb_all(us);
}

static void pause_hasp(void)
{
	pause_machine(&any_hasp()->machine);
}

static struct server *any_server(void)
{
	size_t n = chance(faults.world->nquorum + 1);

	return n ? &faults.world->quorum[n - 1] : &faults.world->redis;
}

static void pause_server(void)
{
	pause_machine(&any_server()->machine);
}

static struct sock *any_connection(const struct machine *m)
{
	size_t n = simnet_count(m);

	return n ? simnet_pick(m, chance(n)) : NULL;
}

static void cut_one(void)
{
	struct sock *s = any_connection(NULL);

	if (!s)
		return;
	trace("FAULT %s - %s is cut", sock_name(s), sock_name(sock_peer(s)));
	disturb_ends(s, 0);
	sock_cut(s);
}

static void cut(void *arg, struct sock *s)
{
	(void)arg;
	sock_cut(s);
}

static void cut_server(void)
{
	struct machine *m = &any_server()->machine;

	trace("FAULT all connections of %s are cut", m->name);
	simnet_each(m, cut, NULL);
	disturb_all(0);
}

static void stall_one(void)
{
	struct sock *s = any_connection(NULL);
	int64_t us = length();

	if (!s)
		return;
	trace("FAULT %s - %s is held up for %lld ms", sock_name(s), sock_name(sock_peer(s)),
	      (long long)(us / MS));
	disturb_ends(s, us);
	sock_stall(s, world_now() + us);
}

static void stall(void *arg, struct sock *s)
{
	const int64_t *until = arg;

	/* Clients, too, get their answers late. */
	disturb_ends(s, *until - world_now());
	sock_stall(s, *until);
}

static void stall_servers(void *arg, struct sock *s)
{
	const struct machine *peer = sock_machine(sock_peer(s));

	for (size_t i = 0; i < faults.world->nquorum; i++)
		if (peer == &faults.world->quorum[i].machine)
			stall(arg, s);
}

/* With a quorum, at times only the votes come late: clients get their answers in time. */
static void stall_hasp(void)
{
	struct machine *m = &any_hasp()->machine;
	int64_t us = length(), until = world_now() + us;
	bool votes_only = faults.world->nquorum && !chance_one_in(3);

	trace("FAULT the network of %s%s is held up for %lld ms", m->name,
	      votes_only ? " to the quorum" : "", (long long)(us / MS));
	simnet_each(m, votes_only ? stall_servers : stall, &until);
	machine_stall(m, us);
	disturb_all(us);
}

static void cut_subscribers(void)
{
	trace("FAULT CLIENT KILL TYPE pubsub");
	freeReplyObject(server_ask(&faults.world->redis, "CLIENT KILL TYPE pubsub", NULL));
	disturb_all(0);
}

static void forget_scripts(void)
{
	trace("FAULT SCRIPT FLUSH");
	freeReplyObject(server_ask(&faults.world->redis, "SCRIPT FLUSH", NULL));
}

static void restart_server(void)
{
	int64_t us = chance_delay(DOWN_LEAST, DOWN_MOST);
	struct server *s = any_server();

	if (!server_is_up(s))
		return;
	trace("FAULT %s is restarted with its data, down for %lld ms", s->machine.name,
	      (long long)(us / MS));
	server_restart(s, true, us);
	s == &faults.world->redis ? disturb_all(us) : disturb_votes(us);
}

/* One server of a quorum then does not count for a while. */
static void empty_vote(int64_t us)
{
	struct server *s = &faults.world->quorum[chance(faults.world->nquorum)];

	if (!server_is_up(s))
		return;
	trace("FAULT %s is restarted without data, down for %lld ms", s->machine.name,
	      (long long)(us / MS));
	server_restart(s, false, us);
	disturb_votes(us);
}

static void empty_server(void)
{
	int64_t us = chance_delay(DOWN_LEAST, DOWN_MOST);

	if (faults.world->nquorum) {
		empty_vote(us);
		return;
	}
	if (!server_is_up(&faults.world->redis) || faults.world->model->needs_data)
		return;
	if (chance_one_in(3)) {
		trace("FAULT FLUSHALL");
		history_data_lost();
		freeReplyObject(server_ask(&faults.world->redis, "FLUSHALL", NULL));
		disturb_all(0);
		return;
	}
	trace("FAULT redis is restarted without data, down for %lld ms", (long long)(us / MS));
	history_data_lost();
	server_restart(&faults.world->redis, false, us);
	disturb_all(us);
}

static void kill_hasp(void)
{
	struct process *p = any_hasp();
	int64_t us = chance_delay(DOWN_LEAST, DOWN_MOST);

	if (!p->is_up || p->machine.paused_until > world_now())
		return;
	disturb_all(us);
	process_kill(p, us);
}

static void drain_hasp(void)
{
	struct process *p = any_hasp();
	int64_t us = chance_delay(DOWN_LEAST, DOWN_MOST);

	if (!p->is_up || p->next.place || p->machine.paused_until > world_now())
		return;
	disturb_all(us + 10 * SECOND);
	process_leave(p, us);
}

static void reload_hasp(void)
{
	struct process *p = any_hasp();

	if (p->is_up && !p->next.place && p->machine.paused_until <= world_now())
		process_reload(p);
}

static void set_date(void)
{
	struct machine *m = &any_hasp()->machine;

	m->date_offset = chance_between(-4000, 4000) * SECOND;
	trace("FAULT the date of %s is off by %lld s", m->name,
	      (long long)(m->date_offset / SECOND));
}

/* Redis' date is only set back: set forward, it ends leases at once, and hasp cannot prevent
 * that. */
static void set_redis_back(void)
{
	struct machine *m = &faults.world->redis.machine;

	m->date_offset -= chance_between(1, 500) * MS;
	trace("FAULT the date of redis is set back to %lld ms",
	      (long long)(m->date_offset / MS));
}

static void (*const kinds[])(void) = {
	pause_hasp, pause_server,   cut_one,        cut_server,     stall_one,
	stall_hasp, forget_scripts, restart_server, empty_server,   kill_hasp,
	drain_hasp, reload_hasp,    set_date,       set_redis_back, cut_subscribers,
};
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))

/* --- when --------------------------------------------------------------------------------- */

static void plan_next(void)
{
	world_schedule_in(&faults.next, chance_between(faults.most / 10, faults.most));
}

static void on_next(struct event *e)
{
	size_t kind;

	(void)e;
	do
		kind = chance(NKINDS);
	while (!(faults.kinds & 1u << kind));
	faults.count++;
	kinds[kind]();
	plan_next();
}

void faults_begin(struct simulation *s)
{
	static const int64_t mosts[] = { 300 * MS, 2 * SECOND, 8 * SECOND };

	faults.world = s;
	faults.next = (struct event){ .run = on_next };
	faults.kinds = 0;
	faults.count = 0;
	if (chance_one_in(6))
		return;
	for (int i = 0; i < KINDS_PER_SEED; i++)
		faults.kinds |= 1u << chance(NKINDS);
	faults.most = mosts[chance(3)];
	plan_next();
}

void faults_end(void)
{
	world_cancel(&faults.next);
}

uint64_t faults_count(void)
{
	return faults.count;
}
