# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154
#
# Starts sentinels with a primary and two replicas, or a cluster of three primaries with a replica
# each, for contrib/quickstart. Sourced, not run; $dir is where their files go.
#
# They have a loopback address of their own, where all ports are free.

host=127.$((RANDOM % 254 + 1)).$((RANDOM % 256)).$((RANDOM % 254 + 1))
declare -A server_pids=()

# server PORT [redis-server's options]
server() {
	local port=$1
	shift
	mkdir -p "$dir/$port"
	(cd "$dir/$port" && exec redis-server "$@") >"$dir/$port.log" 2>&1 &
	server_pids[$port]=$!
}

# node PORT [redis-server's options]: one that has data
node() {
	server "$1" --port "$1" --bind "$host" --protected-mode no --save '' --appendonly no \
		--repl-diskless-sync-delay 0 "${@:2}"
}

ask() { # port, command
	redis-cli -h "$host" -p "$@"
}

# says TEXT PORT COMMAND...: what the server answers contains the text
says() {
	ask "${@:2}" | grep -q "$1"
}

start_sentinel() {
	local port
	node 6379
	until_true 'the primary' "$dir/6379.log" ask 6379 ping
	for port in 6380 6381; do
		node "$port" --replicaof "$host 6379" --replica-announce-ip "$host"
	done
	for port in 6380 6381; do
		until_true "replica $port" "$dir/$port.log" says master_link_status:up "$port" info replication
	done
	for port in 26379 26380 26381; do
		mkdir -p "$dir/$port"
		cat >"$dir/$port/sentinel.conf" <<-CONF
			port $port
			bind $host
			protected-mode no
			sentinel announce-ip $host
			sentinel monitor mymaster $host 6379 2
			sentinel down-after-milliseconds mymaster 1000
			sentinel failover-timeout mymaster 5000
		CONF
		server "$port" sentinel.conf --sentinel
	done
	for port in 26379 26380 26381; do
		until_true "sentinel $port" "$dir/$port.log" says '^OK 3 usable' "$port" sentinel ckquorum mymaster
	done
	upstream="sentinels = $host:26379 $host:26380 $host:26381
master = mymaster"
}

start_cluster() {
	local port
	for port in {7000..7005}; do
		node "$port" --cluster-enabled yes --cluster-node-timeout 2000 --cluster-announce-ip "$host"
	done
	for port in {7000..7005}; do
		until_true "node $port" "$dir/$port.log" ask "$port" ping
	done
	quietly redis-cli --cluster create "$host":{7000..7005} --cluster-replicas 1 --cluster-yes || exit 2
	for port in {7000..7005}; do
		until_true "node $port" "$dir/$port.log" says cluster_state:ok "$port" cluster info
	done
	upstream="cluster = $host:7000 $host:7001 $host:7002"
}

# The port of the primary that has a key.
primary_of() { # key
	local port
	for port in "${!server_pids[@]}"; do
		if [ "$port" -lt 26379 ] && says '^master$' "$port" role &&
			! says '^MOVED' "$port" exists "$1"; then
			echo "$port"
			return
		fi
	done
}

kill_primary_of() { # key
	local port
	port=$(primary_of "$1")
	kill -9 "${server_pids[$port]}"
	wait "${server_pids[$port]}" 2>/dev/null || :
	unset "server_pids[$port]"
}

stop_servers() {
	[ ${#server_pids[@]} -eq 0 ] || { kill "${server_pids[@]}" && wait "${server_pids[@]}"; } 2>/dev/null || :
}
