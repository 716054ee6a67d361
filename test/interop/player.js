// Takes npm redlock's lock again and again beside other programs:
// node player.js MODULES PORT NAME DIRECTORY SECONDS
// MODULES is the folder that redlock and ioredis were installed to. What it does inside is written
// in player.c.
'use strict';

const fs = require('fs');
const path = require('path');

const [modules, port, name, directory, seconds] = process.argv.slice(2);
const Redis = require(path.join(modules, 'ioredis'));
const Redlock = require(path.join(modules, 'redlock'));

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function addOne() {
  const inside = path.join(directory, 'inside');
  const count = path.join(directory, 'count');
  fs.closeSync(fs.openSync(inside, 'wx', 0o600));
  const number = Number(fs.readFileSync(count, 'ascii'));
  await pause(1);
  fs.writeFileSync(count, `${number + 1}\n`);
  fs.unlinkSync(inside);
}

async function main() {
  const client = new Redis({ port: Number(port), host: '127.0.0.1' });
  const redlock = new Redlock([client], { retryCount: -1, retryDelay: 4, retryJitter: 4 });
  const end = Date.now() + 1000 * Number(seconds);
  let times = 0;
  while (Date.now() < end) {
    const lock = await redlock.lock(name, 2000);
    await addOne();
    await lock.unlock();
    times += 1;
    await pause(Math.random() * 10);
  }
  client.disconnect();
  console.log(times);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
