/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/checks_place.h"

#include "base/fatal.h"
#include "config/table.h"

struct checks_place *checks_place(const struct checks_section *s, const char *name)
{
	const struct option *o = table_find(s->kind, name);

	HASP_ASSERT(o);
	return &s->places[o - table_options];
}
