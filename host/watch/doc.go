// Package watch publishes what happens to applications while it happens, and measures
// what runs.
//
// The Hub takes events from the units of the host and hands them to those who may see
// them. It keeps the last events of each application, so that a client whose connection
// broke gets the events it missed. Hub.Publish never waits: a client that reads too slowly
// misses events, and gets an event that says how many. While nobody watches, the hub is a
// map and a ring for each application: no goroutine, no timer.
//
// The Sampler has one timer for all applications. While a program runs, it measures at
// each full minute. It measures every two seconds the programs whose figures somebody
// watches. While nothing runs and nobody visits a site, it has no timer. Each minute of an application becomes a
// point of its history.
//
// It is policy: it makes no system call, and reaches applications, teams, logs and the
// history through the functions and interfaces of its Config. The daemon wires it;
// httpapi and web/panel serve its events and metrics.
//
// # One event
//
//  1. A unit calls host.Config.Notify (reporter, host/report.go): unit.publish for a
//     snapshot that differs from the one before, unit.exited for an exit, after its
//     record, and reporter.progress for each step of a deployment.
//  2. Hub.Publish (hub.go) gives the event its ID and keeps it in the ring of the
//     application. It queues the event for each Subscription that the event concerns. If
//     a queue is full, Hub.Publish counts the event as missed. It waits for nobody, and the
//     unit goes on.
//  3. Sampler.observe (sampler.go) gets the event too. A program that begins to run wakes
//     the sampler. A start, an exit or a deployment marks its minute.
//  4. Subscription.Next (subscription.go) runs on the goroutine of the reader. For an
//     application of another account it asks whether the reader may see the event now. It
//     adds the lines that its own Followers have, and returns. The API's are cursors
//     (Watch.Exact): each event of lines has the position of both logs, and a stream that
//     begins there goes on exactly.
//  5. web.Call.Stream (web/sse.go) writes the frames of the edge: frames
//     (httpapi/events.go) or viewer.frames (web/panel/live.go). Each write has a deadline.
//     Every five seconds it asks the edge again whether the token, or the session, and the
//     permission still hold.
//
// # One minute of metrics
//
//  1. At each full minute Sampler.tick asks host.Host.Measure for the counters of every
//     run.
//  2. Sampler.count makes a point from the difference to the counters before.
//     Sampler.countAnswers does that for what sites have answered, and
//     Sampler.countHost for the host itself (Also).
//  3. Sampler.flush gives the points of past minutes to metrics.Store.Append, which
//     writes them to the disk and, once an hour, folds them into the rings.
package watch
