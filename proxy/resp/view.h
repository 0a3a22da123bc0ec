/* SPDX-License-Identifier: BSD-3-Clause
 *
 * view: the arguments of one whole request, as slices of the bytes it came in.
 */
#ifndef HASP_RESP_VIEW_H
#define HASP_RESP_VIEW_H

#include <stddef.h>

#include "base/slice.h"

struct resp_view {
	size_t argc; /* >= 1 when handed to anybody */
	const struct slice *argv; /* argc slices; owned by whoever made the view */
};

#endif
