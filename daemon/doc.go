// Package daemon is berth while it serves. It opens the data directory, the control
// groups, the walls and the sockets; takes over the programs of the daemon before it;
// wires policy (host), mechanisms (files, proc, db) and edges (httpapi, web); serves; and
// ends, or hands over to the next binary. It decides nothing about applications and
// parses no command line.
//
// Serve is the way in. The commands of the host use the rest: Check and Certificates only
// look, OpenDatabase opens the records beside a daemon.
//
// # Start
//
// Serve (serve.go) calls serveOn, which calls daemon.run. daemon.open (daemon.go) opens
// everything in this order:
//
//  1. openData (data.go): checks the parents of the data directory, takes the lock, opens
//     the database, the trees, the logs and their holder, and the metrics.
//  2. openGroups: placement (groups.go) opens the control groups, and survivors.takeOver
//     (adopt.go) looks for what an earlier daemon left. A program whose group carries a
//     note of pid and birth is a survivor. takeOver ends everything else: builds, console
//     commands, and a program whose code a commit had begun to change. Of two runs of a
//     site it ends the one that the records do not name (rightful). It moves the last
//     output of programs that have ended into their logs.
//     Programs of applications that the database does not know it leaves to endStrangers.
//  3. openWalls (walls.go): Launcher.Try puts the walls up around a child and learns
//     which of them this host gives.
//  4. openHost: makes the host, the hub of events, the API and the panel.
//  5. sites.open (sites.go): opens the sockets of the sites, if systemd has not kept them over a
//     restart (handover.useSites).
//
// Then daemon.run opens the socket of the API and the local socket (local.go), and lets
// systemd keep those of the sites (handover.lend). daemon.serve (serving.go) calls Host.Boot
// (host/host.go). Host.Boot undoes commits that a crash cut short, removes what is left of
// applications whose removal the records ask for, and moves what they do not know to lost/
// (recovery.sweep). If it could do all of that, it drops the reservations.
// It adopts the survivors (Config.Adopt, launcher.adopt). Once it has returned, berth
// answers, and Host.startQueued starts in the background what else is wanted online, a
// few programs at a time. Under systemd, pulse.run (pulse.go) reports to the watchdog each
// time the listener, the database and every unit have answered.
//
// # Stop
//
// The first SIGTERM or SIGINT calls daemon.end (serving.go). Host.Shutdown ends the programs
// and the deployments; then the HTTP server ends. If the programs live in a unit of their
// own that systemd is not stopping too, Host.Leave ends only the deployments and leaves
// the programs to the next daemon, and moveToStore (fdholder.go) gives the FIFOs of their
// logs to a process that keeps them (systemd/fdstore). A second signal kills.
//
// # Upgrade in place
//
// SIGHUP executes the new binary in the same process (docs/adr/0021):
//
//  1. nextBinary.prove (upgrade.go) runs "berth check" of the new binary. If the check
//     fails, the daemon serves as before.
//  2. upgrader.prepare (upgrade.go) refuses uploads that begin now (Host.Hold).
//     serving.settle waits until no request is older than a second, for upgrade.patience
//     at most.
//  3. daemon.detach ends the streams of events (Hub.Close), stops accepting, waits for
//     the answers under way, and calls Host.Leave.
//  4. daemon.run closes everything but the handover (handover.go): the lock and the
//     listening sockets. New connections wait in those sockets.
//  5. nextBinary.execute executes the binary, which gets the handover. The next image opens
//     everything as at any start and adopts the programs.
//
// The exec is the only point of no return. If it fails, serveOn opens everything again in
// the old image.
//
// # Where the groups of programs are
//
// placement.open (groups.go) chooses; docs/adr/0022 has the reasons, and "berth doctor" shows
// the choice in its row "programs". NAME has 8 hex digits and is stored in the database,
// so that programs are found again when the data directory was moved. placement.choose
// makes it of a hash of the path at first, as every daemon did before. The
// directory in cgroup v2 keeps the path and the inode of apps for which its programs
// run, and the daemon locks it. If programs of the records run under another name, that
// is taken along, or the start is refused: no program runs twice.
//
//   - A service that "berth install" made: /system.slice/berth-apps.service/NAME/apps.
//     SIGTERM to the daemon leaves the programs running, unless systemd stops that unit
//     too.
//   - Another service with Delegate=yes: apps, below the service's own group. SIGTERM
//     stops the programs.
//   - Started by hand, or without systemd: /berth/NAME/apps, or the unit berth-apps if
//     the groups of this data directory are there. SIGTERM stops the programs. SIGKILL
//     leaves them running.
//
// Tree.Sweep ends what runs in a place that placement.open has not chosen.
package daemon
