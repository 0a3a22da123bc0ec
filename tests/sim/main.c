/* SPDX-License-Identifier: BSD-3-Clause
 *
 *   run [--seed N | --seeds A-B] [--first] [--model NAME] [--quiet-world] [--break NAME]
 *       [--trace] [--fingerprint]
 *
 * Runs seeds of the simulation, by default those of $SIM_SEEDS (A-B) or 1 to 200, and prints
 * those that find something wrong; with --first it ends at the first of them. Exits with 1
 * then, or if there is no seed to run.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/breaks.h"
#include "tests/sim/models.h"

const struct model *const models[] = { &model_plain,     &model_rules,
	                               &model_verbs,     &model_counted,
	                               &model_refreshed, &model_places,
	                               &model_sides,     &model_guards,
	                               &model_circles,   &model_tangles,
	                               &model_quorums,   &model_majorities,
	                               &model_legacy,    NULL };

static uint64_t running; /* the present seed, for the signal handler */

/* hasp found a bug in itself, or the simulation did. */
static void on_abort(int sig)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "seed %llu: aborted\n",
	                 (unsigned long long)running);

	(void)sig;
	(void)!write(STDOUT_FILENO, line, (size_t)n);
}

static const struct model *find_model(const char *name)
{
	for (size_t i = 0; models[i]; i++)
		if (strcmp(models[i]->name, name) == 0)
			return models[i];
	fprintf(stderr, "run: there is no model %s; there are:\n", name);
	for (size_t i = 0; models[i]; i++)
		fprintf(stderr, "  %-12s %s\n", models[i]->name, models[i]->about);
	exit(2);
}

static int no_break(const char *name)
{
	fprintf(stderr, "run: there is no break %s. Those of Lua stand in the scripts; of C:\n",
	        name);
	breaks_list();
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seeds", required_argument, NULL, 'S' },
		{ "model", required_argument, NULL, 'm' },
		{ "break", required_argument, NULL, 'b' },
		{ "first", no_argument, NULL, '1' },
		{ "trace", no_argument, NULL, 't' },
		{ "fingerprint", no_argument, NULL, 'f' },
		{ "quiet-world", no_argument, NULL, 'q' },
		{ NULL, 0, NULL, 0 },
	};
	struct simulation_opts opts = { 0 };
	const char *seeds = getenv("SIM_SEEDS");
	unsigned long long first = 1, last = 200, nwrong = 0, nrun = 0;
	bool print = false, fingerprint = false, stop_at_first = false;
	int c;

	if (seeds && sscanf(seeds, "%llu-%llu", &first, &last) != 2)
		return 2;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			first = last = strtoull(optarg, NULL, 10);
		else if (c == 'S' && sscanf(optarg, "%llu-%llu", &first, &last) != 2)
			return 2;
		else if (c == 'm')
			opts.model = find_model(optarg);
		else if (c == 'b' && !breaks_plant(optarg))
			return no_break(optarg);
		else if (c == '1')
			stop_at_first = true;
		else if (c == 't')
			print = true;
		else if (c == 'f')
			fingerprint = true;
		else if (c == 'q')
			opts.quiet_world = true;
		else if (c == '?')
			return 2;
	}
	setvbuf(stdout, NULL, print ? _IOFBF : _IOLBF, 1 << 16);
	signal(SIGABRT, on_abort);
	for (unsigned long long seed = first; seed <= last && !(stop_at_first && nwrong);
	     seed++) {
		running = seed;
		nrun++;
		trace_begin(print, fingerprint);
		if (!simulation_run(seed, &opts)) {
			printf("seed %llu: wrong\n", seed);
			nwrong++;
		}
		if (fingerprint)
			printf("seed %llu: fingerprint %016llx\n", seed,
			       (unsigned long long)trace_fingerprint());
	}
	printf("%llu seeds, %llu wrong; simulated %.0f s, %llu faults, %llu locks\n", nrun,
	       nwrong, simulation_totals.seconds, simulation_totals.nfaults,
	       simulation_totals.ngrants);
	return nwrong > 0 || nrun == 0;
}
