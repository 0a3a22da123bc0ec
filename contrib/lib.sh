# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
#
# Shared by the scripts in this directory: lists of the Debian packages that they need, and
# functions such as the out-of-tree build. Sourced, not run.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# npm keeps its cache below $HOME, which a container's user may lack.
if [ ! -w "${HOME:-/nonexistent}" ]; then
	export HOME=$top/build/home
	mkdir -p "$HOME"
fi

# Each entry is a package, or package:command if a command from elsewhere also suffices.
build_packages=(autoconf automake gcc libc6-dev make pkg-config:pkg-config
                libev-dev libhiredis-dev libinih-dev libmicrohttpd-dev libssl-dev)
# What contrib/build-deb needs besides build_packages, and what tests/deb needs to try the package.
deb_packages=(build-essential debhelper)
deb_test_packages=(lintian mmdebstrap)
redis_packages=(redis-server:redis-server redis-tools:redis-cli)
php_packages=(php-cli php-redis)
core_test_packages=(libcmocka-dev liblua5.1-0-dev python3-pytest python3-pytest-timeout python3-pytest-xdist
                    python3-redis python3-yaml openssl:openssl libnss-wrapper)
test_packages=("${core_test_packages[@]}" clang libclang-rt-dev lld:ld.lld llvm libfaketime
               php-predis libredis-perl ruby ruby-redis nodejs:node npm:npm nutcracker:nutcracker
               chromium:chromium chromium-driver:chromedriver
               systemd:systemd-analyze prometheus:promtool)
# What contrib/check nightly needs besides test_packages.
nightly_packages=(iproute2:ip iptables:iptables golang-go:go golang-github-masterminds-sprig-dev
                  golang-k8s-sigs-yaml-dev mmdebstrap)
# What contrib/tour needs besides redis_packages and php_packages.
tour_packages=(openssl:openssl python3 python3-redis chromium:chromium)
lint_packages=(clang-format:clang-format clang-tidy:clang-tidy cppcheck groff-base:groff lua-check mandoc
               shellcheck python3)

say() {
	printf '%s\n' "$*" >&2
}

# Runs a command and shows what it printed only if it fails.
quietly() {
	local log status=0
	log=$(mktemp)
	"$@" >"$log" 2>&1 </dev/null || status=$?
	if [ "$status" -ne 0 ]; then
		cat "$log" >&2
		say "failed ($status): $*"
	fi
	rm -f "$log"
	return "$status"
}

have() {
	case $1 in
	*:*) command -v "${1#*:}" >/dev/null && return ;;
	esac
	[ "$(dpkg-query -W -f '${db:Status-Status}' "${1%%:*}" 2>/dev/null)" = installed ]
}

# install_missing PACKAGE...: installs missing packages as root, or by a sudo that asks for no
# password. If neither is possible, prints one message with all missing packages: call it once.
install_missing() {
	local entry missing=() sudo=()
	for entry; do
		have "$entry" || missing+=("${entry%%:*}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if ! command -v apt-get >/dev/null; then
		say "install these packages, whose names may differ on your system: ${missing[*]}"
		return 1
	fi
	[ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
	if ! "${sudo[@]}" true 2>/dev/null </dev/null; then
		say "packages are missing, and only root can install them:" \
			"apt-get install --no-install-recommends ${missing[*]}"
		return 1
	fi
	say "installing ${missing[*]}"
	quietly "${sudo[@]}" apt-get update &&
		quietly "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
			apt-get install -y --no-install-recommends "${missing[@]}"
}

# Installs npm packages that the end-to-end tests and the applications in tests/apps need.
install_npm_packages() (
	cd "$top/tests/e2e" || return
	[ node_modules/.package-lock.json -nt package-lock.json ] ||
		quietly npm ci --no-audit --no-fund
)

# Makes empty files for the dependencies of the objects. For each one that is missing, configure would
# start several processes.
make_depfiles() { # DIR
	local names
	# shellcheck disable=SC2016 # $(DEPDIR) is a variable of make
	names=$(sed -n 's/^@AMDEP_TRUE@@am__include@ @am__quote@\(.*\)$(DEPDIR)\(.*\.Po\)@.*/\1.deps\2/p' "$top/Makefile.in")
	(cd "$1" && xargs dirname <<<"$names" | sort -u | xargs mkdir -p && xargs touch <<<"$names")
}

# build DIR [configure's arguments]: builds hasp in DIR, which it configures only once.
build() {
	local dir=$1
	shift
	[ -x "$top/configure" ] || (cd "$top" && quietly ./autogen.sh) || return
	mkdir -p "$dir"
	if [ ! -f "$dir/Makefile" ]; then
		make_depfiles "$dir" || return
		(cd "$dir" && quietly "$top/configure" "$@") || return
	fi
	quietly make -C "$dir" -j "$(nproc)"
}

# until_true WHAT LOG COMMAND...: runs the command until it succeeds. After two minutes, shows the
# log and exits.
until_true() {
	local what=$1 log=$2 tries=2400
	shift 2
	until "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		if [ $tries -eq 0 ]; then
			say "$what: not ready after two minutes. Its log:"
			cat "$log" >&2
			exit 2
		fi
		sleep 0.05
	done
}

# value KEY SUMMARY: prints the value of a key in a line of key=value pairs.
value() {
	local rest=" $2"
	rest=${rest#* "$1"=}
	echo "${rest%% *}"
}
