/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdatomic.h>
#include <string.h>

#include "base/fatal.h"
#include "upstream/own_conn.h"
#include "worker/worker_internal.h"

/* Seconds between two checks: are all requests answered, or is Redis back? */
#define LOOK_SECONDS 0.01
/* Once in this many checks, the worker tries to connect to servers that are down. */
#define RETRY_LOOKS 20

/* Sets w->pause.state, which no other function writes. */
static void worker_set_pause(struct worker *w, enum worker_pause state)
{
	enum worker_pause old = w->pause.state;

	HASP_ASSERT(old != state && (state != WORKER_PAUSED || old == WORKER_PAUSING) &&
	            (state != WORKER_RESUMING || old != WORKER_SERVES));
	w->pause.state = state;
	atomic_store(&w->shared->pauses[w->number], (int)state);
}

/* --- holding back ------------------------------------------------------------------------- */

void worker_pause_node(const struct worker *w, struct node *n)
{
	if (w->pause.state != WORKER_SERVES)
		node_freeze(n, NODE_PAUSED, true);
	if (w->pause.state == WORKER_PAUSED || w->pause.state == WORKER_RESUMING)
		node_freeze(n, NODE_AT_REST, true);
}

static void pause_hold(struct worker *w, enum node_freeze why, bool held)
{
	struct topology *t = w->topology;

	if (w->cluster)
		node_freeze(w->clients.node, why, held);
	for (struct node *n = topology_next(t, NULL); n; n = topology_next(t, n))
		node_freeze(n, why, held);
}

/* --- going on ----------------------------------------------------------------------------- */

static void pause_end(struct worker *w)
{
	worker_set_pause(w, WORKER_SERVES);
	loop_timer_stop(&w->pause.look);
	pause_hold(w, NODE_AT_REST, false);
	pause_hold(w, NODE_PAUSED, false);
	if (w->cluster)
		clients_go_on(&w->clients);
}

/* Handles a server's answer to PING. The answer is an error if the server loads its data, or is
 * a replica that has lost its primary. */
static void pause_on_pong(void *arg, const redisReply *reply)
{
	struct worker *w = arg;

	w->pause.nasked--;
	w->pause.unready |= !reply || (reply->type == REDIS_REPLY_ERROR &&
	                               (strncmp(reply->str, "LOADING", 7) == 0 ||
	                                strncmp(reply->str, "MASTERDOWN", 10) == 0));
}

static void pause_ask_all(struct worker *w)
{
	bool again = w->pause.nlooks++ % RETRY_LOOKS == 0;
	struct topology *t = w->topology;

	w->pause.unready = false;
	for (struct node *n = topology_next(t, NULL); n; n = topology_next(t, n)) {
		if (control_is_up(n->control)) {
			control_ask(n->control, (const char *[]){ "PING" }, 1, pause_on_pong,
			            w);
			w->pause.nasked++;
			continue;
		}
		w->pause.unready = true;
		if (again)
			own_conns_retry_now(&n->links);
	}
}

static void pause_look_for_redis(struct worker *w)
{
	if (w->pause.nasked)
		return;
	if (w->pause.unready)
		pause_ask_all(w);
	else
		pause_end(w);
}

/* --- coming to rest ----------------------------------------------------------------------- */

static void pause_look_at_clients(struct worker *w)
{
	size_t nbound;

	if (clients_under_way(&w->clients, &nbound))
		return;
	atomic_store(&w->shared->bound[w->number], nbound);
	worker_set_pause(w, WORKER_PAUSED);
	pause_hold(w, NODE_AT_REST, true);
	loop_timer_stop(&w->pause.look);
}

static void worker_on_pause_look(void *arg)
{
	struct worker *w = arg;

	loop_timer_start(&w->pause.look, LOOK_SECONDS);
	if (w->pause.state == WORKER_PAUSING)
		pause_look_at_clients(w);
	else
		pause_look_for_redis(w);
}

/* --- on the worker's thread --------------------------------------------------------------- */

void worker_pause_init(struct worker *w)
{
	loop_timer_init(&w->pause.look, w->loop, worker_on_pause_look, w);
}

static void pause_begin(struct worker *w, enum worker_pause state)
{
	worker_set_pause(w, state);
	w->pause.unready = true;
	w->pause.nlooks = 0;
	loop_timer_start(&w->pause.look, 0);
}

static void worker_pause(struct worker *w, struct worker_cmd *unused)
{
	(void)unused;
	if (w->pause.state == WORKER_PAUSING || w->pause.state == WORKER_PAUSED)
		return;
	pause_begin(w, WORKER_PAUSING);
	pause_hold(w, NODE_AT_REST, false);
	pause_hold(w, NODE_PAUSED, true);
}

static void worker_resume(struct worker *w, struct worker_cmd *unused)
{
	(void)unused;
	if (w->pause.state == WORKER_PAUSING || w->pause.state == WORKER_PAUSED)
		pause_begin(w, WORKER_RESUMING);
}

static void worker_resume_at_once(struct worker *w, struct worker_cmd *unused)
{
	(void)unused;
	if (w->pause.state != WORKER_SERVES)
		pause_end(w);
}

static void worker_reconnect(struct worker *w, struct worker_cmd *unused)
{
	struct topology *t = w->topology;

	(void)unused;
	for (struct node *n = topology_next(t, NULL); n; n = topology_next(t, n)) {
		if (n->links.no_server_reason)
			continue;
		node_look_up(n);
		node_move(n, n->links.name, NULL);
	}
	if (w->cluster)
		cluster_renew_links(w->cluster);
}

/* --- from other threads ------------------------------------------------------------------- */

static void send_all(struct worker_shared *shared,
                     void (*run)(struct worker *w, struct worker_cmd *cmd))
{
	for (size_t i = 0; i < shared->nworkers; i++)
		worker_send_cmd(shared->workers[i], (struct worker_cmd){ .run = run });
}

/* Begins the task unless another one is under way. */
static bool begin_task(struct worker_shared *shared, enum workers_task task)
{
	int was = WORKERS_SERVE;

	return atomic_compare_exchange_strong(&shared->task, &was, task) || was == (int)task;
}

static void end_task(struct worker_shared *shared, enum workers_task task)
{
	int was = task;

	(void)atomic_compare_exchange_strong(&shared->task, &was, WORKERS_SERVE);
}

bool workers_pause(struct worker_shared *shared)
{
	if (!begin_task(shared, WORKERS_PAUSE))
		return false;
	send_all(shared, worker_pause);
	return true;
}

bool workers_begin_upgrade(struct worker_shared *shared)
{
	return begin_task(shared, WORKERS_UPGRADE);
}

void workers_end_upgrade(struct worker_shared *shared)
{
	end_task(shared, WORKERS_UPGRADE);
}

void workers_resume(struct worker_shared *shared, bool at_once)
{
	end_task(shared, WORKERS_PAUSE);
	send_all(shared, at_once ? worker_resume_at_once : worker_resume);
}

void workers_reconnect(struct worker_shared *shared)
{
	send_all(shared, worker_reconnect);
}

enum worker_pause workers_pause_state(struct worker_shared *shared, size_t *nbound)
{
	bool pauses = atomic_load(&shared->task) == WORKERS_PAUSE;
	enum worker_pause end = pauses ? WORKER_PAUSED : WORKER_SERVES;
	bool is_there = true;

	if (nbound)
		*nbound = 0;
	for (size_t i = 0; i < shared->nworkers; i++) {
		if (atomic_load(&shared->workers[i]->ended))
			continue;
		is_there &= atomic_load(&shared->pauses[i]) == (int)end;
		if (nbound)
			*nbound += atomic_load(&shared->bound[i]);
	}
	if (is_there)
		return end;
	return pauses ? WORKER_PAUSING : WORKER_RESUMING;
}
