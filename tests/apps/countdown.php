<?php
/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A counter, as in tutorials: a number is taken from it a hundred times. PHP has no threads, so
 * each of a few processes takes several numbers over its connection.
 *
 *   REDIS_HOST, REDIS_PORT  where Redis is
 *   THREADS                 how many numbers are taken in total
 *   PROCESSES               number of processes
 *   LOCKED                  0: without the lock
 *
 * Reports that it is ready, and begins when the counter exists. A process reads the counter,
 * prints its number, and writes one less. The "printer" is a list in Redis, which all share.
 * countdown.py and countdown.js do the same.
 */
const LOCK = 'countdown:lock';
const COUNTER = 'countdown';
const PRINTER = 'countdown:printed';
const READY = 'countdown:ready';
const WAIT_MS = 240000;

function setting(string $name, int $default): int
{
    $value = getenv($name);
    return $value === false ? $default : (int) $value;
}

function connect(): Redis
{
    $redis = new Redis();
    $redis->connect(getenv('REDIS_HOST') ?: '127.0.0.1', setting('REDIS_PORT', 6379));
    $redis->setOption(Redis::OPT_READ_TIMEOUT, -1);
    return $redis;
}

function begin(Redis $redis): void
{
    $redis->incr(READY);
    while (!$redis->exists(COUNTER)) {
        usleep(2000);
    }
}

function count_down(Redis $redis): void
{
    $number = (int) $redis->get(COUNTER);
    $redis->rPush(PRINTER, $number);
    usleep(1000);
    $redis->set(COUNTER, $number - 1);
}

/* Returns whether the process got and released the lock each time. */
function work(int $times, bool $locked): bool
{
    $redis = connect();
    for ($i = 0; $i < $times; $i++) {
        if (!$locked) {
            count_down($redis);
            continue;
        }
        if (!$redis->rawCommand('LOCK', LOCK, 'WAIT', WAIT_MS)) {
            return false;
        }
        count_down($redis);
        if ($redis->rawCommand('UNLOCK', LOCK) !== 1) {
            return false;
        }
    }
    return true;
}

$threads = setting('THREADS', 100);
begin(connect());
$processes = min($threads, setting('PROCESSES', 20));
for ($i = 0; $i < $processes; $i++) {
    $times = intdiv($threads + $i, $processes);
    if (pcntl_fork() == 0) {
        exit(work($times, setting('LOCKED', 1) == 1) ? 0 : 1);
    }
}
$failed = 0;
while (pcntl_wait($status) > 0) {
    $failed += $status != 0;
}
printf("threads=%d failed=%d\n", $threads, $failed);
