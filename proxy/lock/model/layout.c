/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/model/layout.h"

const struct lock_layout lock_layouts[LOCK_LAYOUTS] = {
	[LOCK_KIND_COUNT] = {
		.evidence = EVIDENCE_FIELD,
		.release = RELEASE_EACH_TRY,
		.by_verb = true,
		.type = SLICE_LIT("hash"),
		.counts = true,
		.expiry_shows = true,
		.ask_as = LOCK_KIND_COUNT,
		.channel = REDISSON_PREFIX,
	},
	[LOCK_KIND_TOKEN] = {
		.evidence = EVIDENCE_RECORD,
		.release = RELEASE_LAST_TRY,
		.by_verb = true,
		.type = SLICE_LIT("string"),
		.expiry_shows = true,
		.ask_as = LOCK_KIND_TOKEN,
	},
	/* (.ask_as: LOCK.INFO recognizes a semaphore by the type of its key.) */
	[LOCK_KIND_LIMIT] = {
		.evidence = EVIDENCE_RECORD_FIELD,
		.release = RELEASE_LAST_TRY,
		.by_verb = true,
		.type = SLICE_LIT("zset"),
		.has_owners = true,
		.ask_as = LOCK_KIND_TOKEN,
	},
	/* (No .ask_as: LOCK.INFO does not name all owners of a read-write lock.) */
	[LOCK_KIND_SHARED] = {
		.evidence = EVIDENCE_FIELD,
		.release = RELEASE_EACH_TRY,
		.by_verb = true,
		.type = SLICE_LIT("m"),
		.side = true,
		.has_owners = true,
		.counts = true,
		.channel = REDISSON_RW_PREFIX,
	},
	[LOCK_KIND_EXCLUSIVE] = {
		.evidence = EVIDENCE_WRITER,
		.release = RELEASE_EACH_TRY,
		.by_verb = true,
		.type = SLICE_LIT("x"),
		.side = true,
		.has_owners = true,
		.counts = true,
		.channel = REDISSON_RW_PREFIX,
	},
	[LOCK_KIND_RULE] = {
		.evidence = EVIDENCE_RECORD,
		.release = RELEASE_VALUE,
		.expiry_shows = true,
		.ask_as = LOCK_KIND_RULE,
	},
	[LOCK_KIND_VALUE] = {
		.evidence = EVIDENCE_RECORD,
		.release = RELEASE_VALUE,
		.by_value = true,
		.expiry_shows = true,
		.ask_as = LOCK_KIND_VALUE,
	},
	[LOCK_KIND_QUORUM] = {
		.by_verb = true,
		.voted = true,
	},
	[LOCK_KIND_GUARD] = {
		.evidence = EVIDENCE_GUARD,
		.expiry_shows = true,
		.ask_as = LOCK_KIND_GUARD,
	},
};
