// How fast is npm's redlock? node peers.js MODULES WORKLOAD SECONDS PORT...
// MODULES is the folder that redlock and ioredis were installed to; several ports are several
// independent servers. W1 is one task on one lock, W3 eight tasks on one lock, as its users would
// write it: its defaults, but for retryCount, without which it gives up, and a lease of 30 s.
// Prints one JSON object, with the fields of `holdfast bench --json`.
'use strict';

const path = require('path');

const [modules, workload, seconds, ...ports] = process.argv.slice(2);
const Redis = require(path.join(modules, 'ioredis'));
const Redlock = require(path.join(modules, 'redlock'));

const WARM_PART = 0.1; // of the time, uncounted before the rest
const LEASE_MS = 30000;
const LIMIT_S = 20;

async function work(redlock, name, counted, end) {
  const samples = [];
  while (performance.now() < end) {
    const begun = performance.now();
    const lock = await redlock.lock(name, LEASE_MS);
    const acquired = performance.now();
    await lock.unlock();
    if (begun >= counted) {
      samples.push((workload === 'W3' ? acquired : performance.now()) - begun);
    }
  }
  return samples;
}

function play(redlock, name, span) {
  const begun = performance.now();
  const tasks = Array.from({ length: workload === 'W3' ? 8 : 1 },
    () => work(redlock, name, begun + 1000 * span * WARM_PART, begun + 1000 * span));
  return Promise.all(tasks);
}

async function main() {
  if (workload !== 'W1' && workload !== 'W3') {
    throw new Error(`no workload '${workload}' here`);
  }
  const clients = ports.map((port) => new Redis({ port: Number(port), host: '127.0.0.1' }));
  const redlock = new Redlock(clients, { retryCount: -1 });
  const name = `holdfast-bench/redlock/${process.pid}`;
  let span = Number(seconds);
  let ofEach = await play(redlock, name, span);
  while (ofEach.flat().length === 0 && span < LIMIT_S) { // on a busy machine nobody gets in
    span *= 4;
    ofEach = await play(redlock, name, span);
  }
  clients.forEach((client) => client.disconnect());

  const samples = ofEach.flat().sort((a, b) => a - b);
  const counts = ofEach.map((each) => each.length);
  if (samples.length === 0) {
    throw new Error('nobody got in');
  }
  console.log(JSON.stringify({
    cycles_per_s: samples.length / (span * (1 - WARM_PART)),
    p50_us: samples[Math.floor(samples.length / 2)] * 1000,
    p99_us: samples[Math.floor(samples.length * 0.99)] * 1000,
    share_min: Math.min(...counts) / samples.length,
    share_max: Math.max(...counts) / samples.length,
  }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
