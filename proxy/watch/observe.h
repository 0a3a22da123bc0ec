/* SPDX-License-Identifier: BSD-3-Clause
 *
 * observe: writes the tracker's report on the rules and guards in mode OBSERVE, for the log.
 *
 * A guard counts two things. A write is stale when its client read the key before another
 * client's last write to it. An update is lost when the stored value does not descend from it:
 * each write descends from the value that its client had read. Stale writes lose updates, and a
 * chain of them may bring some back. The number of lost writes is the number of writes that the
 * chain to the last one leaves out. If the application counts, its sum is short by exactly this
 * number.
 */
#ifndef HASP_WATCH_OBSERVE_H
#define HASP_WATCH_OBSERVE_H

#include "watch/tracker.h"

/* Appends lines for the log: each rule's totals, and the keys that were harmed most. None when
 * no rule ever observed. */
void observe_report(struct tracker *t, double now, struct buf *out);

#endif
