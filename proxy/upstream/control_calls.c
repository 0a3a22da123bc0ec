/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control_calls: the requests on a control, hasp's own connection to a Redis server. The
 * control holds a request for another database than the selected one, and all later requests,
 * until Redis has selected that database:
 *
 *   control_call() --> in flight, in `requests` --reply--> fn()
 *             `------> `held` --SELECT--^
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "upstream/control_internal.h"

void control_calls_end(struct control_request *req, const redisReply *reply)
{
	control_fn *fn = req->fn;
	void *arg = req->arg;

	list_remove(&req->node);
	buf_release(&req->held);
	free(req);
	if (fn)
		fn(arg, reply);
}

static struct control_request *control_first(const struct list *l)
{
	return list_first(l, struct control_request, node);
}

void control_calls_fail(struct control *c)
{
	struct control_request *req;

	while ((req = control_first(&c->requests)) || (req = control_first(&c->held)))
		control_calls_end(req, NULL);
}

static struct control_request *control_request_new(int db, control_fn *fn, void *arg)
{
	struct control_request *req = xcalloc(1, sizeof(*req));

	req->fn = fn;
	req->arg = arg;
	req->db = db;
	list_init(&req->node);
	return req;
}

static void control_send_request(struct control *c, struct control_request *req,
                                 struct slice bytes)
{
	list_append(&c->requests, &req->node);
	own_conn_send(&c->conn, bytes, 1, req);
}

void control_ask(struct control *c, const char *const *argv, size_t n, control_fn *fn,
                 void *arg)
{
	struct control_request *req = control_request_new(c->db, fn, arg);

	list_append(&c->requests, &req->node);
	own_conn_send_words(&c->conn, argv, n, req);
}

size_t control_inflight(const struct control *c)
{
	size_t nheld = 0;

	list_each (const struct control_request, req, &c->held, node)
		nheld++;
	return c->conn.user.inflight + nheld;
}

/* --- databases -------------------------------------------------------------------- */

static void control_on_select(void *arg, const redisReply *reply);

/* Sends the held requests for the selected database, and selects the next one. */
static void control_go_on(struct control *c)
{
	struct control_request *req;
	char number[16];

	if (!c->up || c->selecting)
		return;
	while ((req = control_first(&c->held)) && req->db == c->db) {
		list_remove(&req->node);
		control_send_request(c, req, buf_slice(&req->held));
		buf_release(&req->held);
	}
	if (!req)
		return;
	c->selecting = true;
	snprintf(number, sizeof(number), "%d", req->db);
	control_ask(c, (const char *[]){ "SELECT", number }, 2, control_on_select, c);
}

/* Handles the reply to SELECT. If it is an error, fails all requests for that database, because
 * they must not run in another one. */
static void control_on_select(void *arg, const redisReply *reply)
{
	struct control *c = arg;
	struct control_request *req = control_first(&c->held);
	int db;

	HASP_ASSERT(req);
	db = req->db;
	if (reply && reply->type != REDIS_REPLY_ERROR) {
		c->db = db;
	} else {
		/* A callback may make another call. */
		while ((req = control_first(&c->held)) && req->db == db)
			control_calls_end(req, reply);
	}
	c->selecting = false;
	control_go_on(c);
}

int control_call(struct control *c, int db, struct slice request, control_fn *fn, void *arg)
{
	struct control_request *req;

	if (!c->up)
		return -1;
	req = control_request_new(db, fn, arg);
	if (db == c->db && list_empty(&c->held)) {
		control_send_request(c, req, request);
		return 0;
	}
	buf_append(&req->held, request);
	list_append(&c->held, &req->node);
	control_go_on(c);
	return 0;
}
