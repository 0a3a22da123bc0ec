/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/mailbox.h"

void mailbox_deliver(struct mailbox *m)
{
	struct message *msg, *next;

	pthread_mutex_lock(&m->lock);
	msg = m->first;
	m->first = NULL;
	m->last = &m->first;
	pthread_mutex_unlock(&m->lock);
	for (; msg; msg = next) {
		next = msg->next;
		msg->deliver(msg);
	}
}

static void mailbox_on_wake(struct ev_loop *loop, struct ev_async *w, int revents)
{
	(void)loop;
	(void)revents;
	mailbox_deliver(w->data);
}

void mailbox_init(struct mailbox *m, struct ev_loop *loop)
{
	m->loop = loop;
	m->first = NULL;
	m->last = &m->first;
	pthread_mutex_init(&m->lock, NULL);
	ev_async_init(&m->wake, mailbox_on_wake);
	m->wake.data = m;
	ev_async_start(loop, &m->wake);
}

void mailbox_fini(struct mailbox *m)
{
	mailbox_deliver(m);
	ev_async_stop(m->loop, &m->wake);
	pthread_mutex_destroy(&m->lock);
}

void mailbox_post(struct mailbox *m, struct message *msg)
{
	msg->next = NULL;
	pthread_mutex_lock(&m->lock);
	*m->last = msg;
	m->last = &msg->next;
	pthread_mutex_unlock(&m->lock);
	ev_async_send(m->loop, &m->wake);
}
