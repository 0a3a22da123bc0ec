/* SPDX-License-Identifier: BSD-3-Clause
 *
 * model_plain: clients that set a key of their own and read it back. No locks: the smallest
 * model, to begin with.
 */
#include "tests/sim/models.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/app.h"
#include "tests/sim/history.h"

#define CLIENTS 4
#define THINK_MOST (300 * MS)

static struct plain {
	struct app client;
	size_t number;
	int value; /* its last one */
	bool is_known; /* Redis has confirmed `value` */
	bool reads;
} clients[CLIENTS];

static struct simulation *simulation;

static void act(struct plain *p)
{
	if (simulation->closing) {
		app_fini(&p->client);
		return;
	}
	p->reads = p->is_known && chance_one_in(2);
	if (p->reads) {
		app_call(&p->client, "GET key:%zu", p->number);
		return;
	}
	p->is_known = false;
	app_call(&p->client, "SET key:%zu %d PX 1000", p->number, ++p->value);
}

static void on_connected(struct app *c)
{
	act(container_of(c, struct plain, client));
}

static void on_reply(struct app *c, const redisReply *r)
{
	struct plain *p = container_of(c, struct plain, client);
	char expected[16];

	snprintf(expected, sizeof(expected), "%d", p->value);
	if (r->type == REDIS_REPLY_ERROR)
		p->is_known = false;
	else if (!p->reads)
		p->is_known = true;
	else if (r->type == REDIS_REPLY_STRING && strcmp(r->str, expected) != 0)
		history_fail("%s reads %s, but wrote %s", c->machine.name, r->str, expected);
	app_think(c, chance_delay(0, THINK_MOST));
}

static void on_lost(struct app *c)
{
	struct plain *p = container_of(c, struct plain, client);

	p->is_known = false;
	if (simulation->closing)
		app_fini(c);
}

static void on_thought(struct app *c)
{
	act(container_of(c, struct plain, client));
}

static const struct app_ops ops = { on_connected, on_reply, on_lost, on_thought };

static void begin(struct simulation *s)
{
	simulation = s;
	memset(clients, 0, sizeof(clients));
	for (size_t i = 0; i < CLIENTS; i++) {
		clients[i].number = i;
		app_start(&clients[i].client, i, simulation_port(s, i), &ops);
	}
}

static const char *who_hangs(void)
{
	for (int i = 0; i < CLIENTS; i++)
		if (!clients[i].client.has_left)
			return clients[i].client.machine.name;
	return NULL;
}

static void end(void)
{
	for (int i = 0; i < CLIENTS; i++)
		app_fini(&clients[i].client);
}

const struct model model_plain = {
	.name = "plain",
	.about = "clients that set a key of their own and read it back",
	.ini = "",
	.nhasps = 1,
	.nworkers = 1,
	.begin = begin,
	.who_hangs = who_hangs,
	.end = end,
};
