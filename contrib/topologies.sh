# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154
#
# Starts sentinels with a primary and two replicas, or a cluster of three primaries with a replica
# each, for contrib/quickstart. contrib/tour uses only $host. Sourced, not run; the servers' files go
# to $dir.
#
# The servers listen at a loopback address of their own, where all ports are free except those of
# servers that listen at all addresses.

host=127.$((RANDOM % 254 + 1)).$((RANDOM % 256)).$((RANDOM % 254 + 1))
declare -A server_pids=()

# Prints the first of several consecutive free ports.
free_ports() { # from, how many
	local first=$1 port=$1
	while [ "$port" -lt $((first + $2)) ]; do
		! (: <"/dev/tcp/$host/$port") 2>/dev/null || first=$((port + 1))
		port=$((port + 1))
	done
	echo "$first"
}

# server PORT [redis-server's options]
server() {
	local port=$1
	shift
	mkdir -p "$dir/$port"
	(cd "$dir/$port" && exec redis-server "$@") >"$dir/$port.log" 2>&1 &
	server_pids[$port]=$!
}

# node PORT [redis-server's options]: starts a server that is no sentinel
node() {
	server "$1" --port "$1" --bind "$host" --protected-mode no --save '' --appendonly no \
		--repl-diskless-sync-delay 0 "${@:2}"
}

ask() { # port, command
	redis-cli -h "$host" -p "$@"
}

# says TEXT PORT COMMAND...: succeeds if the server's answer contains the text
says() {
	ask "${@:2}" | grep -q "$1"
}

start_sentinel() {
	local port first first_sentinel
	first=$(free_ports 6379 3)
	first_sentinel=$(free_ports 26379 3)
	local others=($((first + 1)) $((first + 2)))
	local sentinels=("$first_sentinel" $((first_sentinel + 1)) $((first_sentinel + 2)))
	node "$first"
	until_true 'the primary' "$dir/$first.log" ask "$first" ping
	for port in "${others[@]}"; do
		node "$port" --replicaof "$host $first" --replica-announce-ip "$host"
	done
	for port in "${others[@]}"; do
		until_true "replica $port" "$dir/$port.log" says master_link_status:up "$port" info replication
	done
	for port in "${sentinels[@]}"; do
		mkdir -p "$dir/$port"
		cat >"$dir/$port/sentinel.conf" <<-CONF
			port $port
			bind $host
			protected-mode no
			sentinel announce-ip $host
			sentinel monitor mymaster $host $first 2
			sentinel down-after-milliseconds mymaster 3000
			sentinel failover-timeout mymaster 5000
		CONF
		server "$port" sentinel.conf --sentinel
	done
	for port in "${sentinels[@]}"; do
		until_true "sentinel $port" "$dir/$port.log" says '^OK 3 usable' "$port" sentinel ckquorum mymaster
	done
	replicas=2
	upstream="sentinels = ${sentinels[*]/#/$host:}
master = mymaster"
}

start_cluster() {
	local port first
	first=$(free_ports 7000 6)
	local ports=("$first" $((first + 1)) $((first + 2)) $((first + 3)) $((first + 4)) $((first + 5)))
	for port in "${ports[@]}"; do
		node "$port" --cluster-enabled yes --cluster-node-timeout 3000 --cluster-announce-ip "$host"
	done
	for port in "${ports[@]}"; do
		until_true "node $port" "$dir/$port.log" ask "$port" ping
	done
	quietly redis-cli --cluster create "${ports[@]/#/$host:}" --cluster-replicas 1 --cluster-yes || exit 2
	for port in "${ports[@]}"; do
		until_true "node $port" "$dir/$port.log" says cluster_state:ok "$port" cluster info
	done
	replicas=1
	upstream="cluster = $host:${ports[0]} $host:${ports[1]} $host:${ports[2]}"
}

# Prints the port of the primary that has a key.
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

# Kills the primary that has a key, after its replicas have received all acknowledged writes.
kill_primary_of() { # key
	local port
	port=$(primary_of "$1")
	printf '%s\n' "set {$1}:last x" "wait $replicas 60000" | ask "$port" >/dev/null
	kill -9 "${server_pids[$port]}"
	wait "${server_pids[$port]}" 2>/dev/null || :
	unset "server_pids[$port]"
}

stop_servers() {
	[ ${#server_pids[@]} -eq 0 ] || { kill "${server_pids[@]}" && wait "${server_pids[@]}"; } 2>/dev/null || :
}
