/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A counter, as in tutorials: each of a hundred tasks takes a number from it. Each task has its
 * own connection, because a client that waits for a lock keeps its connection waiting.
 *
 *   REDIS_HOST, REDIS_PORT  where Redis is
 *   THREADS                 number of tasks
 *   LOCKED                  0: without the lock
 *
 * Reports that it is ready, and begins when the counter exists. Each task reads the counter, prints
 * its number, and writes one less. The "printer" is a list in Redis, which all tasks share.
 * countdown.py and countdown.php do the same.
 */
'use strict';

const Redis = require('ioredis');
const { setTimeout: sleep } = require('timers/promises');

const LOCK = 'countdown:lock';
const COUNTER = 'countdown';
const PRINTER = 'countdown:printed';
const READY = 'countdown:ready';
const WAIT_MS = 240000;

const host = process.env.REDIS_HOST || '127.0.0.1';
const port = Number(process.env.REDIS_PORT || 6379);
const threads = Number(process.env.THREADS || 100);
const locked = (process.env.LOCKED || '1') === '1';

async function countDown(redis) {
  const number = Number(await redis.get(COUNTER));
  await redis.rpush(PRINTER, number);
  await sleep(1);
  await redis.set(COUNTER, number - 1);
}

async function begin(redis) {
  await redis.incr(READY);
  while (!(await redis.exists(COUNTER))) await sleep(2);
}

/* Returns UNLOCK's reply, or 0 if no lock was taken. */
async function work(redis) {
  try {
    if (!locked) {
      await countDown(redis);
      return 0;
    }
    if (!(await redis.call('LOCK', LOCK, 'WAIT', WAIT_MS))) return 0;
    await countDown(redis);
    return await redis.call('UNLOCK', LOCK);
  } finally {
    redis.disconnect();
  }
}

async function main() {
  const connections = Array.from({ length: threads }, () => new Redis({ host, port }));
  await begin(connections[0]);
  const answers = await Promise.all(connections.map(work));
  const released = answers.reduce((sum, answer) => sum + answer, 0);
  console.log(`threads=${threads} released=${released}`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
