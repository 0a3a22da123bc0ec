/* SPDX-License-Identifier: BSD-3-Clause */
#include "quorum/quorum_servers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/log.h"
#include "base/quote.h"
#include "upstream/decode.h"
#include "upstream/own_conn.h"

#define RETRY_SECONDS 0.05

struct quorum_server {
	struct quorum_servers *all;
	size_t number;
	struct link_env links;
	struct own_conn conn; /* closed between two tries to connect */
	struct loop_timer silence; /* ends a connection whose replies do not come in time */
	struct list calls; /* calls in flight, oldest first */
	bool up; /* the server has answered INFO */
	struct log_state logged;
};

struct quorum_servers {
	struct quorum *q;
	const struct quorum_opts *opts; /* of `q` */
	struct link_login login;
	struct quorum_server v[QUORUM_PEERS_MAX];
};

/* --- answers ------------------------------------------------------------------------------ */

static void quorum_server_fail_calls(struct quorum_server *s)
{
	list_shift_each (struct quorum_call, call, &s->calls, node)
		quorum_on_answer(s->all->q, call, NULL);
}

static void quorum_server_on_down(void *owner, enum link_end end, const char *reason)
{
	struct quorum_server *s = owner;
	uint32_t suppressed;

	if (log_state_pass(&s->logged, s->links.clock(),
	                   link_log_state(end, reason, s->logged.logged), false, &suppressed))
		log_warning(
			"quorum_server_down quorum=%s address=%s reason=%s suppressed=%" PRIu32,
			s->all->opts->name, s->links.name, QUOTE_STR(reason), suppressed);
	s->up = false;
	loop_timer_stop(&s->silence);
	quorum_on_down(s->all->q, s->number);
	quorum_server_fail_calls(s);
}

/* --- the identity of a server ------------------------------------------------------------- */

/* Lets the server be silent for connect_timeout, or for as long as a vote takes. */
static void quorum_server_await_reply(struct quorum_server *s)
{
	int64_t ms = s->links.dialer.timeout_ms;

	if (ms < s->all->opts->timeout_ms)
		ms = s->all->opts->timeout_ms;
	loop_timer_start(&s->silence, (double)ms / 1000);
}

static void quorum_server_on_silence(void *arg)
{
	struct quorum_server *s = arg;

	/* The dial has a limit of its own, and tells why it failed. */
	if (!own_conn_is_made(&s->conn)) {
		quorum_server_await_reply(s);
		return;
	}
	own_conn_fail(&s->conn, LINK_UNREACHABLE,
	              s->up ? "it does not answer in time" : "it does not answer INFO in time");
}

static void quorum_server_on_info(struct quorum_server *s, const redisReply *r)
{
	struct slice info = slice_of(r->str, r->len), id = info_field(info, "run_id"),
		     uptime = info_field(info, "uptime_in_seconds");
	char run_id[QUORUM_RUN_ID_SIZE];
	uint32_t suppressed;
	double counts_in;

	if (!id.n || !uptime.n) {
		own_conn_fail(&s->conn, LINK_REFUSED,
		              r->type == REDIS_REPLY_ERROR
		                      ? r->str
		                      : "the server's reply to INFO has no run_id and uptime");
		return;
	}
	snprintf(run_id, sizeof(run_id), "%.*s", (int)id.n, id.p);
	s->up = true;
	loop_timer_stop(&s->silence);
	own_conn_worked(&s->conn);
	counts_in = quorum_on_up(s->all->q, s->number, run_id, strtoll(uptime.p, NULL, 10));
	if (log_state_pass(&s->logged, s->links.clock(), LOG_STATE_UP, true, &suppressed))
		log_info("quorum_server_up quorum=%s address=%s votes_after_ms=%.0f",
		         s->all->opts->name, s->links.name, counts_in * 1000);
}

/* --- the link ----------------------------------------------------------------------------- */

/* `tag`: the answered call; NULL for INFO. */
static void quorum_server_on_reply(void *owner, void *tag, redisReply **reply)
{
	struct quorum_server *s = owner;
	struct quorum_call *call = tag;

	if (call) {
		list_remove(&call->node);
		if (list_empty(&s->calls))
			loop_timer_stop(&s->silence);
		else
			quorum_server_await_reply(s);
		quorum_on_answer(s->all->q, call, *reply);
	} else if (*reply) {
		quorum_server_on_info(s, *reply);
	} else {
		own_conn_fail(&s->conn, LINK_REFUSED,
		              "hasp does not understand the server's reply to INFO");
	}
}

static void quorum_server_connect(void *arg)
{
	struct quorum_server *s = arg;

	own_conn_open(&s->conn, &s->all->login);
	quorum_server_await_reply(s);
	own_conn_send_words(&s->conn, (const char *[]){ "INFO", "server" }, 2, NULL);
}

static const struct own_conn_ops quorum_server_conn_ops = {
	.on_reply = quorum_server_on_reply,
	.on_down = quorum_server_on_down,
	.connect = quorum_server_connect,
};

void quorum_servers_send(void *arg, size_t server, struct slice request,
                         struct quorum_call *call)
{
	struct quorum_servers *all = arg;
	struct quorum_server *s = &all->v[server];

	HASP_ASSERT(s->up);
	if (list_empty(&s->calls))
		quorum_server_await_reply(s);
	list_append(&s->calls, &call->node);
	link_queue(s->conn.user.link, request);
	link_expect(&s->conn.user, LINK_NOTIFY | LINK_CAPTURE | LINK_DISCARD, call);
}

void quorum_servers_each(const struct quorum_servers *all, quorum_servers_fn *fn, void *arg)
{
	for (size_t i = 0; i < all->opts->nservers; i++)
		fn(arg, all->opts->name, all->v[i].links.name, quorum_server_state(all->q, i),
		   (unsigned)all->v[i].links.nopen[LINK_KIND_OWN]);
}

/* --- beginning and end -------------------------------------------------------------------- */

struct quorum_servers *quorum_servers_new(const char *user, const char *password)
{
	struct quorum_servers *all = xcalloc(1, sizeof(*all));

	all->login = (struct link_login){ .proto = 2, .user = user, .password = password };
	return all;
}

void quorum_servers_start(struct quorum_servers *all, struct quorum *q,
                          const struct link_env *links)
{
	all->q = q;
	all->opts = quorum_terms(q);
	for (size_t i = 0; i < all->opts->nservers; i++) {
		struct quorum_server *s = &all->v[i];

		s->all = all;
		s->number = i;
		s->links = *links;
		links_init(&s->links);
		s->links.address = address_of(all->opts->addresses[i]);
		s->links.name = xstrdup(all->opts->addresses[i]);
		own_conn_init(&s->conn, &s->links, RETRY_SECONDS, &quorum_server_conn_ops, s);
		loop_timer_init(&s->silence, links->dialer.loop, quorum_server_on_silence, s);
		list_init(&s->calls);
		own_conn_reconnect(&s->conn, NULL);
	}
}

void quorum_servers_use(struct quorum_servers *all, const struct dialer *dialer)
{
	for (size_t i = 0; i < all->opts->nservers; i++) {
		struct dialer *d = &all->v[i].links.dialer;

		d->timeout_ms = dialer->timeout_ms;
		d->keepalive_ms = dialer->keepalive_ms;
		d->user_timeout_ms = dialer->user_timeout_ms;
		d->tls = dialer->tls;
	}
}

void quorum_servers_reap(struct quorum_servers *all)
{
	for (size_t i = 0; i < all->opts->nservers; i++)
		links_reap(&all->v[i].links);
}

void quorum_servers_stop(struct quorum_servers *all)
{
	for (size_t i = 0; i < all->opts->nservers; i++) {
		struct quorum_server *s = &all->v[i];

		loop_timer_stop(&s->silence);
		own_conn_close(&s->conn);
		s->up = false;
		quorum_on_down(all->q, i);
	}
	for (size_t i = 0; i < all->opts->nservers; i++)
		quorum_server_fail_calls(&all->v[i]);
}

void quorum_servers_free(struct quorum_servers *all)
{
	quorum_servers_reap(all);
	for (size_t i = 0; i < all->opts->nservers; i++) {
		tls_resume_clear(&all->v[i].links.tls_resume);
		free(all->v[i].links.name);
	}
	free(all);
}
