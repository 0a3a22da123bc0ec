# SPDX-License-Identifier: BSD-3-Clause
#
# Counting without locks, as many applications do: GET, add one, SET. See counter.py.

require "redis"

def setting(name, default)
  ENV.fetch(name, default).to_i
end

LOG = File.open(ENV.fetch("LOG"), File::WRONLY | File::APPEND)

# connect() raises not only the client's own errors.
FAILURES = [Redis::BaseError, SystemCallError].freeze

def tell(*words)
  LOG.syswrite(words.join(" ") + "\n")
end

def connect
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 30
  begin
    redis = Redis.new(host: ENV.fetch("REDIS_HOST", "127.0.0.1"), port: setting("REDIS_PORT", 6379),
                      reconnect_attempts: 0, timeout: 30)
    redis.ping
    redis
  rescue *FAILURES
    raise if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
    sleep 0.02
    retry
  end
end

def refusal?(error)
  error.message.start_with?("LOCKED", "LOCKLOST")
end

# Returns whether the connection is still usable.
def count(redis, key)
  begin
    number = redis.get(key).to_i + 1
  rescue *FAILURES => e
    tell("r", key)
    return refusal?(e)
  end
  sleep(rand(0..setting("THINK_US", 1000)) / 1e6)
  tell("s", key, number)
  begin
    redis.set(key, number)
  rescue *FAILURES => e
    tell(refusal?(e) ? "w" : "u", key, number)
    return refusal?(e)
  end
  tell("k", key, number)
  true
end

def worker(rounds)
  tell("p", Process.pid)
  srand
  redis = connect
  rounds.times do
    redis = connect unless count(redis, "counter:#{rand(setting('KEYS', 20))}")
  end
  exit! 0
end

workers = setting("WORKERS", 50)
workers.times { |i| fork { worker((setting("ROUNDS", 20_000) + i) / workers) } }
failed = Process.waitall.count { |_, status| !status.success? }
puts "workers=#{workers} failed=#{failed}"
