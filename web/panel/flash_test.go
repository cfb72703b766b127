package panel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// What is shown once is for the page that the form leads to: the page that is being left,
// whose script fetches it again before the browser follows the redirect, takes nothing
// away, nor does another tab of the session, or another session.
func TestFlashIsForThePageThatFollows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	b, elsewhere, bob := w.as("ana"), w.as("ana"), w.as("bob")
	token := b.post("/account/tokens", "label", "laptop").leads(t, "a token", "/account")
	restart := b.post("/apps/shop/restart").leads(t, "a restart in another tab", "/")
	written := b.post("/apps/shop/files/write", "path", "a b.txt", "text", "x").leads(t, "a file", "/apps/shop/files/view?path=a+b.txt")
	for _, path := range []string{"/account", "/", "/apps/shop", "/apps/shop/files/view?path=a+b.txt", "/account?once=", "/nothing"} {
		b.get(path).lacks(t, path, "eyJ", "was restarted", "was saved")
	}
	for who, other := range map[string]*browser{"another session": elsewhere, "another account": bob} {
		other.get(token).lacks(t, who, "eyJ")
	}
	b.ask(http.MethodHead, token, nil)
	b.get(restart).want(t, "the restart", http.StatusOK, "The shop was restarted.")
	b.get(token).want(t, "the token", http.StatusOK, "eyJ")
	b.get(written).want(t, "the file", http.StatusOK, "The file was saved.")
	for _, next := range []string{token, restart, written} {
		b.get(next).lacks(t, "once more", "eyJ", "was restarted", "was saved")
	}
}

func TestFlashesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testFlashesAreBounded)
}

func testFlashesAreBounded(t *testing.T) {
	f := newFlashes()
	put := func(session int64, text string) string {
		time.Sleep(time.Millisecond)
		to := f.put(session, flash{Text: text}, "/x?a=b#c")
		key, end := strings.CutPrefix(to, "/x?a=b&once=")
		if !end || !strings.HasSuffix(key, "#c") {
			t.Fatalf("it leads to %q", to)
		}
		return strings.TrimSuffix(key, "#c")
	}
	kept := put(7, "another's")
	var keys []string
	for n := range 10 * ownFlashes {
		keys = append(keys, put(1, fmt.Sprint(n)))
	}
	if what := f.pop(7, kept); what == nil || what.Text != "another's" {
		t.Errorf("one session pushed out that of another: %v", what)
	}
	for n, key := range keys {
		what, want := f.pop(1, key), n >= len(keys)-ownFlashes
		if (what != nil) != want || want && what.Text != fmt.Sprint(n) {
			t.Errorf("of %d, number %d is %v", len(keys), n, what)
		}
	}
	for session := range int64(3 * maxFlashes) {
		put(session, "")
	}
	if len(f.all) != maxFlashes {
		t.Errorf("%d are kept", len(f.all))
	}
	late := put(1, "late")
	time.Sleep(flashTime + time.Second)
	if what := f.pop(1, late); what != nil {
		t.Errorf("after its time: %v", what)
	}
	put(2, "")
	if len(f.all) != 1 {
		t.Errorf("%d are kept after their time", len(f.all))
	}
}

// leaving lists new sign-ins, and ends the request meanwhile, as a browser does that leaves the page.
type leaving struct {
	others
	leave context.CancelFunc // nil: stays
}

type others = NewSignIns // a field of another name than the method's

func (l *leaving) NewSignIns(ctx context.Context, account app.AccountID, session int64) ([]app.NewSignIn, error) {
	if l.leave != nil {
		l.leave()
	}
	return l.others.NewSignIns(ctx, account, session)
}

// A page that its reader has left is no fault of berth's, and does not use up what the next page says once.
func TestPageThatIsLeft(t *testing.T) {
	var log bytes.Buffer
	asked := &leaving{}
	w := newWorld(t, func(c *Config) {
		asked.others, c.NewSignIns = c.NewSignIns, asked
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	w.host.add(w.ana.ID, "shop")
	b := w.as("ana")
	to := b.post("/apps/shop/env", "name", "TOKEN", "value", "x").leads(t, "a variable", "/apps/shop/env")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked.leave = cancel
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("the request ends with %v", err)
			}
		}()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, b.base+to, nil)
		r.RemoteAddr, r.TLS = b.peer, nil
		b.do(r)
	}()
	if strings.Contains(log.String(), "panic") {
		t.Errorf("the log has %s", &log)
	}
	asked.leave = nil
	b.get(to).want(t, "the next look", http.StatusOK, "variable was set")
}
