// What programs in Node do, and must be able to.
'use strict'
const cluster = require('cluster'), http = require('http')
if (!cluster.isPrimary) {
  http.createServer((_, r) => r.end('hello')).listen(8080)
} else {
  const assert = require('assert'), child = require('child_process'), dns = require('dns').promises, fs = require('fs'), https = require('https'), net = require('net'), dgram = require('dgram')
  const { Worker } = require('worker_threads')
  const site = 'site.berth.test', peer4 = '10.77.0.2', peer6 = 'fd77::2'
  const text = (from, url, options) => new Promise((done, fail) => from.get(url, options, r => { let t = ''; r.on('data', d => { t += d }).on('end', () => done(t)) }).on('error', fail))
  const echo = host => new Promise((done, fail) => { const s = net.connect(7, host, () => s.write('hello')); s.on('data', d => { s.destroy(); done(String(d)) }).on('error', fail) })
  const checks = {
    'names by the stub': async () => assert.deepEqual((await dns.lookup(site, { all: true })).map(a => a.address).sort(), [peer4, peer6].sort()),
    'names by a resolver of its own': async () => assert.deepEqual(await dns.resolve4(site), [peer4]),
    'names by a server elsewhere': async () => assert.equal((await dns.lookup('far.berth.test', 4)).address, peer4),
    'TCP': async () => assert.equal(await echo(peer4), 'hello'),
    'TCP by IPv6': async () => assert.equal(await echo(peer6), 'hello'),
    'UDP': () => new Promise((done, fail) => { const s = dgram.createSocket('udp4').on('error', fail).on('message', () => { s.close(); done() }); s.send('x', 7, peer4) }),
    'HTTP': async () => assert.equal(await text(http, `http://${site}/`), 'hello of ' + site),
    'TLS': async () => assert.equal(await text(https, `https://${site}/`, { ca: fs.readFileSync('ca.pem') }), 'hello of ' + site),
    'fetch': async () => assert.equal(await (await fetch(`http://${site}/`)).text(), 'hello of ' + site),
    'files': () => { for (const dir of ['.', '/tmp', '/dev/shm']) { fs.writeFileSync(dir + '/written', 'x'.repeat(1e5)); assert.equal(fs.statSync(dir + '/written').size, 1e5); fs.rmSync(dir + '/written') } },
    'child processes': () => assert.equal(child.execSync('echo $((6 * 7))').toString(), '42\n'),
    'threads': () => new Promise((done, fail) => new Worker('require("worker_threads").parentPort.postMessage(42)', { eval: true }).on('message', done).on('error', fail)),
    'shared memory': () => new Promise((done, fail) => { const m = new Int32Array(new SharedArrayBuffer(4)); new Worker('Atomics.store(require("worker_threads").workerData, 0, 7)', { eval: true, workerData: m }).on('exit', () => m[0] === 7 ? done() : fail(new Error('none'))) }),
    'timers': () => new Promise(done => { let n = 0; const i = setInterval(() => { if (++n === 3) { clearInterval(i); done() } }, 10) }),
    'compiled code': () => { let n = 0; for (let i = 0; i < 3e5; i++) n += i % 7; assert(n > 0); new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])) },
    'its limit': () => assert.equal(process.constrainedMemory(), 256 * 2 ** 20),
    'workers of a cluster on one port': async () => {
      const up = new Promise(done => { let n = 0; cluster.on('listening', () => ++n === 2 && done()) })
      cluster.fork(); cluster.fork(); await up
      for (const host of ['127.0.0.1', '[::1]', 'localhost']) assert.equal(await (await fetch(`http://${host}:8080/`)).text(), 'hello')
    }
  }
  const run = async () => {
    for (const [name, f] of Object.entries(checks)) {
      let said = 'ok'
      try { await f() } catch (e) { said = String(e.cause || e).split('\n')[0] }
      console.log(`works: ${name}: ${said}`)
    }
    console.log('works: done', process.env.PORT)
  }
  run()
}
