/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Many holders over ONE connection, as in Node services: each holder sends SET NX until
 * it gets the lock, works, and releases the lock.
 *
 *   REDIS_HOST, REDIS_PORT  where Redis is
 *   CLIENT                  ioredis, or redis (node-redis)
 *   RELEASE                 compare: by a script, if the value is the holder's own;
 *                           del: by DEL
 *   HOLDERS                 number of holders
 *
 * Prints how many got the lock, how many had it together at most, how often a holder got it
 * a second time while it had it, and how many released it.
 */
'use strict';

const crypto = require('crypto');
const { setTimeout: sleep } = require('timers/promises');

const KEY = 'lock:holders';
/* So long that no lock expires, however slow the machine is. */
const EXPIRY_MS = 3600000;
const COMPARE_AND_DELETE = `if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
else
    return 0
end`;

const host = process.env.REDIS_HOST || '127.0.0.1';
const port = Number(process.env.REDIS_PORT || 6379);
const holders = Number(process.env.HOLDERS || 200);

/* The calls of both clients that this program needs. */
const clients = {
  async ioredis() {
    const redis = new (require('ioredis'))({ host, port });
    return {
      take: (value) => redis.set(KEY, value, 'PX', EXPIRY_MS, 'NX'),
      compareAndDelete: (value) => redis.eval(COMPARE_AND_DELETE, 1, KEY, value),
      del: () => redis.del(KEY),
      quit: () => redis.quit(),
    };
  },
  async redis() {
    const redis = require('redis').createClient({ socket: { host, port } });
    await redis.connect();
    return {
      take: (value) => redis.set(KEY, value, { PX: EXPIRY_MS, NX: true }),
      compareAndDelete: (value) =>
        redis.eval(COMPARE_AND_DELETE, { keys: [KEY], arguments: [value] }),
      del: () => redis.del(KEY),
      quit: () => redis.quit(),
    };
  },
};

async function main() {
  const redis = await clients[process.env.CLIENT || 'ioredis']();
  const release = process.env.RELEASE === 'del' ? redis.del : redis.compareAndDelete;
  const count = { held: 0, inside: 0, most: 0, reentered: 0, released: 0 };

  async function hold() {
    const value = crypto.randomUUID();
    while ((await redis.take(value)) !== 'OK') await sleep(10 + 40 * Math.random());
    count.held++;
    count.most = Math.max(count.most, ++count.inside);
    if ((await redis.take(value)) === 'OK') count.reentered++;
    await sleep(1);
    count.inside--;
    count.released += await release(value);
  }

  await Promise.all(Array.from({ length: holders }, hold));
  await redis.quit();
  console.log(`holders=${holders} held=${count.held} released=${count.released}` +
    ` most_inside=${count.most} reentered=${count.reentered}`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
