/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mailbox: sends messages from one thread to another thread's loop. They are delivered in the
 * order in which they were posted; each is a callback that runs on the loop's thread.
 */
#ifndef HASP_NET_MAILBOX_H
#define HASP_NET_MAILBOX_H

#include <ev.h>
#include <pthread.h>

/* Embedded in the struct that is sent. */
struct message {
	struct message *next;
	void (*deliver)(struct message *msg); /* takes over the message */
};

struct mailbox {
	struct ev_loop *loop;
	struct ev_async wake;
	pthread_mutex_t lock; /* protects the fields below */
	struct message *first; /* the oldest undelivered message; NULL: none */
	struct message **last; /* where the next message is linked in */
};

/* Call it on the loop's thread, or before the loop runs. */
void mailbox_init(struct mailbox *m, struct ev_loop *loop);
/* Delivers the remaining messages, then closes the mailbox. No thread may post any more. */
void mailbox_fini(struct mailbox *m);

/* Delivers the posted messages. Call it on the loop's thread after the loop has ended. */
void mailbox_deliver(struct mailbox *m);

/* Sends a message. May be called from any thread. */
void mailbox_post(struct mailbox *m, struct message *msg);

#endif
