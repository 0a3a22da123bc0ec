/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A sale: a thousand buyers come for a hundred items. Check, then act: GET the stock; if there is
 * any, SET one less, and record the sale. Each buyer has a connection of its own, as if each
 * request of a web page had a process of its own.
 *
 *   REDIS_HOST, REDIS_PORT  where Redis is
 *   BUYERS, ITEMS           number of buyers and of items
 *
 * Prints how many items were sold, how many buyers found none, and how many got an error.
 */
'use strict';

const Redis = require('ioredis');
const { setTimeout: sleep } = require('timers/promises');

const STOCK = 'shop:stock';
const SALES = 'shop:sales';
const setting = (name, standard) => Number(process.env[name] || standard);
const host = process.env.REDIS_HOST || '127.0.0.1';
const port = setting('REDIS_PORT', 6379);

async function connect() {
  const redis = new Redis({ host, port, retryStrategy: null, lazyConnect: true });
  redis.on('error', () => {});
  await redis.connect();
  return redis;
}

async function buy(redis, buyer) {
  try {
    const stock = Number(await redis.get(STOCK));
    if (stock <= 0) return 'none';
    await sleep(1);
    await redis.set(STOCK, stock - 1);
    await redis.rpush(SALES, buyer);
    return 'sold';
  } catch (error) {
    return 'error';
  } finally {
    redis.disconnect();
  }
}

async function main() {
  const items = setting('ITEMS', 100);
  const first = await connect();
  await first.set(STOCK, items);
  const buyers = await Promise.all(Array.from({ length: setting('BUYERS', 1000) }, connect));
  const ends = await Promise.all(buyers.map(buy));
  const number = (end) => ends.filter((each) => each === end).length;
  const sales = await first.llen(SALES);
  first.disconnect();
  console.log(
    `items=${items} sold=${number('sold')} sales=${sales} none=${number('none')} errors=${number('error')}`,
  );
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
