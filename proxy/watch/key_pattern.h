/* SPDX-License-Identifier: BSD-3-Clause
 *
 * key_pattern: derives from one key the pattern of keys like it: a Redis glob with a `*` for
 * each part that surely varies from key to key.
 *
 *   lock:order:4711:a8098c1a-f86e-11da-bd1a-00112444be1e   lock:order:*:*
 *   report-2026-11-22                                      report-*
 *   {cart:u17}:lock                                        {cart:u*}:lock
 *
 * These parts vary: numbers, dates, addresses, UUIDs, hexadecimals of 8 digits and more,
 * letters mixed with digits to 16 and more, and the digits at the end of a word. A part between
 * separators varies, too, if it has bytes that are no text, as do other bytes that cannot stand
 * in a configuration file. Special characters of globs are escaped. Only several keys show
 * whether words vary: discovery_merge.c, discovery_parts.c. Pure.
 */
#ifndef HASP_WATCH_KEY_PATTERN_H
#define HASP_WATCH_KEY_PATTERN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

/* Appends the shape of `key` to `out`. Returns false if no part is sure to vary: then `*`
 * stands only for digits at the end of words, and a key that remains the only one of its shape
 * is its own pattern. */
bool key_pattern(struct buf *out, struct slice key);

/* Appends the glob that matches `key` and, but for bytes that cannot be written, nothing else.
 */
void key_pattern_literal(struct buf *out, struct slice key);

#endif
