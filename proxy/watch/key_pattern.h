/* SPDX-License-Identifier: BSD-3-Clause
 *
 * key_pattern: derives the pattern of similar keys from one key: a Redis glob with a `*` for
 * each part that seems to vary from key to key.
 *
 *   lock:order:4711:a8098c1a-f86e-11da-bd1a-00112444be1e   lock:order:*:*
 *   report-2026-11-22                                      report-*
 *   {cart:u17}:lock                                        {cart:u*}:lock
 *
 * These parts vary: numbers, dates, addresses, UUIDs, hexadecimal numbers of at least 8 digits,
 * words of at least 16 letters and digits, the digits at the end of a word, parts with bytes
 * that are not text, and bytes that cannot stand in an ini file. Special characters of globs
 * are escaped. Words that vary show only in several keys: discovery_merge.c and
 * discovery_parts.c find them. No I/O.
 */
#ifndef HASP_WATCH_KEY_PATTERN_H
#define HASP_WATCH_KEY_PATTERN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

/* Appends the shape of `key` to `out`. Returns false if each `*` of the shape stands for digits
 * at the end of a word, because these may be the same in all keys. Then the key itself is the
 * pattern, unless another key has the same shape. */
bool key_pattern(struct buf *out, struct slice key);

/* True if the pattern has a letter, a digit or an escaped character: without one, it matches
 * keys of any use. */
bool key_pattern_has_name(struct slice pattern);

/* Appends the glob that matches only `key`; a `?` stands for a byte that an ini file cannot
 * contain. */
void key_pattern_literal(struct buf *out, struct slice key);

#endif
