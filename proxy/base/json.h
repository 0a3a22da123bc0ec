/* SPDX-License-Identifier: BSD-3-Clause
 *
 * json: writes JSON (RFC 8259) that is valid for any input: in texts, bytes that are not UTF-8
 * become U+FFFD; a number that JSON cannot express becomes null. The caller must open and
 * close objects and arrays in pairs.
 */
#ifndef HASP_BASE_JSON_H
#define HASP_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct json {
	struct buf *out;
	bool follows; /* the object or array has an earlier element */
};

/* `name`, a plain word, is that of a member of an object; NULL in an array. */

/* Open and close an object or an array: `bracket` is '{' or '[', then '}' or ']'. */
void json_open(struct json *j, const char *name, char bracket);
void json_close(struct json *j, char bracket);

void json_text(struct json *j, const char *name, struct slice text);
void json_word(struct json *j, const char *name, const char *word); /* NULL: null */
void json_count(struct json *j, const char *name, uint64_t n);
/* Writes the number with this many digits after the point. */
void json_number(struct json *j, const char *name, double value, int digits);
void json_bool(struct json *j, const char *name, bool value);

#endif
