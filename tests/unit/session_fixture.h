/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session_fixture: a session, and the requests of its connection in flight, as a link would
 * have them.
 */
#ifndef HASP_TESTS_UNIT_SESSION_FIXTURE_H
#define HASP_TESTS_UNIT_SESSION_FIXTURE_H

#include "session/session.h"

/* *state is the session. */
int session_set_up(void **state);
int session_tear_down(void **state);

/* Returns the scanned reply at `frame`. */
struct reply_scan scanned(struct slice frame);

/* Redis answers. */
void answer(struct session *s, struct pending_request *r, struct slice frame);
#define ANSWER(s, r, literal) answer(s, r, SLICE_LIT(literal))

/* Sends the request, which is pending, or kept until EXEC. */
struct pending_request *sent(struct session *s, struct pending_request *r);
struct pending_request *sent_select(struct session *s, int db);
/* `user`: "": the default user. */
struct pending_request *sent_auth(struct session *s, const char *user);
/* `user`, `name`: NULL: the HELLO does not contain it. */
struct pending_request *sent_hello(struct session *s, uint8_t proto, const char *user,
                                   const char *name);
struct pending_request *sent_name(struct session *s, const char *name);
struct pending_request *sent_reset(struct session *s);
/* `r`: NULL: EXEC's reply changes nothing. */
struct pending_request *sent_exec(struct session *s);
/* Queues a command that changes nothing: only its position in the transaction matters. */
void sent_other(struct session *s);

#endif
