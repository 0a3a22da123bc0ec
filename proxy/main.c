/* SPDX-License-Identifier: BSD-3-Clause
 *
 * main: starts hasp's parts in their order, handles signals, and ends the parts again.
 *
 *   load config -> open listeners -> start workers
 *
 *   SIGHUP       load the file again, and give it to all workers
 *   SIGTERM      drain all workers, join them, and exit
 *   SIGUSR1      log the reports of mode = observe
 *   SIGUSR2      start the next hasp, and hand the clients over when it serves
 *   others       log those that would end hasp
 *
 *   --discover   prints its progress now and then, and the result when the workers have ended
 *   [discover]   writes the result to a file
 *
 * While workers drain, they end one by one, so main sends them no command but to stop.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admin/admin.h"
#include "admin/http.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/log.h"
#include "base/quote.h"
#include "config/config.h"
#include "config/ownership.h"
#include "net/descriptors.h"
#include "process/listeners.h"
#include "process/password_command.h"
#include "process/server_check.h"
#include "process/settings.h"
#include "process/supervision.h"
#include "upgrade.h"
#include "worker/encryption.h"
#include "worker/worker.h"

/* How soon hasp notices that workers have ended, or that the next hasp serves. */
#define MAIN_TICK_SECONDS 0.02
/* How often --discover prints its progress. */
#define MAIN_PROGRESS_SECONDS 10.0

struct process {
	struct cmdline cmdline;
	struct config *config; /* the configuration in force */
	struct config *first; /* the configuration at the start, whose sockets are open */
	struct inherited_fds inherited_fds;
	struct listeners listeners[LISTENERS_USES];
	struct admin *admin; /* the console; NULL: there is none */
	_Atomic int shutdown; /* greatest enum admin_shutdown that console commands asked for */
	double drain_at; /* clock_now() at which lame_duck ends; 0: lame_duck has not begun */
	struct upgrade upgrade;
	bool stale_successor; /* a reload came after the next hasp had started, which may have
	                       * read the old file */
	struct supervision supervision;
	struct worker_shared shared;
	struct http http;
	struct password_renewal renewal;
	double progress_at; /* clock_now() at which --discover prints its progress next */
};

/* Signals that hasp does not use, but that would end it by default. */
static const int main_unused_signals[] = { SIGQUIT, SIGALRM, SIGVTALRM, SIGPROF,
	                                   SIGIO,   SIGPWR,  SIGSTKFLT };

/* Blocks signals, so that an early signal waits until hasp serves. Does not block SIGTERM and
 * SIGINT: before hasp serves, they end it at once. */
static void main_block_signals(sigset_t *blocked, sigset_t *before)
{
	sigemptyset(blocked);
	sigaddset(blocked, SIGHUP);
	sigaddset(blocked, SIGUSR1);
	sigaddset(blocked, SIGUSR2);
	for (size_t i = 0; i < sizeof(main_unused_signals) / sizeof(int); i++)
		sigaddset(blocked, main_unused_signals[i]);
	for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
		sigaddset(blocked, sig);
	pthread_sigmask(SIG_BLOCK, blocked, before);
	/* Ignore signals about failed writes, because each caller handles write()'s error. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

/* Sets the level and the format of the log. */
static void main_use_log(const struct process *p)
{
	int level = (int)p->config->log_level + p->cmdline.verbose;

	log_set_level(level > LOG_SEV_DEBUG ? LOG_SEV_DEBUG : (enum log_severity)level);
	log_set_format(p->config->log_format == LOG_AS_JSON ? LOG_FORMAT_JSON
	                                                    : LOG_FORMAT_LOGFMT);
}

static const char *main_on_off(bool on)
{
	return on ? "on" : "off";
}

/* Opens the log, or reopens a log file that was moved away. */
static int main_open_log(const char *target)
{
	if (log_open(target) == 0)
		return 0;
	log_error("log_open_failed path=%s reason=\"%s\" kept=\"the old log\"", target,
	          strerror(errno));
	return -1;
}

/* Loads the file again. If it has faults, appends the first one to `why`. */
static struct config *main_load_again(const struct cmdline *cmdline, struct buf *why)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	struct config *config = settings_load(cmdline, &faults, &warnings);

	log_lines(LOG_SEV_ERROR, buf_slice(&faults));
	log_lines(LOG_SEV_WARNING, buf_slice(&warnings));
	if (!config) {
		const char *end = memchr(buf_head(&faults), '\n', buf_len(&faults));
		buf_append(why, slice_of(buf_head(&faults), (size_t)(end - buf_head(&faults))));
	}
	buf_release(&faults);
	buf_release(&warnings);
	return config;
}

static void main_log_restart(const struct config *first, const struct config *next)
{
	struct buf restart = BUF_INIT;
	struct slice rest, line;

	config_needs_restart(first, next, &restart);
	rest = buf_slice(&restart);
	while (slice_cut(&rest, '\n', &line))
		log_warning("restart_needed reason=\"%.*s\"", (int)line.n, line.p);
	buf_release(&restart);
}

/* Completes the reason for which hasp does not use a configuration; see ownership_changes(). */
static void main_explain_ownership(struct buf *why)
{
	buf_puts(why, "; clients may have such locks: stop hasp before the change");
}

/* Returns true if the process needs a restart to use `next`, and appends the reason to `why`.
 */
static bool main_needs_restart(const struct process *p, const struct config *next,
                               struct buf *why)
{
	/* Clients keep other state for a cluster than for one server. */
	if ((p->first->cluster.n > 0) != (next->cluster.n > 0)) {
		buf_puts(why, "adding or removing 'cluster' in [upstream] needs a restart");
		return true;
	}
	if (next->discover && p->shared.nworkers > 1) {
		buf_puts(why, "adding [discover] needs a restart with workers = 1");
		return true;
	}
	if (ownership_changes(p->config, next, why)) {
		main_explain_ownership(why);
		return true;
	}
	return false;
}

/* Starts or ends [discover] as `next` says. Call this before the workers get `next`. */
static void main_use_discover(struct process *p, const struct config *next)
{
	bool was = p->config->discover;

	if (was && !next->discover)
		workers_save_discovered(&p->shared, p->config, false);
	workers_discover(&p->shared, next);
	if (was != next->discover)
		log_info("discovery state=%s", main_on_off(next->discover));
}

/* Puts `next` in force, and takes over the caller's reference. */
static void main_use_config(struct process *p, struct config *next)
{
	for (size_t i = 0; i < p->shared.nworkers; i++)
		worker_reload(p->shared.workers[i], next);
	workers_reload_watcher(&p->shared, next);
	http_reload(&p->http, next);
	config_unref(p->config);
	p->config = next;
}

/* Renews the password if it is due. Returns the seconds until the next check. */
static double main_renew_password(struct process *p)
{
	struct config *next = password_renewal_tick(&p->renewal, p->config, &p->shared,
	                                            clock_now());

	if (next)
		main_use_config(p, next);
	return PASSWORD_RENEWAL_SECONDS;
}

/* If `next` has no password for the console, keeps the old one: the open sockets of the console
 * may be ones that need a password. */
static void main_keep_password(const struct config *old, struct config *next)
{
	if (next->admin_password || !old->admin_password)
		return;
	next->admin_password = xstrdup(old->admin_password);
	log_warning("restart_needed reason=\"'password' in [admin]: *** -> none\"");
}

/* Reloads the file. If that fails, appends the reason to `why`. */
static bool main_try_reload(struct process *p, struct buf *why)
{
	struct config *next = main_load_again(&p->cmdline, why), *old = p->config;
	struct slice refusal = SLICE_NONE;

	if (!next) {
		refusal = SLICE_LIT("the file has faults");
	} else if (main_needs_restart(p, next, why)) {
		refusal = buf_slice(why);
	} else if (main_open_log(next->log) < 0) {
		refusal = SLICE_LIT("the log cannot be opened");
		buf_append(why, refusal);
	}
	/* No later step may fail, so that a reload is never half done. */
	if (refusal.n) {
		log_error("reload_failed kept=\"the old configuration\" reason=%s",
		          QUOTE(refusal));
		config_unref(next);
		return false;
	}
	main_log_restart(p->first, next);
	if (next->max_clients > old->max_clients)
		descriptors_raise_limit(next->max_clients);
	config_keep(next, p->first);
	main_keep_password(old, next);
	encryption_follow(next, old);
	main_use_discover(p, next);
	main_use_config(p, next);
	password_renewal_reset(&p->renewal, clock_now());
	main_use_log(p);
	p->stale_successor = p->upgrade.pid > 0;
	log_info("reloaded rules=%zu guards=%zu verbs=%s", next->nrules, next->nguards,
	         main_on_off(next->verbs.enabled));
	return true;
}

/* `passes_on`: the next hasp serves, and gets the signal instead. */
static void main_reload(struct process *p, bool leaving, bool passes_on)
{
	uint64_t asked = p->admin ? admin_reloads(p->admin) : 0;
	struct buf why = BUF_INIT;
	bool done = false;

	/* Do this even if the reload fails: logrotate may have moved the log file away. */
	(void)main_open_log(p->config->log);
	if (leaving) {
		if (passes_on) {
			log_info("reload_passed_on pid=%ld", (long)p->upgrade.pid);
			kill(p->upgrade.pid, SIGHUP);
		} else {
			log_info("reload_failed kept=\"the old configuration\" reason=\"hasp "
			         "is shutting down\"");
		}
		buf_puts(&why, "hasp is shutting down");
	} else {
		supervision_reloads(&p->supervision);
		done = main_try_reload(p, &why);
		supervision_reloaded(&p->supervision, done);
	}
	if (p->admin)
		admin_reloaded(p->admin, asked, done ? p->config : NULL, buf_slice(&why));
	buf_release(&why);
}

static void main_leave(struct process *p, int sig, bool at_once)
{
	supervision_leaves(&p->supervision);
	log_info("shutting_down signal=%d how=%s", sig, at_once ? "\"at once\"" : "draining");
	listeners_unlink(&p->listeners[LISTENERS_CLIENTS]);
	for (size_t i = 0; i < p->shared.nworkers; i++)
		at_once ? worker_stop(p->shared.workers[i])
			: worker_drain(p->shared.workers[i]);
}

/* Begins lame_duck: hasp serves, but /readyz fails. Returns false if hasp must drain at once
 * instead. */
static bool main_begin_lame_duck(struct process *p)
{
	double seconds = (double)p->config->lame_duck_ms / 1000;

	if (p->drain_at > 0 || seconds <= 0 || p->shutdown != ADMIN_DRAIN)
		return false;
	p->drain_at = clock_now() + seconds;
	atomic_store(&p->shared.lame_duck, true);
	log_info("lame_duck seconds=%g effect=\"/readyz fails; then hasp drains\"", seconds);
	return true;
}

/* True if the console's last DRAIN or SHUTDOWN changes nothing, because hasp is already
 * draining or about to drain. */
static bool main_has_obeyed(const struct process *p, bool leaving)
{
	if (p->shutdown == ADMIN_SHUTDOWN_NOW)
		return false;
	return leaving || (p->shutdown == ADMIN_DRAIN && p->drain_at > 0);
}

/* Leaves the sockets and the clients to the next hasp, and drains. */
static void main_hand_over(struct process *p)
{
	int channels[WORKERS_MAX];
	bool given = upgrade_give_channels(&p->upgrade, channels, p->shared.nworkers);

	log_info("upgraded pid=%ld effect=\"the old process drains\"", (long)p->upgrade.pid);
	if (p->stale_successor)
		kill(p->upgrade.pid, SIGHUP);
	supervision_is_handing_over(&p->supervision, p->upgrade.pid);
	listeners_leave(p->listeners);
	if (p->admin)
		admin_leave(p->admin);
	for (size_t i = 0; i < p->shared.nworkers; i++) {
		if (given)
			worker_hand_over(p->shared.workers[i], channels[i]);
		worker_drain(p->shared.workers[i]);
	}
	http_leave(&p->http);
}

/* Gives the workers the channels over which the old hasp hands over its clients. */
static void main_take_over(struct process *p)
{
	int channels[UPGRADE_CHANNELS_MAX];
	size_t n = upgrade_take_channels(&p->upgrade, channels);

	for (size_t i = 0; i < n; i++)
		worker_take_over(p->shared.workers[i % p->shared.nworkers], channels[i]);
	if (!upgrade_awaits_channels(&p->upgrade))
		atomic_fetch_sub(&p->shared.arriving, 1);
}

/* Returns true if the file would give locks of this process's clients other owners or servers
 * in the next process, which serves clients while this one drains. If the file has faults, the
 * next process reports them. */
static bool main_next_changes_owners(const struct process *p, struct buf *why)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	struct config *next = config_load(p->cmdline.file, &faults, &warnings);
	bool changes = next && (ownership_changes(p->config, next, why) ||
	                        ownership_moves(p->first, p->config, next, why));

	if (changes)
		main_explain_ownership(why);
	config_unref(next);
	buf_release(&faults);
	buf_release(&warnings);
	return changes;
}

static void main_upgrade(struct process *p, bool leaving)
{
	struct buf fds = BUF_INIT, text = BUF_INIT, why = BUF_INIT;

	if (leaving) {
		log_warning("upgrade_refused reason=\"hasp is shutting down\"");
		return;
	}
	/* main_poll_upgrade() calls workers_end_upgrade(), also if no upgrade begins. */
	if (!workers_begin_upgrade(&p->shared)) {
		log_warning("upgrade_refused reason=\"hasp is paused\"");
		return;
	}
	if (main_next_changes_owners(p, &why)) {
		log_warning("upgrade_refused reason=%s", QUOTE(buf_slice(&why)));
		buf_release(&why);
		return;
	}
	listeners_serialize(p->listeners, &fds, &text);
	buf_append(&text, slice_of("", 1));
	upgrade_start(&p->upgrade, (const int *)(const void *)buf_head(&fds),
	              buf_len(&fds) / sizeof(int), buf_head(&text), clock_now());
	buf_release(&fds);
	buf_release(&text);
}

/* Returns the shorter of two waits; `a` may be -1, which means no limit. */
static double main_shorter(double a, double b)
{
	return a < 0 || b < a ? b : a;
}

/* Waits for a signal, at most for `seconds`; -1: without a limit. Returns the signal; -1: none
 * came. *by_console: a command of the console sent the signal. */
static int main_await_signal(const sigset_t *signals, double seconds, bool *by_console)
{
	const time_t whole = (time_t)seconds;
	const struct timespec most = { whole, (long)((seconds - (double)whole) * 1e9) };
	siginfo_t info = { 0 };
	int sig = seconds < 0 ? sigwaitinfo(signals, &info)
	                      : sigtimedwait(signals, &info, &most);

	*by_console = sig > 0 && info.si_pid == getpid();
	return sig;
}

static void main_print(FILE *to, struct buf *text)
{
	fprintf(to, "%.*s", (int)buf_len(text), buf_head(text));
	fflush(to);
	buf_release(text);
}

/* Prints the progress of --discover if it is due. Returns the seconds until it is due again. */
static double main_tell_progress(struct process *p)
{
	struct buf line = BUF_INIT;
	double now = clock_now();

	if (now >= p->progress_at) {
		workers_discover_progress(&p->shared, &line);
		main_print(stderr, &line);
		p->progress_at = now + MAIN_PROGRESS_SECONDS;
	}
	return p->progress_at - now;
}

/* Prints the discovered configuration: the final one to stdout, interim ones (`so_far`) to
 * stderr, so that stdout has one file only. */
static void main_print_discovered(struct process *p, bool so_far)
{
	struct buf ini = BUF_INIT;

	workers_discovered(&p->shared, p->config, so_far, &ini);
	main_print(so_far ? stderr : stdout, &ini);
}

static void main_report(struct process *p)
{
	if (p->config->discover_alone) {
		main_print_discovered(p, true);
		return;
	}
	if (!workers_report(&p->shared))
		log_info("observed rules=0 reason=\"no rule has mode = observe\"");
	if (p->config->discover)
		workers_save_discovered(&p->shared, p->config, true);
}

/* Checks the upgrade, and leaves to the next hasp if that serves. */
static enum upgrade_state main_poll_upgrade(struct process *p)
{
	enum upgrade_state upgrade = upgrade_poll(&p->upgrade, clock_now());

	if (p->upgrade.pid == 0)
		workers_end_upgrade(&p->shared);
	if (upgrade == UPGRADE_READY)
		main_hand_over(p);
	return upgrade;
}

/* Waits for signals until the workers have left. */
static void main_serve(struct process *p, const sigset_t *signals)
{
	bool leaving = false; /* the workers are draining */
	bool told = false; /* the next SIGTERM ends hasp at once */

	while (p->shared.running) {
		enum upgrade_state upgrade;
		bool by_console;
		double wait;
		int sig;
		upgrade = main_poll_upgrade(p);
		leaving |= upgrade == UPGRADE_READY;
		if (upgrade_awaits_channels(&p->upgrade))
			main_take_over(p);
		/* Check often while workers drain or an upgrade is under way. No signal reports
		 * that the workers have ended, that the next hasp is ready, or that the old one
		 * has sent channels. */
		wait = supervision_tick(&p->supervision, clock_now());
		if (!leaving && p->config->password_command)
			wait = main_shorter(wait, main_renew_password(p));
		if (leaving || upgrade == UPGRADE_WAITING ||
		    upgrade_awaits_channels(&p->upgrade))
			wait = MAIN_TICK_SECONDS;
		else if (p->config->discover_alone)
			wait = main_shorter(wait, main_tell_progress(p));
		if (p->drain_at > 0 && !leaving) {
			double left = p->drain_at - clock_now();

			wait = main_shorter(wait, left > 0 ? left : 0);
		}
		sig = main_await_signal(signals, wait, &by_console);
		if (sig == SIGHUP) {
			main_reload(p, leaving,
			            leaving && !by_console &&
			                    upgrade_has_successor(&p->upgrade));
		} else if (sig == SIGUSR1) {
			main_report(p);
		} else if (sig == SIGUSR2) {
			main_upgrade(p, leaving || p->drain_at > 0);
		} else if (sig == SIGTERM || sig == SIGINT) {
			if (by_console && main_has_obeyed(p, leaving))
				continue;
			/* The next hasp may serve since the last check. */
			leaving |= main_poll_upgrade(p) == UPGRADE_READY;
			upgrade_abandon(&p->upgrade, "hasp is shutting down");
			if (!leaving && main_begin_lame_duck(p))
				continue;
			main_leave(p, sig, told || p->shutdown == ADMIN_SHUTDOWN_NOW);
			leaving = told = true;
		} else if (sig < 0 && p->drain_at > 0 && !leaving &&
		           clock_now() >= p->drain_at) {
			main_leave(p, SIGTERM, false);
			leaving = told = true;
		} else if (sig > 0) {
			log_info("signal_ignored number=%d name=\"%s\"", sig, strsignal(sig));
		}
	}
}

/* Reports to the service manager and the old hasp that this hasp serves. */
static void main_ready(struct process *p)
{
	bool told;

	supervision_serves(&p->supervision, &p->shared, upgrade_is_successor(&p->upgrade),
	                   clock_now());
	told = upgrade_tell_ready(&p->upgrade);
	inherited_fds_close(&p->inherited_fds, told);
	/* Otherwise the old hasp still serves there. */
	if (!told)
		listeners_leave(p->listeners);
	if (upgrade_awaits_channels(&p->upgrade))
		atomic_fetch_add(&p->shared.arriving, 1);
}

/* The console calls these functions. They send this process the signals that an operator sends
 * by kill(1). */
static void main_on_reload(void *arg)
{
	(void)arg;
	kill(getpid(), SIGHUP);
}

static void main_on_shut_down(void *arg, enum admin_shutdown how)
{
	struct process *p = arg;

	if ((int)how > p->shutdown)
		p->shutdown = (int)how;
	kill(getpid(), SIGTERM);
}

static int main_start_console(struct process *p)
{
	static const struct admin_ops ops = { main_on_reload, main_on_shut_down };
	const struct listeners *l = &p->listeners[LISTENERS_CONSOLE];
	int rc;

	if (l->n == 0)
		return 0;
	p->admin = admin_new(p->config, l->sockets, l->n, &p->shared, &ops, p);
	rc = admin_start(p->admin);
	if (rc != 0)
		log_error("thread_failed thread=console reason=\"%s\"", strerror(rc));
	return rc == 0 ? 0 : -1;
}

static int main_start(struct process *p)
{
	const struct listeners *l = &p->listeners[LISTENERS_CLIENTS];
	const struct listeners *pages = &p->listeners[LISTENERS_HTTP];
	const struct config *config = p->config;
	int rc;

	memory_return_long();
	descriptors_raise_limit(config->max_clients);
	if (inherited_fds_take(&p->inherited_fds) < 0 ||
	    listeners_open(p->listeners, config, &p->inherited_fds) < 0 ||
	    http_open(&p->http, pages->sockets, pages->n) < 0)
		return -1;
	for (size_t i = 0; i < l->nworkers; i++) {
		rc = worker_start(worker_new((int)i, p->config, l->sockets, l->n, &p->shared));
		if (rc != 0) {
			log_error("thread_failed thread=worker reason=\"%s\"", strerror(rc));
			return -1;
		}
	}
	rc = workers_watch(&p->shared, config);
	if (rc != 0)
		log_error("thread_failed thread=watcher reason=\"%s\"", strerror(rc));
	if (rc == 0)
		rc = main_start_console(p);
	return rc == 0 ? http_serve(&p->http, &p->shared, p->config) : -1;
}

static int main_run(struct process *p, sigset_t *signals)
{
	int status = 1;

	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, signals, NULL);
	p->first = config_ref(p->config);
	password_renewal_reset(&p->renewal, clock_now());
	workers_init(&p->shared, p->config);
	workers_discover(&p->shared, p->config);
	if (main_start(p) == 0) {
		log_info("started version=%s workers=%zu upstream=%s rules=%zu guards=%zu "
		         "verbs=%s",
		         PACKAGE_VERSION, p->shared.nworkers,
		         p->config->master ? p->config->master : p->config->address,
		         p->config->nrules, p->config->nguards,
		         main_on_off(p->config->verbs.enabled));
		main_ready(p);
		main_serve(p, signals);
		http_close(&p->http);
		/* Do this before admin_stop(): after it, the file may be the next hasp's. */
		listeners_unlink(&p->listeners[LISTENERS_CONSOLE]);
		if (p->admin)
			admin_stop(p->admin);
		workers_end_watch(&p->shared);
		for (size_t i = 0; i < p->shared.nworkers; i++)
			worker_join(p->shared.workers[i]);
		if (p->admin)
			admin_free(p->admin);
		if (p->shared.handed_over)
			log_info("handed_over clients=%ld", p->shared.handed_over);
		(void)workers_report(&p->shared);
		if (p->config->discover_alone)
			main_print_discovered(p, false);
		else if (p->config->discover)
			workers_save_discovered(&p->shared, p->config, false);
		workers_fini(&p->shared);
		status = 0;
	} else if (strcmp(p->config->log, "stderr") != 0) {
		fprintf(stderr, "hasp: not started; see %s for the reason\n", p->config->log);
	}
	/* This successor could not start, so the old hasp still serves there. */
	if (upgrade_is_successor(&p->upgrade))
		listeners_leave(p->listeners);
	http_close(&p->http);
	listeners_unlink(&p->listeners[LISTENERS_CLIENTS]);
	listeners_unlink(&p->listeners[LISTENERS_CONSOLE]);
	listeners_free(p->listeners);
	inherited_fds_free(&p->inherited_fds);
	config_unref(p->first);
	return status;
}

/* Opens the log and runs hasp. Returns the exit status. */
static int main_with_config(struct process *p, const struct buf *warnings, sigset_t *signals)
{
	const char *log = p->config->log;

	main_use_log(p);
	if (log_open(log) < 0) {
		log_error("log_open_failed path=%s reason=\"%s\"", log, strerror(errno));
		return 1;
	}
	log_lines(LOG_SEV_WARNING, buf_slice(warnings));
	if (geteuid() == 0)
		log_warning("runs_as_root hint=\"start hasp as a user of its own: User= of "
		            "systemd, command_user= of OpenRC, setpriv(1)\"");
	return main_run(p, signals);
}

/* Prints the faults, or the result of `hasp -t`. Returns the exit status. */
static int main_tell(const struct process *p, const struct buf *faults, struct buf *warnings)
{
	struct buf good = BUF_INIT;
	bool fails = !p->config;

	if (p->config && (!p->cmdline.quiet || p->cmdline.strict)) {
		settings_check_machine(p->config, &good, warnings);
		listeners_check(p->config, &good);
		server_check(p->config, &good, warnings);
	}
	if (p->cmdline.quiet && !p->cmdline.strict)
		buf_clear(warnings);
	if (p->cmdline.strict && buf_len(warnings) > 0)
		fails = true;
	settings_print(faults, warnings);
	if (p->config && !p->cmdline.quiet) {
		printf("%.*s", (int)buf_len(&good), buf_len(&good) ? buf_head(&good) : "");
		printf(fails ? "%s: has warnings\n" : "%s: ok\n", config_name(p->config));
	}
	buf_release(&good);
	return fails ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct process p = { .config = NULL };
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	sigset_t signals, before;
	int status;

	descriptors_open_standard();
	main_block_signals(&signals, &before);
	upgrade_init(&p.upgrade, argv, &before);
	supervision_init(&p.supervision);
	status = cmdline_parse(&p.cmdline, argc, argv);
	if (status >= 0)
		return status;
	p.config = settings_load(&p.cmdline, &faults, &warnings);
	if (!p.config || p.cmdline.test) {
		status = main_tell(&p, &faults, &warnings);
	} else {
		status = main_with_config(&p, &warnings, &signals);
	}
	config_unref(p.config);
	buf_release(&faults);
	buf_release(&warnings);
	return status;
}
