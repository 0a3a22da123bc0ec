/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Counting without locks, as many applications do: GET, add one, SET. See counter.py. Workers are
 * tasks with a connection each, ten in a process.
 */
'use strict';

const { fork } = require('child_process');
const fs = require('fs');
const Redis = require('ioredis');
const { setTimeout: sleep } = require('timers/promises');

const setting = (name, standard) => Number(process.env[name] || standard);
const TASKS = 10;
const think = setting('THINK_US', 1000);
const log = fs.openSync(process.env.LOG, 'a');

const tell = (...words) => fs.writeSync(log, words.join(' ') + '\n');
const random = (n) => Math.floor(Math.random() * n);
const isRefusal = (error) => /^(LOCKED|LOCKLOST)/.test(error.message);

async function connect() {
  const deadline = Date.now() + 30000;
  for (;;) {
    const redis = new Redis({
      host: process.env.REDIS_HOST || '127.0.0.1',
      port: setting('REDIS_PORT', 6379),
      retryStrategy: null, // otherwise ioredis would reconnect by itself
      lazyConnect: true,
    });
    redis.on('error', () => {});
    try {
      await redis.connect();
      return redis;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    await sleep(20);
  }
}

/* Returns whether the connection is still usable. */
async function count(redis, key) {
  let number;
  try {
    number = Number(await redis.get(key)) + 1;
  } catch (error) {
    tell('r', key);
    return isRefusal(error);
  }
  await sleep(random(think + 1) / 1000);
  tell('s', key, number);
  try {
    await redis.set(key, number);
  } catch (error) {
    tell(isRefusal(error) ? 'w' : 'u', key, number);
    return isRefusal(error);
  }
  tell('k', key, number);
  return true;
}

async function work(rounds) {
  let redis = await connect();
  for (let i = 0; i < rounds; i++) {
    if (!(await count(redis, `counter:${random(setting('KEYS', 20))}`))) {
      redis.disconnect();
      redis = await connect();
    }
  }
  redis.disconnect();
}

async function main() {
  const workers = setting('WORKERS', 50);
  const rounds = setting('ROUNDS', 20000);
  const share = (i) => Math.floor((rounds + i) / workers);
  if (process.argv[2]) {
    tell('p', process.pid);
    const first = Number(process.argv[2]) - 1;
    const mine = Array.from({ length: Math.min(TASKS, workers - first) }, (_, i) => first + i);
    await Promise.all(mine.map((i) => work(share(i))));
    return;
  }
  const ends = [];
  for (let first = 0; first < workers; first += TASKS) {
    const child = fork(__filename, [String(first + 1)]);
    ends.push(new Promise((resolve) => child.on('exit', (code) => resolve(code !== 0))));
  }
  const failed = (await Promise.all(ends)).filter(Boolean).length;
  console.log(`workers=${workers} failed=${failed}`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
