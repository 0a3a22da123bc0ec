/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_answer: answers a client whose `current` was asked of a quorum, and unparks it.
 */
#ifndef HASP_CLIENT_QUORUM_ANSWER_H
#define HASP_CLIENT_QUORUM_ANSWER_H

#include "client/client_internal.h"

/* As quorum_ask.goes_on: the client has not hung up. */
bool quorum_client_waits(const void *client);

/* `out`, a whole reply, is given away. */
void quorum_answer(struct client *c, struct buf *out);
void quorum_answer_number(struct client *c, int64_t n);
void quorum_answer_nil(struct client *c);
/* Fewer than a majority have answered. */
void quorum_answer_unreached(struct client *c, const struct quorum_result *r);
/* Answers with the lock's owner; `owner`: as the client gets it. */
void quorum_answer_holder(struct client *c, const struct quorum_result *r, struct slice owner,
                          const struct quorum_hold *h);

/* As quorum_done_fn: answers whether the lock was released. */
void quorum_answer_release(void *client, const struct quorum_result *r);
/* Answers the release of a lock that the client had: it is free, even if a majority has not
 * confirmed that. */
void quorum_answer_own_release(void *client, const struct quorum_result *r);
void quorum_answer_extend(void *client, const struct quorum_result *r);

#endif
