/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/settings.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fatal.h"
#include "commands/learn.h"
#include "config/config.h"
#include "config/value.h"
#include "lock/guard/check_commands.h"
#include "process/password_command.h"
#include "process/server_check.h"
#include "worker/encryption.h"

#define DEFAULT_FILE "/etc/hasp/hasp.ini"

/* The codes of the command line's options without a letter. */
#define OPTION_DISCOVER 256
#define OPTION_STRICT 257

static void cmdline_usage(FILE *out)
{
	fputs("usage: hasp [-t [-q] [--strict]] [-v] [-c FILE | FILE]\n"
	      "       hasp --discover HOST:PORT [-t] [-v] [-c FILE]\n"
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
	      "                 sections for what should be locked; FILE, which has no "
	      "default\n"
	      "                 here, may have no [lock], [guard] and [verbs]\n"
	      "  -v, --verbose  log more; each -v adds one level\n"
	      "  -V, --version  print the version\n"
	      "  -h, --help     print this\n",
	      out);
}

/* Uses the default ini file if it exists. Returns -1 to continue, else the exit status. */
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

/* Finds the ini file: the argument of -c, an argument without an option, or the default file.
 * Checks that the options fit together. Returns -1 to continue, else the exit status. */
static int cmdline_take_file(struct cmdline *o, int argc, char **argv)
{
	const char *fault;

	if (optind < argc && !o->file)
		o->file = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "hasp: unexpected argument '%s'\n", argv[optind]);
		cmdline_usage(stderr);
		return 2;
	}
	if ((o->strict || o->quiet) && !o->test) {
		fprintf(stderr, "hasp: %s needs -t\n", o->strict ? "--strict" : "-q");
		return 2;
	}
	if (o->discover && (fault = value_address_fault(o->discover, ADDRESS_TO_CONNECT))) {
		fprintf(stderr, "hasp: --discover %s: %s; expected HOST:PORT, or unix:/PATH\n",
		        o->discover, fault);
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

/* --- the configuration ------------------------------------------------------------------- */

static size_t settings_on_commands(void *arg, const redisReply *reply)
{
	return learn_commands(arg, reply);
}

/* Asks Redis which commands it has, and uses the answer to check the commands that guards name.
 * Returns the number of faults. */
static size_t settings_check_guards(const struct config *c, struct buf *faults,
                                    struct buf *warnings)
{
	struct ask opts;
	struct server_place server;
	struct commands *t;
	struct buf why = BUF_INIT;
	int rc;
	size_t n;

	if (c->nguards == 0)
		return 0;
	t = commands_new();
	rc = server_find(&server, c, &why);
	if (rc == 0) {
		opts = server_ask(c, server.address);
		rc = ask_commands(&opts, settings_on_commands, t, &why);
	}
	if (rc < 0) {
		sources_print(&c->sources, c->guards[0]->section.line, warnings);
		buf_printf(warnings,
		           ": hasp checks the commands of guards only in part, since it cannot "
		           "ask Redis at %s: %.*s; it checks the rest when Redis answers\n",
		           server.name, (int)buf_len(&why), buf_head(&why));
	}
	n = check_commands(c, t, faults);
	buf_release(&why);
	commands_free(t);
	return n;
}

enum settings_access { ACCESS_UNKNOWN, ACCESS_OPEN, ACCESS_REFUSED };

static size_t settings_on_access(void *arg, const redisReply *reply)
{
	enum settings_access *access = arg;

	*access = reply->type == REDIS_REPLY_ERROR ? ACCESS_REFUSED : ACCESS_OPEN;
	return 0;
}

/* Warns if other machines can reach a listener, and Redis requires no password. Redis'
 * protected mode does not help: to Redis, all of hasp's clients are on this machine. */
static void settings_check_access(const struct config *c, struct buf *warnings)
{
	enum settings_access access = ACCESS_UNKNOWN;
	struct ask opts;
	const struct strings *l = &c->listen;
	struct server_place server;
	struct buf why = BUF_INIT;
	size_t i = 0;

	while (i < l->n && value_address_is_local(l->v[i]))
		i++;
	if (i == l->n)
		return;
	if (server_find(&server, c, &why) == 0 && value_address_is_local(server.name)) {
		opts = server_ask(c, server.address);
		opts.user = opts.password = NULL;
		(void)!ask_commands(&opts, settings_on_access, &access, &why);
	} else {
		access = ACCESS_REFUSED;
	}
	buf_release(&why);
	if (access == ACCESS_OPEN || (access == ACCESS_UNKNOWN && !c->upstream_password)) {
		sources_print(&c->sources, l->lines[i], warnings);
		buf_printf(warnings,
		           ": other machines can reach '%s' of 'listen', but Redis at %s %s; "
		           "set a password in Redis, since its protected mode takes all "
		           "clients of hasp for local ones\n",
		           l->v[i], server.name,
		           access == ACCESS_OPEN
		                   ? "requires no password"
		                   : "does not report whether it requires a password");
	}
}

/* Warns if the directory of `path`, which `option` names, does not exist. */
static void settings_check_directory(const struct config *c, const char *option,
                                     const char *path, struct buf *warnings)
{
	char directory[PATH_MAX];
	const char *slash = path && *path == '/' ? strrchr(path, '/') : NULL;
	struct stat st;

	if (!slash || slash == path)
		return;
	snprintf(directory, sizeof(directory), "%.*s", (int)(slash - path), path);
	if (stat(directory, &st) == 0 && S_ISDIR(st.st_mode))
		return;
	buf_printf(warnings, "%s: '%s' is '%s', but there is no directory %s\n", config_name(c),
	           option, path, directory);
}

static void settings_check_sockets(const struct config *c, const struct strings *addresses,
                                   struct buf *warnings)
{
	for (size_t i = 0; i < addresses->n; i++)
		if (strncmp(addresses->v[i], "unix:", 5) == 0)
			settings_check_directory(c, "listen", addresses->v[i] + 5, warnings);
}

void settings_check_machine(const struct config *c, struct buf *good, struct buf *warnings)
{
	settings_check_directory(c, "log", c->log, warnings);
	settings_check_directory(c, "file", c->discover_file, warnings);
	settings_check_sockets(c, &c->listen, warnings);
	settings_check_sockets(c, &c->admin_listen, warnings);
	if (!c->nrules && !c->nguards && !c->verbs.enabled && !c->discover)
		buf_printf(good, "%s: no rules: nothing is locked\n", config_name(c));
}

static void settings_print_lines(const char *before, struct slice lines)
{
	struct slice line;

	while (slice_cut(&lines, '\n', &line))
		fprintf(stderr, "%s%.*s\n", before, (int)line.n, line.p);
}

void settings_print(const struct buf *faults, const struct buf *warnings)
{
	settings_print_lines("", buf_slice(faults));
	settings_print_lines("warning: ", buf_slice(warnings));
}

/* Sets the options that --discover needs. Rejects a file with sections that exclude --discover.
 * Returns the number of faults. */
static size_t settings_use_discover(struct config *c, const char *address, struct buf *faults)
{
	if (c->nrules || c->nguards || c->verbs.enabled || c->master || c->cluster.n) {
		sources_print(&c->sources, 0, faults);
		buf_puts(faults,
		         ": --discover only watches, and only one server; expected a file "
		         "without [lock], [guard], [verbs], sentinels and cluster\n");
		return 1;
	}
	free(c->address);
	c->address = xstrdup(address);
	/* With several workers, hasp would not know the order of commands on one key. */
	c->workers = 1;
	c->discover = c->discover_alone = true;
	return 0;
}

struct config *settings_load(const struct cmdline *cmdline, struct buf *faults,
                             struct buf *warnings)
{
	struct config *c = config_load(cmdline->file, faults, warnings);

	if (!c)
		return NULL;
	if ((cmdline->discover && settings_use_discover(c, cmdline->discover, faults) > 0) ||
	    password_command_load(c, faults) < 0 || encryption_load(c, faults) > 0 ||
	    check_verbs(c, faults) > 0 || settings_check_guards(c, faults, warnings) > 0) {
		config_unref(c);
		return NULL;
	}
	settings_check_access(c, warnings);
	return c;
}
