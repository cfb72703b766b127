// The attacker in Node: see c/attacker.c, of which it does the same by the roads
// that Node offers.
'use strict'
const child = require('child_process'), dgram = require('dgram'), fs = require('fs'), http = require('http'), net = require('net'), os = require('os')

const targets = Object.fromEntries(fs.readFileSync('targets', 'utf8').trim().split('\n').map(l => [l.slice(0, l.indexOf(' ')), l.slice(l.indexOf(' ') + 1)]))
const only = process.argv.slice(2), control = only.length > 0
process.on('SIGUSR1', () => {}) // it sends that to everybody
const reads = path => { const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK); try { return fs.readSync(fd, Buffer.alloc(1)) ? 'ok' : 'none' } finally { fs.closeSync(fd) } }
const opens = (path, flags) => { fs.closeSync(fs.openSync(path, flags | fs.constants.O_NONBLOCK)); return 'ok' }
const others = (path, own) => fs.readdirSync(path).some(n => !own.includes(n)) ? 'ok' : 'none'
const { O_WRONLY, O_RDWR, O_CREAT, O_RDONLY } = fs.constants
const loop = Number(targets.loop)

const tcp = (host, port) => new Promise((done, fail) => {
  const s = net.connect({ host, port, timeout: 5000 }, () => { s.destroy(); done('ok') })
  s.on('timeout', () => { s.destroy(); done('silent') }).on('error', fail)
})
const local = path => new Promise((done, fail) => { const s = net.connect({ path }, () => { s.destroy(); done('ok') }).on('error', fail) })
const udp = (host, port, connected) => new Promise((done, fail) => {
  const s = dgram.createSocket(host.includes(':') ? 'udp6' : 'udp4')
  const end = what => { clearTimeout(timer); s.close(); what instanceof Error ? fail(what) : done(what) }
  const timer = setTimeout(() => end('silent'), 1250)
  s.on('message', () => end('ok')).on('error', end)
  if (connected) s.connect(port, host, e => e ? end(e) : s.send('ping'))
  else s.send('ping', port, host, e => e && end(e))
})
const asks = url => new Promise((done, fail) => { http.get(url, r => { r.resume(); done('ok') }).on('error', fail) })
const runs = (file, args, options) => child.spawnSync(file, args, { stdio: 'ignore', ...options }).status === 77 ? 'ok' : 'none'

// A child that Node.js makes changes before it begins: for itself Node.js 20 refuses that, before the kernel can.
const becomes = who => child.spawnSync('/bin/true', [], who).error?.code ?? 'ok'

const attacks = {
  "read the victim's file": () => reads(targets['victim-dir'] + '/secret'),
  "write to the victim's directory": () => opens(targets['victim-dir'] + '/planted', O_CREAT | O_WRONLY),
  'read the database': () => reads(targets.data + '/berth.db'),
  'read the write-ahead log': () => reads(targets.data + '/berth.db-wal'),
  'read a file of the host': () => reads(targets['host-file']),
  'read the passwords of the host': () => reads('/etc/shadow'),
  "link to the victim's file": () => { fs.linkSync(targets['victim-dir'] + '/secret', 'stolen'); return 'ok' },
  'write to a program of the system': () => opens('/usr/bin/env', O_WRONLY),
  'write to an installed runtime': () => opens(targets.data + '/runtimes/node/0.0.1/bin/node', O_WRONLY),
  'list the applications': () => others(targets.data + '/apps', control ? [] : [require('path').basename(process.cwd())]),
  'list the data directory': () => others(targets.data, ['apps']),
  "find the victim's file in /tmp": () => reads('/tmp/' + targets.token),
  "find the victim's shared memory": () => opens('/dev/shm/' + targets.token, O_RDWR),
  "enter the victim's root directory": () => reads(`/proc/${targets.victim}/root${targets['victim-dir']}/secret`),
  "read the victim's environment": () => reads(`/proc/${targets.victim}/environ`),
  "read the daemon's environment": () => reads(`/proc/${targets.daemon}/environ`),
  "read the daemon's command line": () => reads(`/proc/${targets.daemon}/cmdline`),
  "open the daemon's memory": () => opens(`/proc/${targets.daemon}/mem`, O_RDWR),
  "list the daemon's descriptors": () => others(`/proc/${targets.daemon}/fd`, []),
  'see processes of others': () => fs.readdirSync('/proc').some(n => { try { return /^[0-9]/.test(n) && (control || fs.statSync('/proc/' + n).uid !== process.getuid()) } catch { return false } }) ? 'ok' : 'none',
  "find the daemon's environment in its own": () => 'BERTH_ATTACKS_SECRET' in process.env ? 'ok' : 'none',
  'write the core pattern': () => opens('/proc/sys/kernel/core_pattern', O_WRONLY),
  'write to sysrq-trigger': () => opens('/proc/sysrq-trigger', O_WRONLY),
  "read the kernel's messages": () => opens('/proc/kmsg', O_RDONLY),
  'write to cgroup.procs of its own group': () => opens(targets[control ? 'groups-outside' : 'groups'] + '/cgroup.procs', O_WRONLY),
  'lower its own oom_score_adj': () => { fs.writeFileSync('/proc/self/oom_score_adj', '-1000'); return 'ok' },
  'signal the daemon': () => process.kill(Number(targets.daemon), 0) && 'ok',
  'signal the victim': () => process.kill(Number(targets.victim), 0) && 'ok',
  'signal process 1': () => process.kill(1, 0) && 'ok',
  'signal everybody': () => control || process.kill(-1, 'SIGUSR1') ? 'ok' : '',
  "set the victim's priority": () => { os.setPriority(Number(targets.victim), 0); return 'ok' },
  'raise its priority': () => { os.setPriority(0, -5); return 'ok' },
  'become root': () => becomes({ uid: 0 }),
  "become root's group": () => becomes({ gid: 0 }),
  'run a set-uid program': () => runs(targets.setuid, ['--euid'], control ? { uid: 65534, gid: 65534 } : {}),
  'run su': () => runs('/bin/su', ['-c', 'exit 77'], {}),
  'connect to the API': () => asks(`http://127.0.0.1:${targets.api}/v2/user`),
  'connect to loopback': () => tcp('127.0.0.1', loop),
  'connect to loopback by another address': () => tcp('127.1.2.3', loop),
  'connect to loopback by 0.0.0.0': () => tcp('0.0.0.0', loop),
  'connect to loopback by IPv6': () => tcp('::1', loop),
  'connect to loopback by a mapped address': () => tcp('::ffff:127.0.0.1', loop),
  'connect to the host by its address': () => tcp(targets.host4, loop),
  'connect to the host by its IPv6 address': () => tcp(targets.host6, loop),
  'send to loopback': () => udp('127.0.0.1', loop),
  'send to loopback when connected': () => udp('127.0.0.1', loop, true),
  'send to loopback by IPv6': () => udp('::1', loop),
  'connect to metadata': () => asks('http://169.254.169.254/latest/meta-data'),
  'connect to metadata by IPv6': () => tcp('fd00:ec2::254', 80),
  "connect to the victim's port": () => tcp('127.0.0.1', Number(targets['victim-port'])),
  'connect to the victim on 8080': () => tcp('127.0.0.1', 8080),
  'ask the daemon by its local socket': () => asks({ socketPath: targets['local-socket'], path: '/host' }),
  'ask the daemon by the root directory of its process': () => asks({ socketPath: `/proc/${targets.daemon}/root${targets['local-socket']}`, path: '/host' }),
  'connect to a socket of the host by its path': () => local(targets['host-socket'])
}

const run = async () => {
  for (const [name, f] of Object.entries(attacks)) {
    if (control && !only.includes(name)) continue
    let said
    try { said = await f() } catch (e) { said = e.info?.code || e.code || (e.syscall ? e.message : String(e)) }
    console.log(`attack: ${name}: ${said}`)
  }
  console.log('attacks: done')
  if (!control && targets.then !== 'end') setInterval(() => {}, 1e6)
  else process.exit()
}
run()
