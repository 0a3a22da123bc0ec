<?php
/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The counter of the tutorials: each of a hundred takes one from it. PHP has no threads, so
 * a few processes do it several times each, on their connection.
 *
 *   REDIS_HOST, REDIS_PORT  where Redis is
 *   THREADS                 how many times in all
 *   PROCESSES               by how many processes
 *   LOCKED                  0: without taking the lock
 *
 * Says that it is ready, and begins when there is a number. Each reads the number, prints
 * it, writes one less. The printer is a list in Redis, so that there is one for all who count
 * down. countdown.py and countdown.js do the same.
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

/* Returns whether every lock was got and released. */
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
