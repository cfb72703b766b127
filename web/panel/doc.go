// Package panel is the control panel: pages for people, made on the server, with forms
// that post and redirect. Everything but live views works without JavaScript.
//
// It decides nothing of its own. It calls the same services as the API, in the name of the
// account that is signed in. For an application of another account it first calls
// Teams.Authorize, and then acts in the owner's name. What the API refuses, the
// panel refuses.
//
// Pages about one topic are one type in a file of its own, such as domainPages in
// domains.go. It holds the services that its handlers call (newPages, panel.go). Each
// page has a template in template/. One table of routes (routes.go) says who may request
// what. A handler returns an answer and never writes; its answer counts only without an
// error. Every visible text is a sentence of package app/text. No inline style or script
// is possible: the Content-Security-Policy begins with default-src 'none'. The page of the terminal
// (terminal.go) alone may have styles that its script makes (ADR 0068).
//
// # One form
//
//  1. daemon.newHandler (daemon/handler.go) sends every path to the panel that is not the API's.
//     The mux (server.newMux, routes.go) finds the row of the route table.
//  2. server.enter (routes.go) finds the account, the address and the language of the
//     request. SignIns.Session finds the account by the hash of the cookie.
//  3. server.admit (routes.go) sends visitors without a session to /login. It refuses
//     requests that a page of another site has made (server.sameSite). If the path names
//     an application, server.meant calls Applications.App. If the account has no such
//     application, server.meant calls Teams.Authorize.
//     For a row with the bit again, againPages.ask (again.go) asks who somebody is, unless
//     they have lately proved it.
//  4. form (call.go) reads the fields of the form for the handler. The handler calls the
//     services and returns an answer. If it fails, server.refused (answer.go) shows the
//     error on the page that the route's row names, in the account's language. The status
//     comes from the API's table (web.StatusOf).
//  5. server.send (answer.go) hands an app.AuditRecord to the auditor, and renders or redirects.
//     What the page after the redirect shows once, such as a new token, waits in memory
//     (flashes). No address and no database contains it: the address of the redirect
//     contains a key, which only that page knows.
//
// A ZIP goes to uploadPages.receive (uploads.go), which streams it to Deployments.Spool
// (web.Upload). Then uploadPages.deploy makes a job of the deployment. The job is a
// goroutine, which the daemon counts as a request (Config.Go, web.Inflight.Join). The page
// of the upload shows how far the job is. When the job ends, server.recordLate hands its
// app.AuditRecord to the auditor.
//
// What is done to several chosen applications is a job too, a batch (chosen.go): appPages.one does
// to each what its own form would, with the same checks, and record hands an app.AuditRecord of each
// to the auditor.
//
// Before a new application is made, Deployments.Draft judges the ZIP. Where it has no
// discloud.config, or one with mistakes, the file stays in the spool as a draft (drafts.go),
// and a form writes the configuration. static/pack.js makes the ZIP of a folder in the browser.
//
// The pages of files read and write through files.Store (files/browse.go), always for one
// uid. A ZIP that is to be unpacked there goes to Deployments.Spool, and then to
// FileEdits.Unzip (files/unzip.go). The editor is made of editor/editor.js and CodeMirror
// (static/vendor/editor.js.gz, test/scripts/editor).
//
// # One live page
//
//  1. liveOf (live.go) gets the number of the hub's newest event before the handler reads
//     the data of the page. The page carries the number of that event.
//  2. static/live.js opens /events from that number while somebody sees the page, and
//     closes the stream when nobody does.
//  3. viewer.frames (live.go) turns the events of watch.Hub into frames, which
//     web.Call.Stream sends: usage in words and numbers, lines of a log through the
//     page's own template, and "changed" for everything else. After "changed" the script
//     fetches the page again and replaces the parts that differ (data-part). A list in pages
//     names the applications that it shows in the address of its stream (shownOf, list.go): it
//     gets the figures of those, and "elsewhere" for changes of others.
//  4. A stream of lines begins with the end of the log so far (app.Watch.Tail,
//     logs.Log.Follow). static/log.js drops the lines that the page already has.
//     static/charts.js draws what chartPages.plot (charts.go) answers, and appends usage.
//  5. The stream ends with the session, the membership, the account or the daemon.
package panel
