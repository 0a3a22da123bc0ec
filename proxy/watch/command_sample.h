/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_sample: what a command does to watched keys. hasp keeps the sample until Redis has
 * answered the command, and then gives the sample to the tracker.
 *
 *   policy/watched.c --> pending request --reply--> command_sample_complete() --> tracker
 */
#ifndef HASP_WATCH_COMMAND_SAMPLE_H
#define HASP_WATCH_COMMAND_SAMPLE_H

#include "base/buf.h"
#include "commands/effect.h"
#include "resp/reply.h"
#include "watch/shared_tracker.h"

/* hasp looks only at the first arguments of a script's call, and at the first fields of a hash:
 * at most this many. */
#define COMMAND_SAMPLE_ARGS_MAX 8

enum command_sample_kind {
	COMMAND_SAMPLE_EFFECT,
	COMMAND_SAMPLE_READ,
	COMMAND_SAMPLE_LOOK, /* asks whether the key exists */
	COMMAND_SAMPLE_LIST, /* reads elements of a list */
	COMMAND_SAMPLE_OTHER, /* reads the key in another way */
	COMMAND_SAMPLE_SCRIPT
};

struct command_sample {
	struct shared_tracker *all;
	struct tracker_client *client;
	enum command_sample_kind kind;
	enum read_opts how; /* READ: the command that reads the key */
	enum lock_way way; /* EFFECT: how the command takes a lock */
	bool swaps; /* EFFECT: the reply is the key's old value */
	int absent; /* LOOK: the integer reply if the key does not exist */
	struct effect effect; /* EFFECT: what the command does */
	uint32_t npipelined; /* as tracker_act.npipelined */
	double sent_at; /* when the command arrived */
	bool is_queued; /* the command is queued in a transaction */
	bool watches; /* as tracker_act.watches */
	uint64_t value; /* EFFECT: hash of the stored value; 0: not known */
	size_t nfields;
	uint64_t fields[COMMAND_SAMPLE_ARGS_MAX]; /* hashes of the names of the hash fields that
	                                           * the command reads, sets or changes */
	bool sets_fields; /* EFFECT: the command sets the fields */
	uint64_t script; /* SCRIPT: identifies the script */
	size_t nscript_args;
	uint64_t script_args[COMMAND_SAMPLE_ARGS_MAX];
	bool under_lock; /* the client has a lock by LOCK, or a lock of a rule in force */
	size_t nargs; /* number of keys that the command names, watched or not */
	struct buf bytes; /* the bytes of the watched keys, one after the other */
	size_t n; /* number of watched keys */
	struct sighted_key {
		size_t n; /* length of the key in `bytes` */
		struct key_group *group; /* tracker_act.group; NULL: the key has no rule */
		uint64_t owner; /* as tracker_act.owner */
		enum {
			KEY_ANY,
			KEY_LOCK,
			KEY_GUARD_READ,
			KEY_GUARD_WRITTEN
		} use; /* how the command uses a key with a rule */
		bool keeps_read; /* KEY_GUARD_WRITTEN: see tracker_wrote() */
	} keys[];
};

void command_sample_free(struct command_sample *s); /* NULL is allowed */
size_t command_sample_nbytes(const struct command_sample *s); /* bytes of memory */
/* Gives the command, which ran in database `db`, to the tracker. Call it before
 * shared_tracker_forget(). */
void command_sample_complete(const struct command_sample *s, int db,
                             const struct resp_reply *reply);

#endif
