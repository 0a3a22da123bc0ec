/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "upstream/decode.h"
#include "upstream/own_conn.h"

static size_t node_on_commands(void *arg, const redisReply *reply)
{
	struct node *n = arg;

	return n->ops->on_commands(n->arg, n, reply);
}

/* Reads the replication id. A server gets a new one when it starts or is promoted. */
static void node_on_info(void *arg, const redisReply *reply)
{
	struct node *n = arg;
	char before[NODE_HISTORY_SIZE];
	struct slice id;

	if (!reply) {
		/* The connection broke. While it is down, clients may write: forget the
		 * history, so that hasp calls on_changed() when it is up again. */
		*n->history = '\0';
		return;
	}
	memcpy(before, n->history, sizeof(before));
	*n->history = '\0';
	id = info_field(slice_of(reply->str, reply->len), "master_replid");
	if (id.n && id.n < NODE_HISTORY_SIZE)
		snprintf(n->history, NODE_HISTORY_SIZE, "%.*s", (int)id.n, id.p);
	if (n->nups > 1 && (!*n->history || strcmp(before, n->history) != 0))
		n->ops->on_changed(n->arg, n);
}

/* Logs an error if the configuration has `address`, but the server there is a Sentinel, or a
 * node of a cluster. */
static void warn_of_kind(const struct node *n)
{
	if (control_role(n->control) == ROLE_SENTINEL)
		log_error("upstream_kind address=%s kind=sentinel "
		          "effect=\"a Sentinel stores no keys\" "
		          "hint=\"set sentinels and master of [upstream] instead of address\"",
		          n->links.name);
	else if (control_is_in_cluster(n->control))
		log_error("upstream_kind address=%s kind=cluster "
		          "effect=\"this node answers MOVED for keys that other nodes serve, "
		          "and CROSSSLOT for keys in several slots\" "
		          "hint=\"set cluster of [upstream] instead of address\"",
		          n->links.name);
}

static void node_on_control_up(void *arg)
{
	struct node *n = arg;

	n->nups++;
	/* Ask first, so that Redis answers INFO before the calls that on_up() makes. */
	control_ask(n->control, (const char *[]){ "INFO", "replication" }, 2, node_on_info, n);
	if (n->settings.is_alone)
		warn_of_kind(n);
	n->ops->on_up(n->arg, n);
}

/* Handles an alarm of a link. Since a script can return READONLY, hasp then asks the server for
 * its role: node_on_role() gets the answer if the role has changed. */
static void node_on_alarm(void *arg, enum link_alarm alarm)
{
	struct node *n = arg;

	if (alarm == LINK_READONLY && control_role(n->control) == ROLE_MASTER)
		control_check(n->control);
	else
		n->ops->on_alarm(n->arg, n, alarm);
}

static void node_on_role(void *arg, enum server_role role)
{
	struct node *n = arg;

	if (role == ROLE_REPLICA)
		n->ops->on_alarm(n->arg, n, LINK_READONLY);
}

/* Called when the server's name gets other addresses than before. */
static void node_on_addresses(void *arg, const struct addrinfo *ai)
{
	struct node *n = arg;
	char to[64];

	if (!links_lead_elsewhere(&n->links, ai))
		return;
	address_print(ai->ai_addr, ai->ai_addrlen, to, sizeof(to));
	log_warning("upstream_moved address=%s to=%s", n->links.name, to);
	node_move(n, n->links.name, NULL);
}

struct node *node_new(const struct link_env *links, const struct node_ops *ops, void *arg)
{
	struct node *n = xcalloc(1, sizeof(*n));

	n->links = *links;
	n->links.on_connected = own_conns_retry_now;
	n->links.on_alarm = node_on_alarm;
	n->links.arg = n;
	links_init(&n->links);
	n->ops = ops;
	n->arg = arg;
	n->pool = pool_new(links->dialer.loop, &n->links);
	n->control = control_new(&(struct control_opts){
		.env = &n->links,
		.on_commands = node_on_commands,
		.on_up = node_on_control_up,
		.on_role = node_on_role,
		.arg = n,
	});
	n->liveness = liveness_new(&n->links, n->control);
	n->name = name_watch_new(links->dialer.loop, links->dialer.resolver, node_on_addresses,
	                         n);
	return n;
}

static void check_subscriber(struct node *n)
{
	if (n->subscriber)
		subscriber_set_check(n->subscriber, n->settings.check_delay_ms,
		                     n->settings.server_timeout_ms);
}

void node_use(struct node *n, const struct node_settings *s)
{
	n->links.dialer.timeout_ms = s->connect_timeout_ms;
	n->links.dialer.keepalive_ms = s->keepalive_ms;
	n->links.dialer.user_timeout_ms = s->user_timeout_ms;
	n->links.dialer.tls = s->tls;
	n->links.max = (size_t)s->links_max;
	n->links.links_per_login = s->links_per_login;
	control_set_check_delay(n->control, s->check_delay_ms);
	liveness_set_timeout(n->liveness, s->server_timeout_ms);
	if (n->links.name && n->settings.dns_max_ttl_ms != s->dns_max_ttl_ms)
		name_watch_set(n->name, &n->links.address, s->dns_max_ttl_ms);
	n->settings = *s;
	check_subscriber(n);
	n->links.failover_wait = (double)s->failover_wait_ms / 1000;
}

void node_stop(struct node *n)
{
	name_watch_free(n->name);
	n->name = NULL;
	liveness_free(n->liveness);
	n->liveness = NULL;
	pool_free(n->pool);
	n->pool = NULL;
	/* Stop `acks` before `control`: calls that fail may make new calls on `control`. */
	if (n->acks)
		control_free(n->acks);
	n->acks = NULL;
	control_free(n->control);
	n->control = NULL;
}

void node_free(struct node *n)
{
	if (n->subscriber)
		subscriber_free(n->subscriber);
	links_reap(&n->links);
	free(n->links.name);
	free(n->links.no_server_reason);
	tls_resume_clear(&n->links.tls_resume);
	free(n);
}

void node_listen(struct node *n, const struct subscriber_opts *opts)
{
	struct subscriber_opts here = *opts;

	HASP_ASSERT(!n->subscriber);
	here.env = &n->links;
	n->subscriber = subscriber_new(&here);
	check_subscriber(n);
}

struct control *node_acks(struct node *n)
{
	HASP_ASSERT(n->control);
	if (!n->acks)
		n->acks = control_new(&(struct control_opts){ .env = &n->links });
	return n->acks;
}

static void reconnect(struct node *n, const char *reason)
{
	control_reconnect(n->control, reason);
	if (n->acks)
		control_reconnect(n->acks, reason);
	if (n->subscriber)
		subscriber_reconnect(n->subscriber, reason);
}

void node_log_in(struct node *n)
{
	reconnect(n, "the configuration has changed");
}

void node_freeze(struct node *n, enum node_freeze why, bool held)
{
	unsigned before = n->held;

	n->held = held ? before | why : before & ~(unsigned)why;
	/* The front of a cluster has no `ops`: see cluster_front_new(). */
	if (before && !n->held && n->ops)
		n->ops->on_released(n->arg, n);
}

/* Moves all connections to the server at n->links.address. `name`: for messages;
 * `no_server_reason`: as in struct link_env. */
static void become(struct node *n, const char *name, const char *no_server_reason,
                   const char *reason)
{
	char *copy = xstrdup(name);
	bool was_leaving = n->held & NODE_LEAVING;

	free(n->links.name);
	free(n->links.no_server_reason);
	n->links.name = copy;
	n->links.no_server_reason = xstrdup_or_null(no_server_reason);
	pool_follow_address(n->pool);
	reconnect(n, reason ? reason : "hasp uses new connections");
	links_follow(&n->links, reason);
	n->ops->on_moved(n->arg, n);
	if (was_leaving)
		node_freeze(n, NODE_LEAVING, false);
}

void node_move(struct node *n, const char *address, const char *reason)
{
	bool is_other = !n->links.name || strcmp(address, n->links.name) != 0;

	n->links.address = address_of(address);
	if (is_other)
		name_watch_set(n->name, &n->links.address, n->settings.dns_max_ttl_ms);
	become(n, address, NULL, reason);
}

void node_leave(struct node *n, const char *no_server_reason, const char *reason)
{
	become(n, n->links.master ? n->links.master : "?", no_server_reason, reason);
}

enum node_health node_health(const struct node *n)
{
	if (!n->control || control_is_silent(n->control))
		return NODE_SILENT;
	return control_is_answering(n->control) ? NODE_ANSWERS : NODE_UNSURE;
}

void node_look_up(struct node *n)
{
	name_watch_ask(n->name);
}
