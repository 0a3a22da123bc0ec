<?php
/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Selling from stock, as tutorials do: SETNX, then EXPIRE, work, then DEL.
 *
 *   REDIS_HOST, REDIS_PORT  where Redis is
 *   REDIS_CA                the authority that signed its certificate; empty: no TLS
 *   STOCK, WORKERS          number of items, and of processes that sell them
 *   PREFIX                  prefix of every key
 *   LEASE                   the lock's lease in seconds; default: 1
 *   PAYING                  a file: the payment for the middle item creates it, and
 *                           lasts until the file is removed
 *
 * This has two faults: the lock lasts one second, and every third sale takes longer; and DEL
 * removes the lock, whichever worker has it by then. Sells until nothing is left. Then prints
 * what was sold, how many sales were too many, and how often two workers had the lock together,
 * by cause.
 */
require __DIR__ . '/overlaps.php';

$prefix = getenv('PREFIX') ?: '';
define('LOCK_KEY', $prefix . 'lock:stock');
define('STOCK_KEY', $prefix . 'stock');
define('STOCK', (int) (getenv('STOCK') ?: 6));

function connect(): Redis
{
    $redis = new Redis();
    $host = getenv('REDIS_HOST') ?: '127.0.0.1';
    $port = (int) (getenv('REDIS_PORT') ?: 6379);
    if ($authority = getenv('REDIS_CA')) {
        $redis->connect("tls://$host", $port, 0, null, 0, 0, ['stream' => ['cafile' => $authority]]);
    } else {
        $redis->connect($host, $port);
    }
    return $redis;
}

/* Stands for the payment, which sometimes takes long. */
function pay(int $item): void
{
    usleep($item % 3 == 0 ? 1300000 : 100000);
    if ($item == intdiv(STOCK, 2) && ($paying = getenv('PAYING'))) {
        touch($paying);
        do {
            usleep(10000);
            clearstatcache();
        } while (file_exists($paying));
    }
}

/* If the connection breaks, the request in flight is lost, and is sent again. */
function take(Redis $redis): bool
{
    try {
        return $redis->setnx(LOCK_KEY, 1);
    } catch (RedisException) {
        return $redis->setnx(LOCK_KEY, 1);
    }
}

/* The tutorial's code, and the lines that write the log. */
function sell_one(Redis $redis, EventLog $log): string
{
    if (!take($redis)) {
        return 'busy';
    }
    $redis->expire(LOCK_KEY, (int) (getenv('LEASE') ?: 1));
    $log->entered();

    $result = 'empty';
    $stock = (int) $redis->get(STOCK_KEY);
    if ($stock > 0) {
        pay($stock);
        $redis->set(STOCK_KEY, $stock - 1);
        $result = 'sold';
    }

    $left = hrtime(true);
    $removed = $redis->del(LOCK_KEY);
    $log->left($left, $removed, $result == 'sold');
    return $result;
}

function worker(EventLog $log): void
{
    $redis = connect();
    do {
        $result = sell_one($redis, $log);
        if ($result == 'busy') {
            usleep(5000);
        }
    } while ($result != 'empty');
}

$redis = connect();
$redis->del(LOCK_KEY);
$redis->set(STOCK_KEY, STOCK);

$file = tempnam(sys_get_temp_dir(), 'stock');
for ($i = 0; $i < (int) (getenv('WORKERS') ?: 5); $i++) {
    if (pcntl_fork() == 0) {
        worker(new EventLog($file, $i));
        exit(0);
    }
}
$failed = 0;
while (pcntl_wait($status) > 0) {
    $failed += $status != 0;
}

$holds = EventLog::read($file);
unlink($file);
$sold = count(array_filter($holds, fn ($hold) => $hold->sold));
$overlaps = count_overlaps($holds);
$left = (int) $redis->get(STOCK_KEY);
$redis->del(STOCK_KEY);

printf("stock=%d sold=%d left=%d oversold=%d overlaps=%d stolen=%d expired=%d\n",
    STOCK, $sold, $left, $sold - (STOCK - $left),
    $overlaps['stolen'] + $overlaps['expired'], $overlaps['stolen'], $overlaps['expired']);
exit($failed ? 1 : 0);
