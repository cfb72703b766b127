package provider

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"berth/app"
)

// Life is how long somebody may take at a provider.
const Life = 10 * time.Minute

const (
	maxWaiting    = 4096
	maxWaitingOwn = 16   // of one network
	maxText       = 4096 // bytes of a code or a state
)

// Purpose is what a browser went to a provider for. Finish gives it back as Begin has got it.
// Without a session and an invitation it is a sign-in.
type Purpose struct {
	Next       string // the page that is shown in the end
	Session    int64  // to whose account the identity is to be linked
	Prove      bool   // or of whose account it is to be proved: the provider asks the person again
	Invitation string // the text of a link that is accepted; "" for none
	Name       string // of the account that the invitation makes
}

// waiting is a browser that is at a provider.
type waiting struct {
	browser         [32]byte // the hash of its cookie
	provider        string
	verifier, nonce string
	owner           string // what counts against maxWaitingOwn
	until           time.Time
	purpose         Purpose
}

// Providers are those that the owner of the host has chosen. It is safe for concurrent use, and
// keeps in memory, bounded, which browsers are at a provider; a restart of the daemon ends that.
type Providers struct {
	list []Provider
	all  map[string]*provider

	mu      sync.Mutex
	waiting map[[32]byte]waiting // by the hash of the state
}

// New returns providers that lead back to the panel at base. Nothing is asked of them yet.
func New(base string, all []Config) *Providers {
	ps := &Providers{all: map[string]*provider{}, waiting: map[[32]byte]waiting{}}
	for _, c := range all {
		ps.list = append(ps.list, Provider{c.Name, c.Title})
		ps.all[c.Name] = newProvider(c, base)
	}
	return ps
}

// Provider is one of them as people see it. Name is what it has in addresses.
type Provider struct{ Name, Title string }

// All returns the providers in the order of the settings. It asks nobody.
func (ps *Providers) All() []Provider { return ps.list }

// Of returns the provider of an issuer, and false when the owner of the host has chosen none of it.
func (ps *Providers) Of(issuer string) (Provider, bool) {
	for _, one := range ps.list {
		if ps.all[one.Name].issuer() == issuer {
			return one, true
		}
	}
	return Provider{}, false
}

// Begin returns the address at which a provider asks somebody to agree, and the text of the
// cookie without which Finish does nothing. It blocks for seconds at most when the provider is
// slow. It fails with app.NotFound for a provider that is none, and app.Unavailable for
// one that does not answer as it should.
func (ps *Providers) Begin(ctx context.Context, name string, purpose Purpose, from app.Visitor) (address, cookie string, err error) {
	p := ps.all[name]
	if p == nil {
		return "", "", errNoProvider()
	}
	k, err := p.learn(ctx)
	if err != nil {
		return "", "", err
	}
	state, cookie := rand.Text(), rand.Text()
	w := waiting{
		browser: sha256.Sum256([]byte(cookie)), provider: name, verifier: oauth2.GenerateVerifier(), nonce: rand.Text(),
		owner: from.Key, until: time.Now().Add(Life), purpose: purpose,
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(w.verifier)}
	again := oauth2.SetAuthURLParam("prompt", "consent") // Discord does not ask for a password again
	if p.Issuer != Discord {
		options = append(options, oauth2.SetAuthURLParam("nonce", w.nonce))
		again = oauth2.SetAuthURLParam("prompt", "login")
	}
	if purpose.Prove {
		options = append(options, again, oauth2.SetAuthURLParam("max_age", "0")) // which makes an OpenID provider say when it asked
	}
	ps.put(state, w)
	return k.oauth.AuthCodeURL(state, options...), cookie, nil
}

func errNoProvider() error {
	return app.Errorf(app.NotFound, "cannot sign you in by this provider: the host has none of this name; sign in with your password")
}

// Finish takes the query with which a provider sent a browser back, and returns who somebody is
// and what for. Each Begin is finished at most once, in the browser that began. Finish fails with
// app.Unauthorized for an answer to nothing that this browser began, and for one that proves
// nothing; with app.Forbidden when somebody did not agree; with app.NotFound and app.Unavailable as
// Begin does. See Cause for the log.
func (ps *Providers) Finish(ctx context.Context, name string, query url.Values, cookie string) (app.Identity, Purpose, error) {
	p := ps.all[name]
	if p == nil {
		return app.Identity{}, Purpose{}, errNoProvider()
	}
	w, ok := ps.take(name, query.Get("state"), cookie)
	if !ok {
		return app.Identity{}, Purpose{}, app.Errorf(app.Unauthorized, "cannot sign you in by %s: this browser has begun no such sign-in, or it took longer than 10 minutes; begin again", p.Title)
	}
	k, err := p.learn(ctx)
	if err != nil {
		return app.Identity{}, w.purpose, err
	}
	code := query.Get("code")
	switch issuer := query.Get("iss"); {
	case issuer != "" && issuer != p.issuer(), issuer == "" && k.issues:
		return app.Identity{}, w.purpose, p.errLie(fmt.Errorf("the answer is of another issuer: %.100q", issuer))
	case query.Get("error") == "access_denied":
		return app.Identity{}, w.purpose, app.Errorf(app.Forbidden, "cannot sign you in by %s: you did not agree there; begin again, or sign in with your password", p.Title)
	case query.Has("error"):
		return app.Identity{}, w.purpose, p.errDown(fmt.Errorf("the answer is the error %.100q", query.Get("error")))
	case code == "" || len(code) > maxText:
		return app.Identity{}, w.purpose, p.errLie(errors.New("the answer has no code"))
	}
	who, err := p.identity(ctx, k, code, w)
	return who, w.purpose, err
}

// put remembers a browser. When there are too many it forgets the oldest of the same network, or of
// all.
func (ps *Providers) put(state string, w waiting) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := time.Now()
	var own, others oldest
	for hash, old := range ps.waiting {
		if !now.Before(old.until) {
			delete(ps.waiting, hash)
			continue
		}
		others.see(hash, old.until)
		if old.owner == w.owner {
			own.see(hash, old.until)
		}
	}
	switch {
	case own.count >= maxWaitingOwn:
		delete(ps.waiting, own.hash)
	case others.count >= maxWaiting:
		delete(ps.waiting, others.hash)
	}
	ps.waiting[sha256.Sum256([]byte(state))] = w
}

// oldest finds the oldest of what it sees.
type oldest struct {
	count int
	hash  [32]byte
	until time.Time
}

func (o *oldest) see(hash [32]byte, until time.Time) {
	if o.count++; o.count == 1 || until.Before(o.until) {
		o.hash, o.until = hash, until
	}
}

// take ends what waits for a state, in the browser and with the provider with which it began. An
// answer elsewhere ends nothing: nobody ends the sign-in of somebody else.
func (ps *Providers) take(name, state, cookie string) (waiting, bool) {
	if len(state) > maxText || len(cookie) > maxText {
		return waiting{}, false
	}
	hash := sha256.Sum256([]byte(state))
	ps.mu.Lock()
	defer ps.mu.Unlock()
	w, ok := ps.waiting[hash]
	if !ok || w.provider != name || w.browser != sha256.Sum256([]byte(cookie)) || !time.Now().Before(w.until) {
		return waiting{}, false
	}
	delete(ps.waiting, hash)
	return w, true
}
