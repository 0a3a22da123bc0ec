/* SPDX-License-Identifier: BSD-3-Clause
 *
 * utf8: which bytes are characters, for texts that must have no others. Source: RFC 3629.
 */
#ifndef HASP_BASE_UTF8_H
#define HASP_BASE_UTF8_H

#include "base/slice.h"

/* In the place of a byte that is of no character. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* The length of the character that `s` begins with; 0: it begins with none, or is empty. */
size_t utf8_length(struct slice s);

#endif
