// Package host keeps applications as their owners want them: it deploys, starts,
// restarts, backs off and refuses.
//
// It is policy: it makes no system call. It reaches programs, trees, logs and records
// through the small interfaces in ports.go, and the daemon wires them. One goroutine owns
// one application (unit). Everybody else sends the unit commands (unit.do) and reads an
// atomic snapshot, so each event meets the application in exactly one named state.
// ARCHITECTURE.md follows an upload and an out-of-memory kill, and lists the states.
//
// # One commit
//
//  1. Host.Commit (deploy.go) calls Host.deploy. unit.beginDeploy refuses the
//     commit if another deployment is under way.
//  2. commit.prepare works beside the running program. Staging.Unpack unpacks the ZIP,
//     and Config.Plan plans. If the plan has build steps, Trees.Prepare makes a copy of
//     the live tree with the ZIP over it, and buildJob.run runs the steps in that copy. The
//     steps find the copy at the path of the live tree. disk.fits refuses a tree larger
//     than apps.disk. commit.renew makes a live tree anew that is gone.
//  3. unit.pause ends the old program. unit.drainAndStop first gives a site up to two
//     seconds to answer the requests under way. The unit is stopping meanwhile.
//  4. commit.switchTo changes the tree. Trees.Apply moves the new files into place by
//     rename and keeps the originals in a journal.
//  5. unit.try starts the new code and waits until it has lived for OKDelay, or longer
//     while it is busy starting (unit.judge). If the program ends earlier and
//     with an error, the commit fails.
//  6. commit.record calls Registry.AddDeploy. One transaction stores the code,
//     what is wanted and the name of the journal: from here on the commit is good.
//  7. Host.settle (deploy.go) calls Trees.Settle, which keeps the journals that the
//     records name and undoes the others.
//
// If a step after the pause fails, commit.back undoes the journal and unit.resume starts
// the old code again.
//
// A rollback is a commit whose stage Staging.Rollback makes from the journals. A restore
// is a commit that also removes what is not in the ZIP.
//
// # One commit without a pause
//
// A commit of a site that is online and takes visitors does not stop the old program
// first. unit.whyAlone (unit_deploy.go) has the conditions; docs/adr/0027 has the reasons.
//
//  1. unit.beside reserves RAM and a second port for the second run, the candidate.
//  2. commit.apply calls Trees.Apply under the running program.
//  3. unit.startBeside starts the new code as the candidate.
//  4. commit.await waits until the new run listens on its port, answers its HEALTH path
//     if it has one, and has lived for OKDelay. HealthTimeout bounds the wait.
//  5. commit.record stores the code, the journal and the run in one transaction.
//  6. unit.promote makes the new run the application's. The old run is retiring.
//  7. unit.relieve calls Visits.Drain, which returns when the old run has answered its
//     last request, after DrainTimeout at the latest. Then it stops the old run.
//
// A second run is no state. An event that ends the program (stop, restart, delete,
// shutdown, another commit) also ends the second run, and is complete when both are gone.
// Host.Leave stops a retiring run and waits for its end. If the program ends while new code
// is on trial, the unit waits for the outcome of the trial (unit.pendingExit).
//
// # One console command
//
//  1. Host.Console takes one of the host's eight seats. An account gets two
//     seats at most.
//  2. unit.startConsole starts the command on the unit's goroutine. If the application is
//     online, Instance.Shell starts the command within the limits of the program.
//     Otherwise Config.Shell starts the command in place of the program, with the same
//     RAM.
//  3. Host.Console waits for the command on the goroutine of its client.
//
// A command beside the program ends with the program. A start ends a command that runs in
// place of the program. A commit, a delete and a shutdown wait for the end of the command
// before the tree changes or goes (unit.stopConsole).
//
// # One session
//
// Host.Exec is a console command with somebody at it: unit.startConsole starts it with an
// app.Exec, console.use lends its streams to the edge (package web/terminal), and every event
// that ends a console command ends it too. The seats are others: four for an account, 32
// in all. Beside a program several sessions and one console command run; what has RAM of its
// own in the host's capacity, in place of a program or beside a site of files, runs alone
// (unit.consoleFree). unit.ended waits for the end of the command, not of its client.
//
// # One shortage of memory
//
//  1. Host.WatchMemory (shortage.go) sleeps in Memory.Wait until the kernel says that
//     programs wait for memory. scarcity.look judges, by what is available, whether the host
//     is short of it.
//  2. Host.turned lets no build begin (queue.hold) and names the programs furthest above
//     their usual use. Host.scarce puts off what would start meanwhile.
//  3. Host.order (order.go) has set the order of kills by then: the sampler's look at each
//     minute calls Host.OrderKills, and ranked.score is what Memory.Rank writes.
//
// # What can be replaced
//
// Launch starts an app.Program and returns an Instance; Shell starts a console command.
// Package proc does both today. Their signatures name nothing of the kernel, so anything
// else that can run programs fits there. Visits brings requests to sites and counts them
// (package web/proxy today); it is nil where berth serves no sites. The fakes of the
// tests implement the same interfaces.
package host
