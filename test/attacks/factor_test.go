package attacks

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/test/harness"
)

// TestAttacksOnTheSecondFactor: somebody who has the password, a code that was used, half a sign-in
// or a copied session gets no further against the built daemon.
func TestAttacksOnTheSecondFactor(t *testing.T) {
	t.Parallel()
	connected(t)
	d := launch(t)
	const password, here, agent = "correct horse", "127.0.0.1", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	// as sends a form with cookies, in a browser, and returns the answer and the cookies after it.
	as := func(t *testing.T, source, browser, cookies, path string, pairs ...string) (device, string) {
		t.Helper()
		got := postFrom(t, source, d.Base+path, append([]string{"@Cookie", cookies, "@User-Agent", browser, "@Sec-Fetch-Site", "same-origin"}, pairs...)...)
		jar := map[string]string{}
		for _, c := range (&http.Request{Header: http.Header{"Cookie": {cookies}}}).Cookies() {
			jar[c.Name] = c.Value
		}
		for _, c := range (&http.Response{Header: got.header}).Cookies() {
			if jar[c.Name] = c.Value; c.MaxAge < 0 {
				delete(jar, c.Name)
			}
		}
		after := []string{}
		for name, value := range jar {
			after = append(after, name+"="+value)
		}
		return got, strings.Join(after, "; ")
	}
	link := d.run("setup-url", "ana", "--listen", strings.TrimPrefix(d.Base, "http://"))
	_, ana := as(t, here, agent, "", strings.TrimPrefix(link, d.Base), "password", password, "again", password)
	offered, ana := as(t, here, agent, ana, "/account/factors/app")
	found := regexp.MustCompile(`id="seed" readonly value="([A-Z2-7]+)"`).FindStringSubmatch(offered.text)
	if found == nil {
		t.Fatalf("no app is offered: %d %.500s", offered.status, offered.text)
	}
	seed := found[1]
	code := func(at time.Time) string {
		key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(seed)
		if err != nil {
			t.Fatal(err)
		}
		h := hmac.New(sha1.New, key)
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(at.Unix()/30)))
		sum := h.Sum(nil)
		return fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff)%1_000_000)
	}
	began := time.Now()
	confirmed, ana := as(t, here, agent, ana, "/account/factors/app/confirm", "code", code(began))
	codes := regexp.MustCompile(`\b(?:[A-Z2-7]{4}-){5}[A-Z2-7]{4}\b`).FindAllString(d.page(t, agent, ana, confirmed.header.Get("Location")), -1)
	if len(codes) != 10 {
		t.Fatalf("%d recovery codes: %d %.300s", len(codes), confirmed.status, confirmed.text)
	}
	half := func(t *testing.T) string {
		t.Helper()
		got, cookies := as(t, here, agent, "", "/login", "name", "ana", "password", password)
		if got.header.Get("Location") != "/login/second?next=%2F" || strings.Contains(cookies, "__Host-berth=") {
			t.Fatalf("the password alone: %d %q, %s", got.status, got.header.Get("Location"), cookies)
		}
		return cookies
	}
	signedIn := func(cookies string) bool { return strings.Contains(cookies, "__Host-berth=") }

	t.Run("half a sign-in as a session", func(t *testing.T) {
		key := strings.ReplaceAll(half(t), "-pending", "")
		if text := d.page(t, agent, key, "/account"); strings.Contains(text, "ana") {
			t.Error("it opens the account")
		}
	})
	t.Run("a code that was used", func(t *testing.T) {
		if got, cookies := as(t, here, agent, half(t), "/login/second", "code", code(began)); got.status != http.StatusUnauthorized || signedIn(cookies) {
			t.Errorf("%d, %s", got.status, cookies)
		}
	})
	t.Run("one recovery code many times at once", func(t *testing.T) {
		pending := []string{half(t), half(t), half(t)}
		var won atomic.Int32
		var all sync.WaitGroup
		for _, cookies := range pending {
			all.Go(func() {
				if _, after := as(t, here, agent, cookies, "/login/second", "code", codes[0]); signedIn(after) {
					won.Add(1)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("it opened %d sessions", won.Load())
		}
	})
	t.Run("a key that somebody has put into the browser", func(t *testing.T) {
		cookies := half(t) + "; __Host-berth=fixed"
		_, after := as(t, here, agent, cookies, "/login/second", "code", codes[1])
		if strings.Contains(after, "fixed") || !signedIn(after) {
			t.Errorf("after the sign-in: %s", after)
		}
	})
	t.Run("a copied session", func(t *testing.T) {
		got, _ := as(t, "127.9.0.1", agent, ana, "/account/tokens", "label", "thief")
		if got.status != http.StatusOK || !strings.Contains(got.text, "prove-password") {
			t.Errorf("from another address it makes a token: %d", got.status)
		}
		if got, _ := as(t, "127.9.0.1", "curl/8", ana, "/account/tokens", "label", "thief"); got.header.Get("Location") != "/login" {
			t.Errorf("in another browser: %d %q", got.status, got.header.Get("Location"))
		}
		if text := d.page(t, agent, ana, "/account"); strings.Contains(text, "Sessions") {
			t.Error("the session goes on after it turned up in another browser")
		}
		harness.Eventually(t, "the audit log has it", func() bool { return strings.Contains(d.run("audit"), "session.taken") })
	})
	t.Run("what is written down", func(t *testing.T) {
		raw, _ := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(seed)
		said := d.Out.String() + d.run("audit", "--json")
		for _, secret := range []string{seed, string(raw), codes[2], strings.ReplaceAll(codes[2], "-", "")} {
			if strings.Contains(said, secret) {
				t.Error("a log has the seed or a code")
			}
			for _, name := range []string{"berth.db", "berth.db-wal"} {
				if text, err := os.ReadFile(filepath.Join(d.data, name)); err == nil && strings.Contains(string(text), secret) {
					t.Errorf("%s has the seed or a code", name)
				}
			}
		}
	})
}

// page is the text of a page of the panel.
func (d *daemon) page(t *testing.T, agent, cookies, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.Base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", agent)
	r.Header.Set("Cookie", cookies)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, resp.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
