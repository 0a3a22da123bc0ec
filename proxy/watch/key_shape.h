/* SPDX-License-Identifier: BSD-3-Clause
 *
 * key_shape: the pattern that a key is one of many of, as one key alone tells it: a Redis glob
 * in which what surely varies from key to key is a `*`.
 *
 *   lock:order:4711:a8098c1a-f86e-11da-bd1a-00112444be1e   lock:order:*:*
 *   report-2026-11-22                                      report-*
 *   {cart:u17}:lock                                        {cart:u*}:lock
 *
 * Numbers, dates, addresses, UUIDs, hexadecimals of 8 digits and more, and letters mixed with
 * digits to 16 and more, vary; so do the digits at the end of a word, and a part between
 * separators that has bytes of no text. Other bytes that cannot stand in a file of settings do,
 * too. What is special in a glob is escaped. Whether words vary is seen only when there are
 * more keys: discovery_merge.c, discovery_parts.c. Pure.
 */
#ifndef HASP_WATCH_KEY_SHAPE_H
#define HASP_WATCH_KEY_SHAPE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

/* Appends the shape of `key` to `out`. False: nothing in it varies for sure; a `*` stands, if
 * there is one, for the digits at the end of words: a key that remains the only one of its
 * shape is its own pattern. */
bool key_shape(struct buf *out, struct slice key);

/* Appends the glob that matches `key` and, but for bytes that cannot be written, nothing else.
 */
void key_shape_literal(struct buf *out, struct slice key);

#endif
