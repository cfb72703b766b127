package domain

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

const shop = "shop.example.org"

// two are accounts with a site each.
func two(w *world) (ana, bob app.AccountID) {
	ana, bob = w.account("ana"), w.account("bob")
	w.mustUpload(ana, "anas", app.Site)
	w.mustUpload(bob, "bobs", app.Site)
	return ana, bob
}

func (w *world) mustClaim(owner app.AccountID, id app.ID, name string) app.Domain {
	w.t.Helper()
	d, err := w.ClaimDomain(w.t.Context(), owner, id, name)
	w.ok("claim "+name, err)
	return d
}

func (w *world) mustVerify(owner app.AccountID, name string, want app.DomainStatus) app.Domain {
	w.t.Helper()
	d, err := w.VerifyDomain(w.t.Context(), owner, name)
	w.ok("verify "+name, err)
	if d.Status != want || !d.CheckedAt.Equal(w.now) {
		w.t.Errorf("verified: %+v, want it %s", d, want)
	}
	return d
}

func TestLifeOfADomain(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, bob := two(w)
	w.mustUpload(ana, "other", app.Site)
	d := w.mustClaim(ana, "anas", "Shop.Example.ORG.")
	want := app.Domain{
		Name: shop, Account: ana, App: "anas", Status: app.DomainUnverified, Proof: d.Proof, CreatedAt: start,
		Records: []app.Record{{Type: "TXT", Name: "_berth." + shop, Content: d.Proof}},
	}
	if !reflect.DeepEqual(d, want) || !strings.HasPrefix(d.Proof, "berth=") || len(d.Proof) < 26+6 {
		t.Errorf("claimed %+v, want %+v", d, want)
	}
	w.now = start.Add(time.Minute)
	d = w.mustVerify(ana, shop, app.DomainFailed)
	if want := []string{"_berth." + shop + "."}; !slices.Equal(w.asked, want) {
		t.Errorf("the DNS was asked for %q, want %q", w.asked, want)
	}
	w.prove(d)
	d = w.mustVerify(ana, strings.ToUpper(shop), app.DomainVerified)
	for _, read := range []func() (app.Domain, error){
		func() (app.Domain, error) { return w.Domain(ctx, ana, shop) },
		func() (app.Domain, error) {
			names, err := w.Names(ctx, ana)
			return names.Domains[0], err
		},
	} {
		if got, err := read(); err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("read %+v, %v; want %+v", got, err, d)
		}
	}
	moved, err := w.AssignDomain(ctx, ana, shop, "other")
	if err != nil || moved.App != "other" || moved.Status != app.DomainVerified || moved.Proof != d.Proof {
		t.Errorf("assigned %+v, %v", moved, err)
	}
	for what, ask := range map[string]func(app.AccountID, string) error{
		"read":   func(a app.AccountID, name string) error { _, err := w.Domain(ctx, a, name); return err },
		"verify": func(a app.AccountID, name string) error { _, err := w.VerifyDomain(ctx, a, name); return err },
		"assign": func(a app.AccountID, name string) error { _, err := w.AssignDomain(ctx, a, name, "bobs"); return err },
		"remove": func(a app.AccountID, name string) error { return w.RemoveDomain(ctx, a, name) },
	} {
		w.want(what+" another's", ask(bob, shop), app.NotFound)
		w.want(what+" nobody's", ask(ana, "nobodys.example"), app.NotFound)
		w.want(what+" no name", ask(ana, "nodot"), app.Invalid)
	}
	w.ok("remove", w.RemoveDomain(ctx, ana, shop))
	if again := w.mustClaim(ana, "anas", shop); again.Proof == d.Proof || again.Status != app.DomainUnverified {
		t.Errorf("claimed again: %+v", again)
	}
}

func TestClaimsThatAreRefused(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, _ := two(w)
	w.mustUpload(ana, "1745338954955", app.Bot)
	w.mustClaim(ana, "anas", shop)
	for what, tt := range map[string]struct {
		id   app.ID
		name string
		kind app.Kind
		says string
	}{
		"twice":             {"anas", shop, app.Conflict, "already"},
		"a bot":             {"1745338954955", "a.example", app.Unusable, "only a site"},
		"another's site":    {"bobs", "a.example", app.NotFound, "bobs"},
		"no such site":      {"nobodys", "a.example", app.NotFound, "nobodys"},
		"the host's own":    {"anas", "x.apps.example.net", app.Invalid, "host's own"},
		"no name":           {"anas", "x", app.Invalid, "needs a dot"},
		"in other alphabet": {"anas", "bücher.example", app.Invalid, "xn--"},
	} {
		_, err := w.ClaimDomain(ctx, ana, tt.id, tt.name)
		w.want(what, err, tt.kind, tt.says)
	}
	for _, to := range []app.ID{"bobs", "nobodys"} {
		_, err := w.AssignDomain(ctx, ana, shop, to)
		w.want("assign to "+string(to), err, app.NotFound)
	}
	_, err := w.AssignDomain(ctx, ana, shop, "1745338954955")
	w.want("assign to a bot", err, app.Unusable)
	w.mustClaim(ana, "anas", "two.example")
	w.mustClaim(ana, "anas", "three.example")
	_, err = w.ClaimDomain(ctx, ana, "anas", "four.example")
	w.want("one too many", err, app.Exhausted, "3 domains", "names.per_account")
	w.want("an application under way", w.unborn(ana), app.Conflict, "deployed")
}

// unborn claims for a site that is being deployed for the first time.
func (w *world) unborn(owner app.AccountID) error {
	w.mustUpload(owner, "half", app.Site)
	w.ok("leave only the place", w.db.Apps.DeleteApp(w.t.Context(), "half"))
	_, err := w.AssignDomain(w.t.Context(), owner, shop, "half")
	return err
}

// A claim that was not proved keeps nobody off, whoever came first.
func TestTheOneWhoProvesGetsTheDomain(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, bob := two(w)
	first, second := w.mustClaim(ana, "anas", shop), w.mustClaim(bob, "bobs", shop)
	if first.Proof == second.Proof {
		t.Fatal("two claims have one proof")
	}
	w.prove(second)
	w.mustVerify(ana, shop, app.DomainFailed)
	w.mustVerify(bob, shop, app.DomainVerified)
	_, err := w.Domain(ctx, ana, shop)
	w.want("the other claim", err, app.NotFound)
	_, err = w.ClaimDomain(ctx, ana, "anas", shop)
	w.want("while it is proved", err, app.Conflict, "another account", "_berth."+shop)
	w.fault = errors.New("no answer")
	_, err = w.ClaimDomain(ctx, ana, "anas", shop)
	w.want("while nobody can tell", err, app.Conflict)
	if d, err := w.Domain(ctx, bob, shop); err != nil || d.Status != app.DomainVerified {
		t.Errorf("a refused claim changed it: %+v, %v", d, err)
	}
}

// Whoever bought a domain gets it, though somebody had proved it before.
func TestADomainThatChangedHands(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, bob := two(w)
	old := w.mustClaim(ana, "anas", shop)
	w.prove(old)
	w.mustVerify(ana, shop, app.DomainVerified)
	w.texts = map[string][]string{}
	fresh := w.mustClaim(bob, "bobs", shop)
	if d, err := w.Domain(ctx, ana, shop); err != nil || d.Status != app.DomainVerified {
		t.Errorf("a claim took the domain away: %+v, %v", d, err)
	}
	w.mustVerify(bob, shop, app.DomainFailed)
	if d, _ := w.Domain(ctx, ana, shop); d.Status != app.DomainVerified {
		t.Errorf("a claim that failed took the domain away: %+v", d)
	}
	w.prove(fresh)
	w.mustVerify(bob, shop, app.DomainVerified)
	_, err := w.Domain(ctx, ana, shop)
	w.want("the old owner's claim", err, app.NotFound)
	w.texts["_berth."+shop+"."] = []string{old.Proof, fresh.Proof}
	_, err = w.ClaimDomain(ctx, ana, "anas", shop)
	w.want("with the old record", err, app.Conflict)
}

// The owner who asks and has no record any more is told so.
func TestAProofThatWasRemoved(t *testing.T) {
	w := newWorld(t)
	ana, bob := two(w)
	w.prove(w.mustClaim(ana, "anas", shop))
	w.mustVerify(ana, shop, app.DomainVerified)
	w.texts = map[string][]string{}
	w.mustVerify(ana, shop, app.DomainFailed)
	asked := len(w.asked)
	w.mustClaim(bob, "bobs", shop)
	if len(w.asked) != asked {
		t.Error("a claim asked the DNS though nobody has the domain")
	}
}

func TestVerifyWithoutAnAnswer(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, _ := two(w)
	d := w.mustClaim(ana, "anas", shop)
	w.prove(d)
	d = w.mustVerify(ana, shop, app.DomainVerified)
	w.fault = errors.New("server misbehaving on 10.0.0.1")
	_, err := w.VerifyDomain(ctx, ana, shop)
	w.want("no answer", err, app.Unavailable, "_berth."+shop)
	var e *app.Error
	if !errors.As(err, &e) || strings.Contains(e.Message.String(), "10.0.0.1") {
		t.Errorf("the message tells of the host: %v", err)
	}
	if got, err := w.Domain(ctx, ana, shop); err != nil || !reflect.DeepEqual(got, d) {
		t.Errorf("it changed the domain: %+v, %v", got, err)
	}
}

// silence is a DNS that never answers.
type silence struct{}

func (silence) LookupTXT(ctx context.Context, _ string) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silence) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestADNSThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, begun := New(Config{Resolver: silence{}}), time.Now()
		if _, err := s.proves(t.Context(), app.Domain{Name: shop}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != patience {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// What was removed during the look is not verified behind its owner's back.
func TestAClaimThatIsMadeAnewMeanwhile(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, bob := two(w)
	w.prove(w.mustClaim(ana, "anas", shop))
	w.mustClaim(bob, "bobs", shop)
	w.wait = func(ctx context.Context) error {
		w.ok("remove", w.RemoveDomain(ctx, ana, shop))
		w.mustClaim(ana, "anas", shop)
		return nil
	}
	_, err := w.VerifyDomain(ctx, ana, shop)
	w.want("verify", err, app.NotFound)
	for _, owner := range []app.AccountID{ana, bob} {
		if d, err := w.Domain(ctx, owner, shop); err != nil || d.Status != app.DomainUnverified {
			t.Errorf("account %d has %+v, %v", owner, d, err)
		}
	}
}

func TestDomainsGoWithTheirApplication(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	ana, bob := two(w)
	w.prove(w.mustClaim(ana, "anas", shop))
	w.mustVerify(ana, shop, app.DomainVerified)
	w.remove("anas")
	_, err := w.Domain(ctx, ana, shop)
	w.want("after the application", err, app.NotFound)
	w.mustClaim(bob, "bobs", shop)
}

// However many prove it at once, one has it.
func TestManyWhoProveAtOnce(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	var owners []app.AccountID
	var proofs []string
	for i := range 8 {
		a := w.account(fmt.Sprintf("a%d", i))
		w.mustUpload(a, app.ID(fmt.Sprintf("site%d", i)), app.Site)
		owners = append(owners, a)
		proofs = append(proofs, w.mustClaim(a, app.ID(fmt.Sprintf("site%d", i)), shop).Proof)
	}
	w.texts["_berth."+shop+"."] = proofs
	var all sync.WaitGroup
	for _, a := range owners {
		all.Go(func() {
			if d, err := w.VerifyDomain(ctx, a, shop); err == nil && d.Status != app.DomainVerified || err != nil && app.KindOf(err) != app.NotFound {
				t.Errorf("account %d: %+v, %v", a, d, err)
			}
		})
	}
	all.Wait()
	claims, err := w.db.Names.Claims(ctx, shop)
	if err != nil || len(claims) != 1 || claims[0].Status != app.DomainVerified {
		t.Errorf("left are %+v, %v", claims, err)
	}
}
