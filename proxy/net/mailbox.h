/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mailbox: how one thread hands something to another's loop. Letters arrive in
 * the order in which they were posted; each is a callback that runs on the
 * loop's thread.
 */
#ifndef HASP_NET_MAILBOX_H
#define HASP_NET_MAILBOX_H

#include <ev.h>
#include <pthread.h>

struct message {
	struct message *next;
	void (*deliver)(struct message *l); /* owns the letter from then on */
};

struct mailbox {
	struct ev_loop *loop;
	struct ev_async wake;
	pthread_mutex_t lock;
	struct message *first;
	struct message **last;
};

/* On the loop's thread, or before that runs. */
void mailbox_init(struct mailbox *m, struct ev_loop *loop);
/* Delivers what is left, then closes; nobody may post any more. */
void mailbox_fini(struct mailbox *m);

/* From any thread. */
void mailbox_post(struct mailbox *m, struct message *l);

#endif
