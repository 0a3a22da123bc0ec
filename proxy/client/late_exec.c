/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/late_exec.h"

#include "lock/hold/holds.h"

bool late_exec_sent(struct pending_request *exec)
{
	bool may_be_late = false;

	for (struct list *at = exec->queued.next; at != &exec->queued; at = at->next) {
		struct pending_request *r = container_of(at, struct pending_request, node);
		if (!r->pending_lock)
			continue;
		pending_lock_sent(r->pending_lock);
		may_be_late |= pending_lock_confirms(r->pending_lock);
	}
	return may_be_late;
}

bool late_exec_is_over(const struct pending_request *exec)
{
	for (struct list *at = exec->queued.next; at != &exec->queued; at = at->next) {
		struct pending_request *r = container_of(at, struct pending_request, node);
		if (r->pending_lock && pending_lock_is_over(r->pending_lock))
			return true;
	}
	return false;
}

static void undo_lock(void *arg, struct pending_request *r, int db)
{
	(void)arg;
	pending_lock_undo(r->pending_lock, db);
	r->pending_lock = NULL;
}

void late_exec_refuse(struct client *c, struct pending_request *exec)
{
	stream_send(&c->stream,
	            SLICE_LIT("-ERR hasp: the transaction was carried out, but its answer came "
	                      "when the lease of a lock that it takes was over\r\n"));
	session_each_queued(&c->session, exec, undo_lock, NULL);
}
