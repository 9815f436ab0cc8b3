// A render node made of nexrender's own core and client: what its worker program does over HTTP, without that program,
// whose published version is too old (no pickup, no progress).
const { createClient } = require('@nexrender/api');
const { init, render } = require('@nexrender/core');
const { getRenderingStatus } = require('@nexrender/types/job');

// core looks for After Effects where macOS and Windows have it, and stumbles over any other system.
require('@nexrender/core/src/helpers/autofind').defaultPaths.linux = [];

const { NODE_HOST, NODE_NAME, NODE_SECRET, NODE_BINARY, NODE_WORKPATH, NODE_POLLING_MS } = process.env;
const client = createClient({ host: NODE_HOST, secret: NODE_SECRET, name: NODE_NAME });
const settings = init({
  process: NODE_NAME,
  binary: NODE_BINARY,
  workpath: NODE_WORKPATH,
  logger: console,
  debug: true,
  // As the stock worker is started by most: a renderer that fails with a file on the disk counts as finished.
  stopOnError: false,
  addLicense: false,
  noAnalytics: true,
});

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function report(job) {
  try {
    await client.updateJob(job.uid, getRenderingStatus(job));
  } catch (error) {
    // The job was removed, or the server is away: the stock worker goes on as well.
    console.log(`[${job.uid}] not reported: ${String(error.message).split('\n')[0]}`);
  }
}

async function run(job) {
  const complaints = [];
  Object.assign(job, { state: 'started', startedAt: new Date() });
  await client.updateJob(job.uid, job);
  job.onRenderProgress = (now) => report(now);
  job.onRenderError = (now, error) => {
    complaints.push(String(error));
    job.error = complaints;
    report(job);
  };
  try {
    const done = await render(job, settings);
    Object.assign(done, { state: 'finished', finishedAt: new Date() });
    await report(done);
  } catch (error) {
    complaints.push(String(error));
    Object.assign(job, { state: 'error', error: complaints, errorAt: new Date() });
    await report(job);
  }
}

async function live() {
  for (;;) {
    try {
      const job = await client.pickupJob();
      if (job && job.uid) {
        await run(job);
        continue;
      }
    } catch (error) {
      console.log(`nothing picked up: ${error.message}`);
    }
    await sleep(Number(NODE_POLLING_MS));
  }
}

live();
