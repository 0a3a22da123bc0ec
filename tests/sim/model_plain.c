/* SPDX-License-Identifier: BSD-3-Clause
 *
 * model_plain: clients that set a key of their own and read it back. At times a client writes a
 * long pipeline, much more than all buffers take, and reads no reply before all is written:
 * hasp must neither stall nor mix up the replies, however it answers the commands.
 */
#include "tests/sim/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/app.h"
#include "tests/sim/history.h"

#define CLIENTS 4
#define THINK_MOST (300 * MS)
/* A pipeline: so many commands, each with a value of so many bytes. */
#define COMMANDS_LEAST 100
#define COMMANDS_MOST 400
#define VALUE_MOST 4000
/* The most SETs that a client remembers of those whose connections were cut. */
#define CUTS_MOST 8

static struct plain {
	struct app client;
	size_t number;
	int value; /* the client's last value */
	bool is_known; /* Redis has confirmed `value` */
	bool reads;
	bool writes; /* a SET is not answered yet */
	int cut[CUTS_MOST]; /* values of SETs whose connections were cut before the answer:
	                     * Redis may run them after those of later connections, as without
	                     * hasp. 0: none */
	size_t ncuts; /* how often a SET was cut */
	size_t nleft; /* replies to the pipeline that are still due; 0: no pipeline */
	char stored[16]; /* beginning of the last value that the pipeline has stored */
} clients[CLIENTS];

static struct simulation *simulation;
static int npipelines; /* each has a key of its own */

/* Only `key` has no section in `ini`. */
static const char *const sections[] = { "key", "rule", "waits", "guard", "observe" };

static void write_pipeline(struct plain *p)
{
	static char filling[VALUE_MOST];
	const char *section = sections[chance(sizeof(sections) / sizeof(sections[0]))];
	int size = (int)chance_between(1, VALUE_MOST);

	memset(filling, 'x', sizeof(filling));
	p->nleft = (size_t)chance_between(COMMANDS_LEAST, COMMANDS_MOST);
	p->stored[0] = '\0';
	npipelines++;
	app_gather(&p->client);
	/* The value begins with the number of replies that are left after its own. */
	for (size_t i = p->nleft; i-- > 0;)
		app_call(&p->client, "GETSET %s:pipeline:%d %zu.%.*s", section, npipelines, i,
		         size, filling);
	app_write(&p->client);
}

static void act(struct plain *p)
{
	if (simulation->closing) {
		app_fini(&p->client);
		return;
	}
	if (chance_one_in(24)) {
		write_pipeline(p);
		return;
	}
	p->reads = p->is_known && chance_one_in(2);
	if (p->reads) {
		app_call(&p->client, "GET key:%zu", p->number);
		return;
	}
	p->is_known = false;
	p->writes = true;
	app_call(&p->client, "SET key:%zu %d PX 1000", p->number, ++p->value);
}

static void on_connected(struct app *c)
{
	act(container_of(c, struct plain, client));
}

/* A lock may end before the next command, and Redis may lose its data: then there is no
 * value. */
static void on_pipelined(struct plain *p, const redisReply *r)
{
	p->nleft--;
	if (r->type == REDIS_REPLY_STRING &&
	    (!p->stored[0] || strncmp(r->str, p->stored, strlen(p->stored)) != 0))
		history_fail("%s reads %.8s after it stored %s", p->client.machine.name, r->str,
		             p->stored);
	if (r->type != REDIS_REPLY_ERROR)
		snprintf(p->stored, sizeof(p->stored), "%zu.", p->nleft);
	if (!p->nleft)
		app_think(&p->client, chance_delay(0, THINK_MOST));
}

/* True if `value` is from a SET that was cut, which can run only once. */
static bool is_cut(struct plain *p, int value)
{
	for (size_t i = 0; i < CUTS_MOST; i++) {
		if (p->cut[i] != value)
			continue;
		p->cut[i] = 0;
		return true;
	}
	return false;
}

static void on_reply(struct app *c, const redisReply *r)
{
	struct plain *p = container_of(c, struct plain, client);
	char expected[16];

	if (p->nleft) {
		on_pipelined(p, r);
		return;
	}
	p->writes = false;
	snprintf(expected, sizeof(expected), "%d", p->value);
	if (r->type == REDIS_REPLY_ERROR)
		p->is_known = false;
	else if (!p->reads)
		p->is_known = true;
	else if (r->type == REDIS_REPLY_STRING && is_cut(p, atoi(r->str)))
		p->is_known = false;
	else if (r->type == REDIS_REPLY_STRING && strcmp(r->str, expected) != 0)
		history_fail("%s reads %s, but wrote %s", c->machine.name, r->str, expected);
	app_think(c, chance_delay(0, THINK_MOST));
}

static void on_lost(struct app *c)
{
	struct plain *p = container_of(c, struct plain, client);

	if (p->writes)
		p->cut[p->ncuts++ % CUTS_MOST] = p->value;
	p->writes = p->is_known = false;
	p->nleft = 0;
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
	npipelines = 0;
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

static bool may_stay(struct slice key)
{
	return slice_starts(key, SLICE_LIT("key:pipeline:")) ||
	       slice_starts(key, SLICE_LIT("guard:pipeline:")) ||
	       slice_starts(key, SLICE_LIT("observe:pipeline:"));
}

const struct model model_plain = {
	.name = "plain",
	.about = "clients that set a key of their own and read it back, and write long "
		 "pipelines",
	.ini = "[lock rule]\npattern = rule:*\nlease = 5s\n"
	       "[lock waits]\npattern = waits:*\nlease = 5s\nwait = 1s\n"
	       "[guard guard]\npattern = guard:*\nacquire_on = GET\nrelease_on = GETSET\n"
	       "[lock observe]\npattern = observe:*\nmode = observe\n",
	.nhasps = 2,
	.nworkers = 1,
	.begin = begin,
	.who_hangs = who_hangs,
	.may_stay = may_stay,
	.end = end,
};
