package domain

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
	"berth/db"
	"berth/test/database"
)

// world is a service over a real database, and a DNS in memory.
type world struct {
	*Service
	t   *testing.T
	db  *db.DB
	now time.Time

	mu    sync.Mutex
	texts map[string][]string // by name, with its dot
	hosts map[string][]netip.Addr
	fault error
	lost  error // of addresses
	asked []string
	wait  func(ctx context.Context) error // called by each look-up
}

var start = time.Date(2026, time.November, 20, 9, 0, 0, 0, time.UTC)

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: start, texts: map[string][]string{}}
	var err error
	if w.db, err = db.Open(t.Context(), database.Path(t), func() time.Time { return w.now }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.Service = New(Config{
		Records: w.db.Names, Resolver: w, Now: func() time.Time { return w.now },
		PerAccount: 3, Own: []string{"apps.example.net"},
	})
	return w
}

func (w *world) LookupTXT(ctx context.Context, name string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, name)
	if w.wait != nil {
		if err := w.wait(ctx); err != nil {
			return nil, err
		}
	}
	if w.texts[name] == nil && w.fault == nil {
		return nil, &net.DNSError{IsNotFound: true}
	}
	return w.texts[name], w.fault
}

func (w *world) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hosts[name] == nil && w.lost == nil {
		return nil, &net.DNSError{IsNotFound: true}
	}
	return w.hosts[name], w.lost
}

func (w *world) account(name string) app.AccountID {
	w.t.Helper()
	a, err := w.db.Accounts.CreateAccount(w.t.Context(), app.Account{Name: name, TotalRAM: 1000})
	w.ok("make an account", err)
	return a.ID
}

// upload puts an application in its place and makes it exist.
func (w *world) upload(owner app.AccountID, id app.ID, t app.Type) error {
	ids := db.IDRange{UIDBase: 70000, UIDCount: 100, PortFirst: 20000, PortLast: 20099}
	a, err := w.db.Allocations(ids).Reserve(w.t.Context(), app.App{ID: id, Account: owner, Type: t, RAM: 10, Wanted: app.WantStopped},
		func(app.Account, app.Use) error { return nil })
	if err == nil {
		_, err = w.db.Apps.CreateApp(w.t.Context(), a, app.Deploy{By: a.Account, Kind: app.DeployUpload})
	}
	return err
}

func (w *world) mustUpload(owner app.AccountID, id app.ID, t app.Type) {
	w.t.Helper()
	w.ok("upload "+string(id), w.upload(owner, id, t))
}

func (w *world) remove(id app.ID) {
	w.t.Helper()
	w.ok("delete "+string(id), errors.Join(w.db.Apps.DeleteApp(w.t.Context(), id), w.db.Allocations(db.IDRange{}).Release(w.t.Context(), id)))
}

func (w *world) ok(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

func (w *world) want(what string, err error, kind app.Kind, words ...string) {
	w.t.Helper()
	if err == nil || app.KindOf(err) != kind {
		w.t.Errorf("%s: got %v of kind %d, want kind %d", what, err, app.KindOf(err), kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.t.Errorf("%s: %q does not say %q", what, err, word)
		}
	}
}

// prove puts a claim's record into the DNS, beside another.
func (w *world) prove(d app.Domain) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts[d.Records[0].Name+"."] = []string{"v=spf1 -all", " " + d.Records[0].Content + " "}
}

func TestSubdomainsOfAnAccount(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, bob := w.account("ana"), w.account("bob")

	got, err := w.ReserveSubdomain(ctx, ana, "blog")
	w.ok("reserve", err)
	want := app.Subdomain{ID: "blog", Account: ana, Reserved: true, CreatedAt: start}
	if got != want {
		t.Errorf("reserved %+v, want %+v", got, want)
	}
	if got, err = w.Subdomain(ctx, ana, "blog"); err != nil || got != want {
		t.Errorf("read %+v, %v", got, err)
	}
	_, err = w.Subdomain(ctx, bob, "blog")
	w.want("another's", err, app.Forbidden)
	_, err = w.Subdomain(ctx, bob, "nobodys")
	w.want("nobody's", err, app.NotFound)
	_, err = w.Subdomain(ctx, bob, "a_b")
	w.want("no name", err, app.Invalid)
	_, err = w.ReserveSubdomain(ctx, bob, "blog")
	w.want("taken", err, app.Conflict, "taken")
	_, err = w.ReserveSubdomain(ctx, ana, "blog")
	w.want("again", err, app.Conflict, "already")
	_, err = w.ReserveSubdomain(ctx, ana, "www")
	w.want("reserved word", err, app.Invalid)
	w.want("release another's", w.ReleaseSubdomain(ctx, bob, "blog"), app.Forbidden)
	w.want("release nobody's", w.ReleaseSubdomain(ctx, bob, "nobodys"), app.NotFound)
	w.want("release no name", w.ReleaseSubdomain(ctx, bob, "-"), app.Invalid)
	w.ok("release", w.ReleaseSubdomain(ctx, ana, "blog"))
	_, err = w.ReserveSubdomain(ctx, bob, "blog")
	w.ok("reserve what was released", err)
}

// A site that is older than the rules keeps what is no name for a new one.
func TestSubdomainOfAnOlderSite(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, bob := w.account("ana"), w.account("bob")
	for _, id := range []app.ID{"a-name-of-more-than-20", "www"} {
		w.mustUpload(ana, id, app.Site)
		got, err := w.Subdomain(ctx, ana, id)
		if want := (app.Subdomain{ID: id, Account: ana, Used: true, CreatedAt: start}); err != nil || got != want {
			t.Errorf("read %+v, %v; want %+v", got, err, want)
		}
		_, err = w.Subdomain(ctx, bob, id)
		w.want("another's", err, app.Forbidden)
		w.want("release one in use", w.ReleaseSubdomain(ctx, ana, id), app.Conflict)
		w.remove(id)
		_, err = w.Subdomain(ctx, ana, id)
		w.want("after its site", err, app.Invalid)
	}
}

// A site brings its subdomain and takes it along, unless it was reserved.
func TestSubdomainsOfSites(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, bob := w.account("ana"), w.account("bob")
	_, err := w.ReserveSubdomain(ctx, ana, "kept")
	w.ok("reserve", err)
	w.want("a site with another's name", w.upload(bob, "kept", app.Site), app.Conflict, "taken")
	if names, err := w.Names(ctx, bob); err != nil || len(names.Subdomains) != 0 {
		t.Errorf("the refused site left %+v, %v", names, err)
	}
	w.now = start.Add(time.Hour)
	w.mustUpload(ana, "kept", app.Site)
	w.mustUpload(ana, "shop", app.Site)
	w.mustUpload(ana, "1745338954955", app.Bot)
	names, err := w.Names(ctx, ana)
	w.ok("list", err)
	want := []app.Subdomain{
		{ID: "kept", Account: ana, Used: true, Reserved: true, CreatedAt: start},
		{ID: "shop", Account: ana, Used: true, CreatedAt: start.Add(time.Hour)},
	}
	if !reflect.DeepEqual(names.Subdomains, want) {
		t.Errorf("got %+v, want %+v", names.Subdomains, want)
	}
	for _, id := range []app.ID{"kept", "shop"} {
		w.want("release while in use", w.ReleaseSubdomain(ctx, ana, id), app.Conflict, "delete the site first")
		_, err := w.ReserveSubdomain(ctx, ana, id)
		w.want("reserve while in use", err, app.Conflict, "already")
		_, err = w.ReserveSubdomain(ctx, bob, id)
		w.want("reserve another's site", err, app.Conflict)
	}
	w.ok("delete without giving the place back", w.db.Apps.DeleteApp(ctx, "shop"))
	_, err = w.ReserveSubdomain(ctx, bob, "shop")
	w.want("while files have the name", err, app.Conflict)
	w.ok("give the place back", w.db.Allocations(db.IDRange{}).Release(ctx, "shop"))
	w.remove("kept")
	names, err = w.Names(ctx, ana)
	want[0].Used = false
	if err != nil || !reflect.DeepEqual(names.Subdomains, want[:1]) {
		t.Errorf("after the sites: %+v, %v; want %+v", names.Subdomains, err, want[:1])
	}
	w.want("a site with another's name", w.upload(bob, "kept", app.Site), app.Conflict)
	w.mustUpload(bob, "shop", app.Site)
	w.ok("release", w.ReleaseSubdomain(ctx, ana, "kept"))
	w.mustUpload(bob, "kept", app.Site)
}

func TestNobodyTakesAllSubdomains(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana := w.account("ana")
	w.mustUpload(ana, "shop", app.Site) // its RAM pays for it
	for _, id := range []app.ID{"one", "two", "three"} {
		_, err := w.ReserveSubdomain(ctx, ana, id)
		w.ok("reserve", err)
	}
	_, err := w.ReserveSubdomain(ctx, ana, "four")
	w.want("one too many", err, app.Exhausted, "3 subdomains", "names.per_account")
	w.mustUpload(ana, "three", app.Site)
	_, err = w.ReserveSubdomain(ctx, ana, "four")
	w.want("a used one counts", err, app.Exhausted)
	w.ok("release", w.ReleaseSubdomain(ctx, ana, "one"))
	_, err = w.ReserveSubdomain(ctx, ana, "four")
	w.ok("reserve", err)
}

func TestNamesGoWithTheAccount(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, bob := w.account("ana"), w.account("bob")
	_, err := w.ReserveSubdomain(ctx, ana, "blog")
	w.ok("reserve", err)
	w.ok("delete the account", w.db.Accounts.DeleteAccount(ctx, ana))
	_, err = w.ReserveSubdomain(ctx, bob, "blog")
	w.ok("reserve", err)
	_, err = w.ReserveSubdomain(ctx, ana, "more")
	w.want("an account that is gone", err, app.NotFound)
}

func TestInstructions(t *testing.T) {
	ip := netip.MustParseAddr
	claim := app.Domain{Name: "shop.example.org", App: "shop", Proof: "berth=x"}
	txt := app.Record{Type: "TXT", Name: "_berth.shop.example.org", Content: "berth=x"}
	for name, tt := range map[string]struct {
		config Config
		want   []app.Record
	}{
		"nothing is known": {Config{}, nil},
		"addresses": {Config{Parent: "apps.example.net", Addresses: []netip.Addr{ip("192.0.2.1"), ip("2001:db8::1")}}, []app.Record{
			{Type: "A", Name: "shop.example.org", Content: "192.0.2.1"}, {Type: "AAAA", Name: "shop.example.org", Content: "2001:db8::1"},
		}},
		"the parent alone": {Config{Parent: "apps.example.net"}, []app.Record{{Type: "CNAME", Name: "shop.example.org", Content: "shop.apps.example.net"}}},
	} {
		got := New(tt.config).instructed(claim).Records
		if want := append([]app.Record{txt}, tt.want...); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
