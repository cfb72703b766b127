package attacks

import (
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestAttacksOnInvitations: somebody who has a link that was changed, used, revoked or made by
// somebody who may not any more, or who wants berth to make links to another host, gets nothing of
// the built daemon.
func TestAttacksOnInvitations(t *testing.T) {
	t.Parallel()
	connected(t)
	d := launch(t, "--proxy-trusted", "127.0.0.0/8")
	const password, here, agent = "battery staple 47", "127.0.0.1", "Firefox/140.0"
	link := d.run("setup-url", "ana", "--listen", strings.TrimPrefix(d.Base, "http://"))
	var cookies []string
	for _, c := range (&http.Response{Header: postFrom(t, here, link, "@User-Agent", agent, "password", password, "again", password).header}).Cookies() {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	d.run("account", "set", "ana", "--admin", "true")
	ana := func(t *testing.T, path string, pairs ...string) device {
		t.Helper()
		return postFrom(t, here, d.Base+path, append([]string{"@User-Agent", agent, "@Cookie", strings.Join(cookies, "; "), "@Sec-Fetch-Site", "same-origin"}, pairs...)...)
	}
	secret := regexp.MustCompile(`id="secret" readonly value="([^"]+)"`)
	invite := func(t *testing.T) (path string) {
		t.Helper()
		made := ana(t, "/host/invitations", "ram", "16", "minutes", "60")
		found := secret.FindStringSubmatch(d.page(t, agent, strings.Join(cookies, "; "), made.header.Get("Location")))
		if found == nil {
			t.Fatalf("no link is shown: %d %.500s", made.status, made.text)
		}
		return strings.TrimPrefix(html.UnescapeString(found[1]), d.Base)
	}
	accept := func(t *testing.T, path, name string, pairs ...string) int {
		t.Helper()
		return postFrom(t, here, d.Base+path, append([]string{"name", name, "password", password, "again", password}, pairs...)...).status
	}
	nobody := func(t *testing.T, names ...string) {
		t.Helper()
		all := d.in(t).run("account", "list")
		for _, name := range names {
			if strings.Contains(all, name) {
				t.Errorf("%s was let in", name)
			}
		}
	}
	path := invite(t)

	t.Run("a link that was changed", func(t *testing.T) {
		key := strings.TrimPrefix(path, "/invitation/")
		changed := []string{key[1:], key[:len(key)-1], key + "A", key + "%00", strings.ToLower(key), strings.ToUpper(key), key + "/../" + key, "%2e%2e", "'%20OR%201=1--", strings.Repeat(key, 200)}
		for i := 0; i < len(key); i += 7 {
			b := []byte(key)
			if b[i]++; b[i] == '[' || b[i] == '{' || b[i] == ':' {
				b[i] = 'A'
			}
			changed = append(changed, string(b))
		}
		for _, other := range changed {
			if status := accept(t, "/invitation/"+other, "mallory"); status < 300 || status == http.StatusSeeOther {
				t.Errorf("%.80q is taken with status %d", other, status)
			}
		}
		nobody(t, "mallory")
	})
	t.Run("sent by another site", func(t *testing.T) {
		if status := accept(t, path, "mallory", "@Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
			t.Errorf("status %d", status)
		}
		nobody(t, "mallory")
	})
	t.Run("looked at", func(t *testing.T) {
		for range 3 {
			if text := d.page(t, "WhatsApp/2", "", path); !strings.Contains(text, "ana invites you.") {
				t.Fatalf("%.300s", text)
			}
		}
	})
	t.Run("of somebody who may not any more", func(t *testing.T) {
		d := d.in(t)
		for _, change := range [][3]string{{"set ana --admin false", "set ana --admin true"}, {"suspend ana", "unsuspend ana"}} {
			d.run(append([]string{"account"}, strings.Fields(change[0])...)...)
			if status := accept(t, path, "mallory"); status != http.StatusNotFound {
				t.Errorf("after %s: status %d", change[0], status)
			}
			d.run(append([]string{"account"}, strings.Fields(change[1])...)...)
		}
		nobody(t, "mallory")
	})
	t.Run("used at once", func(t *testing.T) {
		const many = 12
		statuses := make([]int, many)
		var wait sync.WaitGroup
		for i := range many {
			wait.Go(func() { statuses[i] = accept(t, path, "guest"+string(rune('a'+i))) })
		}
		wait.Wait()
		in := slices.DeleteFunc(slices.Clone(statuses), func(status int) bool { return status != http.StatusSeeOther })
		if accounts := strings.Count(d.in(t).run("account", "list"), "guest"); len(in) != 1 || accounts != 1 {
			t.Errorf("%v, and %d accounts", statuses, accounts)
		}
		if status := accept(t, path, "mallory"); status != http.StatusNotFound {
			t.Errorf("afterwards: status %d", status)
		}
	})
	t.Run("revoked", func(t *testing.T) {
		link := d.in(t).run("invite", "create", "--ram", "16", "--base-url", d.Base)
		d.in(t).run("invite", "revoke", "2")
		if status := accept(t, strings.TrimPrefix(link, d.Base), "mallory"); status != http.StatusNotFound {
			t.Errorf("status %d", status)
		}
		nobody(t, "mallory")
	})
	if found := d.holding(t, strings.TrimPrefix(path, "/invitation/")); len(found) > 0 {
		t.Errorf("the link is in %q", found)
	}
}

// TestAttacksOnTheAddressOfALink: a request cannot make berth show a link to another host when the
// settings name the panel's, nor one that is no address.
func TestAttacksOnTheAddressOfALink(t *testing.T) {
	t.Parallel()
	connected(t)
	d := launch(t, "--proxy-trusted", "127.0.0.0/8")
	const password, here, agent = "battery staple 47", "127.0.0.1", "Firefox/140.0"
	link := d.run("setup-url", "ana", "--listen", strings.TrimPrefix(d.Base, "http://"))
	d.run("account", "set", "ana", "--admin", "true")
	behind := []string{"@User-Agent", agent, "@X-Forwarded-Proto", "https", "@X-Forwarded-For", "192.0.2.7", "@Sec-Fetch-Site", "same-origin"}
	var cookies []string
	for _, c := range (&http.Response{Header: postFrom(t, here, link, append(behind, "@Host", "panel.example.org", "password", password, "again", password)...).header}).Cookies() {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	before := d.run("invite", "list", "--json")
	for _, host := range []string{"evil.example/x", "evil.example?x", "ana@evil.example", `evil.example"><b>`, "evil.example:80:80", "evil'.example", "[evil]"} {
		got := postFrom(t, here, d.Base+"/host/invitations", append(slices.Clone(behind), "@Host", host, "@Cookie", strings.Join(cookies, "; "), "ram", "16", "minutes", "60")...)
		if got.status != http.StatusBadRequest {
			t.Errorf("by %q: status %d %q", host, got.status, got.header.Get("Location"))
		}
	}
	if after := d.run("invite", "list", "--json"); after != before {
		t.Errorf("an invitation was made: %s", after)
	}
	if got := postFrom(t, here, d.Base+"/host/invitations", append(behind, "@Host", "panel.example.org", "@Cookie", strings.Join(cookies, "; "), "ram", "16", "minutes", "60")...); got.status != http.StatusSeeOther {
		t.Errorf("by its own name: status %d %.300s", got.status, got.text)
	}
}

// holding returns the files of the data directory that hold a text.
func (d *daemon) holding(t *testing.T, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(d.data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // it may be gone
		}
		if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), text) {
			found = append(found, fmt.Sprint(strings.TrimPrefix(path, d.data)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
