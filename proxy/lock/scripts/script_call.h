/* SPDX-License-Identifier: BSD-3-Clause
 *
 * script_call: writes the beginning of a script's call. The caller then writes as many keys and
 * arguments as it has announced, each as a bulk, in the order that the head of the script
 * names.
 *
 *   EVALSHA sha nkeys | key ... arg ...
 *   EVAL   text nkeys | key ... arg ...
 */
#ifndef HASP_LOCK_SCRIPTS_SCRIPT_CALL_H
#define HASP_LOCK_SCRIPTS_SCRIPT_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "lock/model/key_names.h"

/* The Lua scripts. The build makes script.c, with their texts as C strings, from the files in
 * lock/scripts/commands. */
enum script_id {
#define SCRIPT(id, file) SCRIPT_##id,
#include "lock/scripts/scripts.def"
#undef SCRIPT
	SCRIPT_COUNT
};

/* Length of each script's `evalsha`. */
#define SCRIPT_EVALSHA_LEN (sizeof("$7\r\nEVALSHA\r\n$40\r\n") - 1 + 40 + 2)

struct script {
	const char *name; /* the file's name without .lua */
	struct slice text;
	struct slice sha; /* 40 hex digits */
	struct slice evalsha; /* EVALSHA and `sha`, as two bulks */
};

extern const struct script script_table[SCRIPT_COUNT]; /* script.c */
const struct script *script_get(enum script_id id);

/* How hasp writes a call, and facts that the call needs besides the client's command. */
struct rewrite_opts {
	bool eval; /* send EVAL with the script's text: in MULTI, or after NOSCRIPT */
	bool resp3; /* the client speaks RESP3 */
	enum key_naming naming; /* how hasp names the keys beside the lock */
	/* Names this try to take a lock, so that the try can wait, and hasp can undo it if it
	 * does not get the reply. Has no blanks; the text before the first dash names the
	 * worker. */
	struct slice ticket;
	int64_t wait_max_ms; /* how long a try may wait at most; 0: not at all */
	bool report_refusal; /* a script that refuses to delete a lock answers `+REFUSED ...` */
	bool may_be_short; /* the caller may write a short call, without the arguments that most
	                    * calls do not need. If the script needs these, it only answers
	                    * `+BUSY`, and hasp sends the full call */
	char held; /* UNLOCK: the enum lock_kind of the lock that the client's own connection
	            * has; 0: not known */
	bool reentered; /* UNLOCK: the client's own connection may have several holds */
	/* UNLOCK, MUNLOCK: for each lock, in the command's order, the acquisition that the
	 * command releases, if this connection made it: `TICKET LAST_FENCE,` or `TICKET,`;
	 * only `,` for another acquisition. Empty: this connection made none of them. */
	struct slice given_back;
	int64_t place; /* the try's earlier place in the queue; 0: none */
	/* The tokens by which the client's own connection has the lock. The try does not wait
	 * for these owners. */
	const struct slice *own;
	size_t nown;
	struct slice secret; /* proof_secret_in() the database that the call is made in */
};

void script_call_begin(struct buf *out, enum script_id id, const struct rewrite_opts *opts,
                       size_t nkeys, size_t nargs);
/* As script_call_begin(), for a call that is written in one go: makes space for the keys and
 * arguments, at most `space` bytes. Returns where the caller must write them; the caller then
 * calls buf_added_to(). */
char *script_call_open(struct buf *out, enum script_id id, const struct rewrite_opts *opts,
                       size_t nkeys, size_t nargs, size_t space);

/* Number of KEYS of the scripts that use the queue: lock, record, queue, fence counter, sidecar
 * (if there is none, the lock again). */
#define SCRIPT_CALL_QUEUE_KEYS 5
/* Number of ARGV that precede all others: the secret. */
#define SCRIPT_CALL_SECRET_ARGS 1
/* Most short calls have only these KEYS: lock, record, queue, fence counter. */
#define SCRIPT_CALL_LOCK_KEYS 4
/* Writes the first `nkeys` of the SCRIPT_CALL_QUEUE_KEYS to `p`, and returns the end of the
 * bytes. They take at most key_names_space() bytes. */
char *script_call_put_lock_keys(char *p, const struct rewrite_opts *opts, struct slice key,
                                size_t nkeys);
void script_call_write_queue_keys(struct buf *out, const struct rewrite_opts *opts,
                                  struct slice key, bool has_sidecar);

/* Number of ARGV of the scripts that may wait: ticket, how long to wait, place. */
#define SCRIPT_CALL_WAIT_ARGS 3
void script_call_write_wait(struct buf *out, const struct rewrite_opts *opts, int64_t wait_ms);
/* Writes the try's place: the last of the SCRIPT_CALL_WAIT_ARGS. */
void script_call_write_place(struct buf *out, const struct rewrite_opts *opts);

/* Writes the last ARGV of the scripts that may wait for a lock: rewrite_opts.own. */
void script_call_write_own(struct buf *out, const struct rewrite_opts *opts);

/* Returns the first key of `evalsha`, a call by script_call_begin(); empty: it has none. */
struct slice script_call_key(enum script_id id, struct slice evalsha);

/* Appends the call `evalsha`, made by script_call_begin(), as EVAL with the script's text. */
void script_call_write_as_eval(struct buf *out, enum script_id id, struct slice evalsha);

#endif
