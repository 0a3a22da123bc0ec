# SPDX-License-Identifier: BSD-3-Clause
#
# Withdrawing from a balance, as tutorials do: the process whose INCR returns 1 has the lock. It
# sets an expiry by EXPIRE, and deletes the lock at the end.
#
#   REDIS_HOST, REDIS_PORT  where Redis is
#   WORKERS, PATIENCE       number of processes, and for how many seconds each tries
#
# The fault: a process that dies between INCR and EXPIRE leaves a lock that never expires.
# Here the first process dies so; then the others withdraw, twice each. Prints the expiry of
# the lock that the dead process left (-1: none), the sum of the withdrawals, and how many
# workers had to give up.

require "redis"

LOCK = "lock:balance"
BALANCE = "balance"
AMOUNT = 10

def connect
  Redis.new(host: ENV.fetch("REDIS_HOST", "127.0.0.1"), port: ENV.fetch("REDIS_PORT", "6379").to_i)
end

# The tutorial's code. Returns true if the amount was withdrawn.
def withdraw(redis)
  return false unless redis.incr(LOCK) == 1
  yield if block_given?
  redis.expire(LOCK, 5)
  begin
    balance = redis.get(BALANCE).to_i
    return false if balance < AMOUNT
    sleep 0.02
    redis.set(BALANCE, balance - AMOUNT)
    true
  ensure
    redis.del(LOCK)
  end
end

def worker(times, patience)
  redis = connect
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + patience
  while times > 0
    exit 1 if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
    if withdraw(redis)
      times -= 1
    else
      sleep 0.005
    end
  end
  exit 0
end

workers = ENV.fetch("WORKERS", "4").to_i
patience = ENV.fetch("PATIENCE", "3").to_f
redis = connect
redis.del(LOCK)
redis.set(BALANCE, 2 * workers * AMOUNT)

dead = fork { withdraw(connect) { Process.kill(:KILL, Process.pid) } }
Process.wait(dead)
expiry = redis.pttl(LOCK)

workers.times { fork { worker(2, patience) } }
gave_up = Process.waitall.count { |_, status| !status.success? }

puts "due=#{2 * workers * AMOUNT} balance=#{redis.get(BALANCE)} expiry=#{expiry}" \
     " tries=#{redis.get(LOCK).to_i} gave_up=#{gave_up}"
