// Package panel is the control panel: pages for people, made on the server, with
// forms that post and redirect. Everything works without JavaScript but live views.
//
// It decides nothing of its own: it asks the same services as the API, in the name
// of the account that is signed in, or of the owner whose team the account is in
// once Memberships.Authorize has said so. What the API refuses is refused here.
//
// A page is a file page_*.go with its template in template/, and its rows in
// routes.go, which say who may ask for what. A handler returns an answer and never
// writes. Every visible text is a sentence of package text. No inline style or
// script is possible: the Content-Security-Policy begins with default-src 'none'.
package panel
