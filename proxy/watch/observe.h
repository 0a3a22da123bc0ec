/* SPDX-License-Identifier: BSD-3-Clause
 *
 * observe: what the tracker has seen of the rules and guards in mode OBSERVE, for the log.
 *
 * A guard counts two things. A write is stale when its client read the key before another
 * client's last write to it. An update is lost when what is stored now does not descend from
 * it: each write descends from what its client had read. Stale writes lose updates, and a chain
 * of them may bring some back: of writes numbered 1 to n, as many are lost as the chain that
 * leads to the last one leaves out, and for an application that counts, that is exactly how
 * much the sum is short.
 */
#ifndef HASP_WATCH_OBSERVE_H
#define HASP_WATCH_OBSERVE_H

#include "watch/tracker.h"

/* Appends lines for the log: each rule's totals, and the keys that were harmed most. None when
 * no rule ever observed. */
void observe_report(struct tracker *t, double now, struct buf *out);

#endif
