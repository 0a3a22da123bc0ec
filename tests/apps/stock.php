<?php
/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Selling from stock, as the tutorials do it: SETNX, then EXPIRE, work, then DEL.
 *
 *   REDIS_HOST, REDIS_PORT  where Redis is
 *   REDIS_CA                the authority that signed its certificate; none: without TLS
 *   STOCK, WORKERS          how many to sell, and by how many processes
 *   PREFIX                  put before every key
 *   LEASE                   how many seconds the lock lasts, if not one
 *   PAYING                  a file: the payment for the item in the middle makes it, and
 *                           lasts until it is removed
 *
 * Two things are wrong with it. The lock lasts one second and every third sale
 * takes longer; and DEL removes the lock, whichever worker has it by then. Sells until
 * nothing is left, then prints what was sold, how many sales there should not
 * have been, and how often two workers were inside together, by cause.
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

/* Stands for the payment, which sometimes takes its time. */
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

/* A server that goes takes along what is under way there: the next one is asked. */
function take(Redis $redis): bool
{
    try {
        return $redis->setnx(LOCK_KEY, 1);
    } catch (RedisException) {
        return $redis->setnx(LOCK_KEY, 1);
    }
}

/* The tutorial's code, but for the lines that keep the log. */
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
