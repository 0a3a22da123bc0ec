<?php
/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Counting without locks, as many applications do: GET, add one, SET. See counter.py.
 */
/* Otherwise PHP prints a notice, too, when a connection breaks. */
error_reporting(E_ALL & ~E_NOTICE);

function setting(string $name, int $default): int
{
    $value = getenv($name);
    return $value === false ? $default : (int) $value;
}

function tell(string $line): void
{
    static $log = null;
    $log ??= fopen(getenv('LOG'), 'ab');
    fwrite($log, $line . "\n");
}

function connect(): Redis
{
    $deadline = microtime(true) + 30;
    while (true) {
        try {
            $redis = new Redis();
            $redis->connect(getenv('REDIS_HOST') ?: '127.0.0.1', setting('REDIS_PORT', 6379));
            $redis->setOption(Redis::OPT_MAX_RETRIES, 0);
            if ($redis->ping()) {
                return $redis;
            }
        } catch (RedisException $error) {
            if (microtime(true) > $deadline) {
                throw $error;
            }
        }
        usleep(20000);
    }
}

/* phpredis throws some errors and returns others; this function throws all. */
function call(Redis $redis, string $command, ...$arguments)
{
    $redis->clearLastError();
    $result = $redis->$command(...$arguments);
    if ($redis->getLastError() !== null) {
        throw new RedisException($redis->getLastError());
    }
    return $result;
}

function is_refusal(RedisException $error): bool
{
    return preg_match('/^(LOCKED|LOCKLOST)/', $error->getMessage()) === 1;
}

/* Returns whether the connection is still usable. */
function count_on(Redis $redis, string $key): bool
{
    try {
        $number = (int) call($redis, 'get', $key) + 1;
    } catch (RedisException $error) {
        tell("r $key");
        return is_refusal($error);
    }
    usleep(random_int(0, setting('THINK_US', 1000)));
    tell("s $key $number");
    try {
        call($redis, 'set', $key, $number);
    } catch (RedisException $error) {
        tell((is_refusal($error) ? 'w' : 'u') . " $key $number");
        return is_refusal($error);
    }
    tell("k $key $number");
    return true;
}

function worker(int $rounds): void
{
    tell('p ' . getmypid());
    $redis = connect();
    for ($i = 0; $i < $rounds; $i++) {
        if (!count_on($redis, 'counter:' . random_int(0, setting('KEYS', 20) - 1))) {
            $redis = connect();
        }
    }
}

$workers = setting('WORKERS', 50);
for ($i = 0; $i < $workers; $i++) {
    if (pcntl_fork() == 0) {
        worker(intdiv(setting('ROUNDS', 20000) + $i, $workers));
        exit(0);
    }
}
$failed = 0;
while (pcntl_wait($status) > 0) {
    $failed += $status != 0;
}
printf("workers=%d failed=%d\n", $workers, $failed);
