# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
#
# What the scripts in this directory share: Debian's packages that they need,
# in one place, and an out-of-tree build. Sourced, not run.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# npm keeps its cache below $HOME. A container's user may have none.
if [ ! -w "${HOME:-/nonexistent}" ]; then
	export HOME=$top/build/home
	mkdir -p "$HOME"
fi

# A package, or package:command where a command from elsewhere will do as well.
build_packages=(autoconf automake gcc libc6-dev make pkg-config:pkg-config
                libev-dev libhiredis-dev libinih-dev libmicrohttpd-dev libssl-dev)
# Beside build_packages: what contrib/build-deb needs; and to try the package out, tests/deb.
deb_packages=(build-essential debhelper)
deb_test_packages=(lintian mmdebstrap)
redis_packages=(redis-server:redis-server redis-tools:redis-cli)
php_packages=(php-cli php-redis)
core_test_packages=(libcmocka-dev liblua5.1-0-dev python3-pytest python3-pytest-timeout python3-pytest-xdist
                    python3-redis python3-yaml openssl:openssl libnss-wrapper)
test_packages=("${core_test_packages[@]}" clang libclang-rt-dev llvm libfaketime
               php-predis libredis-perl ruby ruby-redis nodejs:node npm:npm nutcracker:nutcracker
               chromium:chromium chromium-driver:chromedriver
               systemd:systemd-analyze prometheus:promtool)
# Beside test_packages: what contrib/check nightly needs.
nightly_packages=(iproute2:ip iptables:iptables golang-go:go golang-github-masterminds-sprig-dev
                  golang-k8s-sigs-yaml-dev mmdebstrap)
# Beside redis_packages and php_packages: what contrib/tour needs.
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

# install_missing PACKAGE...: installs what is missing as root, or by a sudo that asks for no
# password. If neither is possible, one message names all missing packages. So call it once.
install_missing() {
	local entry missing=() sudo=()
	for entry; do
		have "$entry" || missing+=("${entry%%:*}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if ! command -v apt-get >/dev/null; then
		say "missing, under whatever name your system has for them: ${missing[*]}"
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

# Those that the end-to-end tests and the applications in tests/apps need.
install_npm_packages() (
	cd "$top/tests/e2e" || return
	[ node_modules/.package-lock.json -nt package-lock.json ] ||
		quietly npm ci --no-audit --no-fund
)

# build DIR [configure's arguments]: builds in DIR, which is configured once.
build() {
	local dir=$1
	shift
	[ -x "$top/configure" ] || (cd "$top" && quietly ./autogen.sh) || return
	mkdir -p "$dir"
	if [ ! -f "$dir/Makefile" ]; then
		(cd "$dir" && quietly "$top/configure" "$@") || return
	fi
	quietly make -C "$dir" -j "$(nproc)"
}

# until_true WHAT LOG COMMAND...: polls for two minutes, then shows the log and gives up.
until_true() {
	local what=$1 log=$2 tries=2400
	shift 2
	until "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		if [ $tries -eq 0 ]; then
			say "$what: waited in vain. Its log:"
			cat "$log" >&2
			exit 2
		fi
		sleep 0.05
	done
}

# value KEY SUMMARY: in a line of key=value pairs.
value() {
	local rest=" $2"
	rest=${rest#* "$1"=}
	echo "${rest%% *}"
}
