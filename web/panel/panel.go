package panel

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth/app"
	"berth/web"
	"berth/web/provider"
)

// Config is what the panel is made of. The services MUST be set.
type Config struct {
	app.Services
	SignIns     SignIns
	Factors     Factors
	Passkeys    Passkeys
	Identities  Identities
	NewSignIns  NewSignIns
	Devices     Devices
	Admin       Admin
	Invitations Invitations

	// Providers prove who somebody is; nil is none.
	Providers *provider.Providers
	// Account knows accounts by their number: NotFound for none.
	Account func(ctx context.Context, id app.AccountID) (app.Account, error)
	// AuditRecords returns the newest of what was done that q chooses, oldest first.
	AuditRecords func(ctx context.Context, q app.AuditQuery) ([]app.AuditRecord, error)
	// Examine says how the host is, as berth doctor does. It may take seconds.
	Examine func(ctx context.Context) []app.Finding
	// Runtimes lists the runtimes that the owner installed beside the distribution's.
	Runtimes func() []app.Runtime
	// Held returns the hold of the host, zero for none. It may be nil: there is none.
	Held func() app.Hold
	// Go runs f beside the request, and keeps the daemon from ending before it
	// returns; false: it does not run, because the daemon ends.
	Go func(f func()) bool

	TTL       time.Duration // how long a session lives that nobody uses
	BackupTTL time.Duration // how long a backup is kept
	FirstRAM  app.MB        // of the first account: what applications may have together
	Sites     string        // the domain below which sites are; "" when not known
	// MaxUpload bounds the body of an upload, MaxFile the file in it, in bytes.
	MaxUpload, MaxFile int64
	Insecure           bool         // let people sign in over plain HTTP
	Exposed            app.Text     // warns administrators of how the panel is reached; zero for nothing to warn of
	BaseURL            string       // under which browsers reach the panel; "" when not known
	Trusted            web.Networks // proxies whose X-Forwarded-For and -Proto are believed
	Version            string
	Log                *slog.Logger // nothing is logged when nil
}

// The methods below MUST be safe for concurrent use. Errors carry a kind of
// package app; any other error is shown as an internal one.

// SignIns knows who is signed in, and changes passwords.
type SignIns interface {
	// SignIn begins a session, or a sign-in that waits for its second step: Unauthorized for a
	// wrong name or password, with the account if there is one of that name.
	SignIn(ctx context.Context, name, password string, from app.Visitor) (app.SignedIn, error)
	// Session returns Unauthorized for none, with the session if it was just ended because its
	// cookie came from another browser; Forbidden when the account is disabled.
	Session(ctx context.Context, key string, from app.Visitor) (app.Account, app.Session, error)
	Sessions(ctx context.Context, id app.AccountID) ([]app.Session, error)
	// EndSession returns NotFound for the session of another account.
	EndSession(ctx context.Context, account app.AccountID, id int64) error
	EndOtherSessions(ctx context.Context, account app.AccountID, keep int64) error
	// Remember returns by what a browser is known in which the account has just
	// signed in, "" when it is to be by nothing.
	Remember(ctx context.Context, a app.Account) (string, error)
	// ChangePassword ends all sessions but the one with the id keep. It returns
	// Forbidden when old is wrong.
	ChangePassword(ctx context.Context, a app.Account, old, password string, keep int64) error
	// Prove notes that somebody who is signed in knows the password, and returns what the
	// cookie of the session holds from now on. It returns Forbidden when the password is wrong.
	Prove(ctx context.Context, a app.Account, password string, session int64, from app.Visitor) (key string, err error)
	// Invite makes a one-time link to a new password and returns its text.
	Invite(ctx context.Context, id app.AccountID) (string, error)
	// Invitation returns NotFound for a one-time link that is none any more.
	Invitation(ctx context.Context, key string) (app.Invitation, error)
	// Redeem uses a one-time link up and goes on as SignIn does. name and
	// ram are of the first account, which the link may make.
	Redeem(ctx context.Context, key, name, password string, ram app.MB, from app.Visitor) (app.SignedIn, error)
}

// NewSignIns are those in browsers that were not known.
type NewSignIns interface {
	// NewSignIns returns those that the account has not dismissed, newest first, but for that of
	// the session.
	NewSignIns(ctx context.Context, account app.AccountID, session int64) ([]app.NewSignIn, error)
	// DismissSignIn returns NotFound for one that is none, or of the session itself: a thief does
	// not hide their own.
	DismissSignIn(ctx context.Context, account app.AccountID, id, session int64) error
}

// Factors knows the second factors of accounts, and sign-ins that wait for one.
type Factors interface {
	// Pending returns what a sign-in waits for: Unauthorized when it is none.
	Pending(ctx context.Context, key string, from app.Visitor) (app.SignedIn, error)
	// SecondStep begins the session of a sign-in that waits: Unauthorized for a wrong code,
	// with the account, and when nothing waits.
	SecondStep(ctx context.Context, key, code string, from app.Visitor) (app.SignedIn, error)
	// Abandon ends a sign-in that waits, if it is one.
	Abandon(key string)

	Factors(ctx context.Context, id app.AccountID) (app.Factors, error)
	// OfferTOTP makes the seed of an app and the address that the app reads from a QR code:
	// Conflict when the account has an app. issuer names the panel.
	OfferTOTP(ctx context.Context, a app.Account, issuer string) (seed, uri string, err error)
	// OfferedTOTP returns the same again: NotFound when no app waits to be confirmed.
	OfferedTOTP(ctx context.Context, a app.Account, issuer string) (seed, uri string, err error)
	// ConfirmTOTP turns the app on and returns new recovery codes: Forbidden for a wrong code.
	ConfirmTOTP(ctx context.Context, a app.Account, code string) (recovery []string, err error)
	RemoveTOTP(ctx context.Context, id app.AccountID) error
	// RenewRecovery returns Conflict when the account has no second factor.
	RenewRecovery(ctx context.Context, id app.AccountID) ([]string, error)
	// FactorRequired reports whether everybody must have a second factor.
	FactorRequired(ctx context.Context) (bool, error)
	RequireFactor(ctx context.Context, required bool) error
}

// Devices are programs that ask for a token by a code.
type Devices interface {
	// Find returns the program whose code an account has typed: NotFound for none, Limited
	// after many of those.
	Find(id app.AccountID, typed string) (app.Device, error)
	// Decide gives the program a token of the account, or ends its code. It asks nobody
	// for the password.
	Decide(id app.AccountID, typed string, allow bool) (app.Device, error)
}

// Admin manages the accounts of the host.
type Admin interface {
	// Accounts returns all of them, oldest first, and the RAM that each has assigned.
	Accounts(ctx context.Context) ([]app.Account, []app.MB, error)
	Create(ctx context.Context, name string, ram app.MB) (app.Account, error)
	Change(ctx context.Context, id app.AccountID, c app.AccountChange) (app.Account, error)
	// Suspend blocks until nothing of the account runs any more.
	Suspend(ctx context.Context, id app.AccountID, why string) (app.Account, error)
	Unsuspend(ctx context.Context, id app.AccountID) (app.Account, error)
	SetDisabled(ctx context.Context, id app.AccountID, disabled bool) (app.Account, error)
}

// Invitations are links that bring somebody a new account, memberships of teams, or both.
type Invitations interface {
	// Invite returns the text of a link that can be accepted for lasts: Forbidden for RAM that
	// no administrator offers, NotFound for an application of another account, Exhausted when the
	// host has too little RAM, or too many wait.
	Invite(ctx context.Context, by app.Account, o app.Offer, lasts time.Duration) (string, app.Offer, error)
	// Invitations returns those of an inviter that wait, oldest first; 0 for those of all.
	Invitations(ctx context.Context, inviter app.AccountID) ([]app.Offer, error)
	// Revoke returns NotFound for the invitation of another inviter; 0 revokes anybody's.
	Revoke(ctx context.Context, inviter app.AccountID, id int64) error
	// Offer returns NotFound for a link that nobody can accept any more.
	Offer(ctx context.Context, key string) (app.Offer, error)
	// AcceptWithPassword makes the account and begins its session.
	AcceptWithPassword(ctx context.Context, key, name, password string, from app.Visitor) (app.SignedIn, error)
	// AcceptWithIdentity returns Conflict for an identity that signs in to an account already.
	AcceptWithIdentity(ctx context.Context, key, name string, who app.Identity, from app.Visitor) (app.SignedIn, error)
	// NewPasskeyOptions is what a browser gets to make the passkey of the account; "" where it
	// makes none. It returns Invalid for a bad name.
	NewPasskeyOptions(ctx context.Context, key, name string, at app.Origin) (string, error)
	// AcceptWithPasskey returns Invalid for an answer to something else.
	AcceptWithPasskey(
		ctx context.Context, key, name string, at app.Origin, device string, response []byte, from app.Visitor,
	) (app.SignedIn, error)
	// Join makes an account that exists a member: Unusable when the link has nothing for it.
	Join(ctx context.Context, key string, account app.AccountID) (app.Offer, error)
}

// New returns the handler of the panel: of everything that is not the API's. It
// is safe for concurrent use; what outlives a request, it starts with Config.Go.
//
// The http.Server around it SHOULD set ReadHeaderTimeout and IdleTimeout but
// neither ReadTimeout nor WriteTimeout: they would cut live views, and the handler
// cuts stalled clients itself.
func New(c Config) http.Handler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Providers == nil {
		c.Providers = provider.New("", nil)
	}
	s := &server{Config: c, guard: http.NewCrossOriginProtection(), flashes: newFlashes()}
	if u, err := url.Parse(c.BaseURL); err == nil && u.Host != "" {
		_ = s.guard.AddTrustedOrigin(u.Scheme + "://" + u.Host) // it was read above
	}
	p := newPages(c, s.recordLate)
	s.again = &p.again
	s.mux = s.newMux(p.routes())
	return s
}

// newPages sets what the handlers need. record hands what came of a job to the
// audit log.
func newPages(c Config, record func(*call, error)) *pages {
	charts := chartPages{c.Metrics}
	uploads := uploadPages{
		deployments: c.Deployments, teams: c.Teams, logs: c.Logs, maxUpload: c.MaxUpload, maxFile: c.MaxFile,
		jobs: newJobs(), drafts: newDrafts(c.Deployments.DropSpool, c.MaxFile), beside: c.Go, record: record, log: c.Log,
	}
	accounts := accountPages{
		signIns: c.SignIns, factors: c.Factors, passkeys: c.Passkeys, identities: c.Identities, providers: c.Providers, baseURL: c.BaseURL,
		newSignIns: c.NewSignIns, tokens: c.Tokens, accounts: c.Accounts, apps: c.Applications,
		disk: c.DiskUse, ttl: c.TTL, firstRAM: c.FirstRAM, log: c.Log,
	}
	factors := factorPages{c.Factors, c.Passkeys, c.BaseURL}
	invitations := invitationPages{c.Invitations, c.Providers, accounts.begin, c.BaseURL}
	icons := iconPages{c.Icons}
	steps := stepPages{c.Applications, c.Notices, c.HostBackups, c.Sites}
	live := livePages{c.Feed, c.SignIns, c.Account}
	ask := againPages{c.SignIns, c.Passkeys, c.Identities, c.Providers, c.TTL, c.BaseURL}
	return &pages{
		accounts: accounts,
		again:    ask,
		apps: appPages{
			apps: c.Applications, settings: c.Settings, teams: c.Teams, feed: c.Feed, address: c.Address, certs: c.Certificates,
			account: c.Account, records: c.AuditRecords, charts: charts, logs: c.Logs, log: c.Log, rightSize: c.RightSize,
			batches: newBatches(), beside: c.Go, record: record, steps: &steps, icons: icons,
		},
		channels: channelPages{c.Notices, c.Applications},
		charts:   charts,
		deploys: deployPages{
			uploadPages: uploads, contents: c.Contents, snapshots: c.Snapshots, links: c.Links, feed: c.Feed,
			account: c.Account, backupTTL: c.BackupTTL,
		},
		devices: devicePages{c.Devices},
		domains: domainPages{c.Names, c.Sites},
		env:     envPages{c.Settings},
		factors: factors,
		files: filePages{
			contents: c.Contents, edits: c.FileEdits, apps: c.Applications, spools: c.Deployments,
			packs: zipTurns(allTurns), turns: zipTurns(allTurns), sends: zipTurns(allJobs), maxUpload: c.MaxUpload, maxFile: c.MaxFile,
		},
		host: hostPages{
			admin: c.Admin, invitations: c.Invitations,
			signIns: c.SignIns, factors: c.Factors, apps: c.Applications, records: c.AuditRecords, examiner: c.Examine,
			runtimes: c.Runtimes, beside: c.Go, backups: c.HostBackups,
			plan: c.RAMPlan, shortage: c.Shortage, exposed: c.Exposed, baseURL: c.BaseURL, began: time.Now(), log: c.Log, charts: charts,
		},
		hostConfig:  hostSettingPages{c.HostSettings},
		identities:  identityPages{c.Identities, c.Providers, &accounts, &invitations, &ask, c.Log},
		icons:       icons,
		invitations: invitations,
		live:        live,
		logs:        logPages{c.Logs, c.Feed, c.Applications, c.Teams, c.Type, searchTurns()},
		passkeys:    passkeyPages{c.Passkeys, &factors, accounts.begin},
		second:      secondPages{c.Factors, accounts.passkey, accounts.begin},
		settings:    settingsPages{c.Settings, c.Teams, c.Invitations, c.Applications},
		steps:       steps,
		terminal:    terminalPages{live, c.Applications, c.Exec, record, c.BaseURL},
	}
}

// server answers every request of the panel: it finds the route, calls its handler, and
// writes the answer.
type server struct {
	Config
	mux     *http.ServeMux
	guard   *http.CrossOriginProtection
	flashes *flashes
	again   *againPages
}

// patience is how long a client may need to send a form, or to receive a page.
const patience = 30 * time.Second

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Call: web.NewCall(w, r, rand.Text(), time.Now())}
	c.Serve(s.Log, time.Now, func() {
		secure(c.Header())
		c.Header().Set("X-Request-Id", c.RequestID)
		s.mux.ServeHTTP(c, r)
	}, func(begun bool) {
		if !begun {
			http.Error(c, "internal error", http.StatusInternalServerError)
		}
	})
}

// policy lets a page load what this server has, and send its forms here, and
// nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// terminalPolicy also lets a page make styles of its own. The page of the terminal alone has it, for
// xterm.js makes a sheet: see docs/adr/0068.
var terminalPolicy = strings.Replace(policy, "style-src 'self'", "style-src 'self' 'unsafe-inline'", 1)

// secure sets the headers of every answer. The referrer stays here: with
// "no-referrer" forms would come with the origin "null".
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex")
}

// sameSite refuses a form that another site has sent, and whatever a page of another
// site has in itself: SameSite=Lax lets the sites of this host's domain, which
// are anybody's, send the cookie with that, and a picture could hold a stream.
func (s *server) sameSite(c *call) error {
	if s.guard.Check(c.Request) == nil && !embedded(c.Request.Header) {
		return nil
	}
	return app.Errorf(app.Forbidden, "berth refused this request, because it came from another site; if you use a proxy, let it pass the Host header on")
}

// embedded reports whether a page of another site requests something, instead of a
// person who follows a link in it (Fetch Metadata, 2). Old browsers do not say.
func embedded(h http.Header) bool {
	switch h.Get("Sec-Fetch-Site") {
	case "same-site", "cross-site":
		dest := h.Get("Sec-Fetch-Dest")
		return h.Get("Sec-Fetch-Mode") != "navigate" || dest != "document" && dest != ""
	}
	return false
}
