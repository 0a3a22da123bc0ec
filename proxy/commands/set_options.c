/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands/set_options.h"

/* EX, PX, EXAT or PXAT. Redis takes the same one twice, the last one counts. */
static enum parsed parse_time(struct set_options *o, bool seconds, bool absolute,
                              struct slice next)
{
	if (o->keepttl || !next.p)
		return PARSED_REFUSED;
	if (o->timed && (o->seconds != seconds || o->absolute != absolute))
		return PARSED_REFUSED;
	o->timed = true;
	o->seconds = seconds;
	o->absolute = absolute;
	o->time = next;
	return PARSED_OK;
}

static const struct {
	const char *name;
	bool seconds, absolute;
} times[] = {
	{ "EX", true, false },
	{ "PX", false, false },
	{ "EXAT", true, true },
	{ "PXAT", false, true },
};

/* Takes the option at argv[*i], and moves *i to what belongs to it. */
static enum parsed parse_option(const struct resp_view *req, size_t *i, struct set_options *o)
{
	struct slice opt = req->argv[*i];
	struct slice next = *i + 1 < req->argc ? req->argv[*i + 1] : SLICE_NONE;

	for (size_t k = 0; k < sizeof(times) / sizeof(*times); k++)
		if (args_option(opt, times[k].name)) {
			++*i;
			return parse_time(o, times[k].seconds, times[k].absolute, next);
		}
	if (args_option(opt, "NX"))
		o->nx = true;
	else if (args_option(opt, "XX"))
		o->xx = true;
	else if (args_option(opt, "GET"))
		o->get = true;
	else if (args_option(opt, "KEEPTTL"))
		o->keepttl = true;
	else
		return PARSED_UNKNOWN;
	return PARSED_OK;
}

enum parsed set_options_parse(const struct resp_view *req, struct set_options *o)
{
	return set_options_parse_from(req, 3, o);
}

enum parsed set_options_parse_from(const struct resp_view *req, size_t first,
                                   struct set_options *o)
{
	enum parsed result = PARSED_OK;

	*o = (struct set_options){ 0 };
	/* Arguments after an unknown option may belong to it: only Redis can refuse them. */
	for (size_t i = first; i < req->argc && result != PARSED_REFUSED; i++) {
		enum parsed one = parse_option(req, &i, o);

		if (result == PARSED_OK)
			result = one;
	}
	if (result == PARSED_OK && ((o->nx && o->xx) || (o->keepttl && o->timed)))
		return PARSED_REFUSED;
	return result;
}
