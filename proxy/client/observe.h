/* SPDX-License-Identifier: BSD-3-Clause
 *
 * observe: rules and guards in mode OBSERVE change nothing: what their commands did is told to
 * the witness (lock/witness.h) when Redis has answered them.
 *
 *   request --passed as it came--> Redis --> reply --> the client
 *       `--> observation ----------------------`--> witness --> log, report
 *
 * The order of the answers is what counts. On one link it is the order in which Redis carried
 * the commands out. Between links, and so between workers, it is as good as the answers' way
 * here; but an answer is counted before its client hears of it, unless it is EXEC's or that of
 * a command on a lock that somebody waits for. No command waits for another because it is
 * observed.
 *
 * Not seen: what the scripts of applications write, commands that block, what nobody hears the
 * answer to (CLIENT REPLY), and what the command is rewritten for by a rule that is enforced.
 */
#ifndef HASP_CLIENT_OBSERVE_H
#define HASP_CLIENT_OBSERVE_H

#include "client/client.h"
#include "client/deciding.h"

/* One for all workers of the process. */
struct observers *observers_new(void);
void observers_free(struct observers *o); /* no clients are left */
/* Logs what was observed; false: no rule ever did. From any thread. */
bool observers_report(struct observers *o);

/* The rules and guards of env->config are those to be observed from now on. */
void observe_use_config(struct client_env *env);
void observe_fini(struct client_env *env);

/* Could one of them concern a command that `what` tells of so far? */
bool observe_concerns(const struct client_env *env, const struct resolved *what,
                      struct slice name);

/* The request, which observe_concerns() and Redis will not refuse for its length, or the
 * beginning of one, will be passed as decided: its reply will be looked at. */
void observe(struct context *x, struct decision *d);

/* What a request does to observed keys. Its client's observer must be there still. */
struct observation;
void observation_free(struct observation *o); /* NULL is allowed */
/* It was answered, in database `db`. */
void observation_settle(const struct observation *o, int db, const struct resp_reply *reply);

/* A client, from its first command on an observed key. */
struct observer;
void observer_free(struct observer *o); /* NULL is allowed */

#endif
