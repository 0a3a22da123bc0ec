/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/cmdline.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_FILE "/etc/hasp/hasp.ini"

/* The codes of the options that have no letter. */
#define OPTION_DISCOVER 256
#define OPTION_STRICT 257

static void cmdline_usage(FILE *out)
{
	fputs("usage: hasp [-t [-q] [--strict]] [-v] [-c FILE | FILE]\n"
	      "       hasp --discover HOST:PORT [-v] [-c FILE]\n"
	      "       hasp --version | --help\n"
	      "\n"
	      "  FILE           configuration file; default: " DEFAULT_FILE " if that exists,\n"
	      "                 else all settings have their defaults\n"
	      "  -c, --config   the same, as an option\n"
	      "  -t, --test     check the configuration, query the server, and exit\n"
	      "  -q, --quiet    with -t: print only faults of the configuration\n"
	      "  --strict       with -t: fail also on warnings and if the server does not "
	      "answer\n"
	      "  --discover     pass all commands to this Redis, watch them, and at the end "
	      "print\n"
	      "                 sections for what should be locked; FILE, if given, has the\n"
	      "                 settings of [hasp] and [upstream]\n"
	      "  -v, --verbose  log more; each -v adds one level\n"
	      "  -V, --version  print the version\n"
	      "  -h, --help     print this\n",
	      out);
}

/* Uses the default file if it exists. Returns -1 to continue, else the exit status. */
static int cmdline_default_file(struct cmdline *o)
{
	if (access(DEFAULT_FILE, F_OK) == 0)
		o->file = DEFAULT_FILE;
	else if (errno != ENOENT && errno != ENOTDIR) {
		fprintf(stderr, "hasp: %s: %s; name a file that can be read\n", DEFAULT_FILE,
		        strerror(errno));
		return 1;
	}
	return -1;
}

/* Finds the file: after -c, as an argument alone, or the default. Returns -1 to continue, else
 * the exit status. */
static int cmdline_take_file(struct cmdline *o, int argc, char **argv)
{
	if (optind < argc && !o->file)
		o->file = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "hasp: unexpected argument '%s'\n", argv[optind]);
		cmdline_usage(stderr);
		return 2;
	}
	if (o->strict && !o->test) {
		fputs("hasp: --strict needs -t\n", stderr);
		return 2;
	}
	return o->file || o->discover ? -1 : cmdline_default_file(o);
}

int cmdline_parse(struct cmdline *o, int argc, char **argv)
{
	static const struct option longer[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "test", no_argument, NULL, 't' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "strict", no_argument, NULL, OPTION_STRICT },
		{ "daemon", no_argument, NULL, 'd' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ "discover", required_argument, NULL, OPTION_DISCOVER },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "c:tqdvVh", longer, NULL)) != -1) {
		switch (c) {
		case 'c':
			o->file = optarg;
			break;
		case 't':
			o->test = true;
			break;
		case 'q':
			o->quiet = true;
			break;
		case 'd':
			fputs("hasp: there is no -d: hasp stays in the foreground; expected a "
			      "service of systemd or OpenRC, or a container\n",
			      stderr);
			return 2;
		case 'v':
			o->verbose++;
			break;
		case OPTION_STRICT:
			o->strict = true;
			break;
		case OPTION_DISCOVER:
			o->discover = optarg;
			break;
		case 'V':
			puts("hasp " PACKAGE_VERSION);
			return 0;
		case 'h':
			cmdline_usage(stdout);
			return 0;
		default:
			cmdline_usage(stderr);
			return 2;
		}
	}
	return cmdline_take_file(o, argc, argv);
}
