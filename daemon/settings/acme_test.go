package settings

import (
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/web/certs"
)

func TestACMEDirectories(t *testing.T) {
	for text, want := range map[string]string{
		"letsencrypt": certs.LetsEncrypt, "staging": certs.Staging, "https://127.0.0.1:14000/dir": "https://127.0.0.1:14000/dir",
	} {
		if s := mustLoad(t, "", nil, "--proxy-acme-directory="+text); s.Proxy.ACME.Directory != want {
			t.Errorf("%s is %s, want %s", text, s.Proxy.ACME.Directory, want)
		}
	}
}

func TestAuthority(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	roots := file("roots", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	mac := base64.RawURLEncoding.EncodeToString([]byte("a\xfb\xffkey"))
	var s Settings
	s.Proxy.ACME = acmeSettings{Directory: "https://ca.example/", Email: "ana@example.org", Roots: roots, Binding: file("eab", "kid-1\n"+mac+"==\n")}
	got, err := s.Authority()
	if err != nil || got.Roots == nil || got.KeyID != "kid-1" || string(got.MAC) != "a\xfb\xffkey" || got.Email != "ana@example.org" || !strings.HasPrefix(got.Agent, "berth/") {
		t.Errorf("got %+v, %v", got, err)
	}
	for says, change := range map[string]func(a *acmeSettings){
		"cannot read proxy.acme_roots: ":                                 func(a *acmeSettings) { a.Roots = dir + "/none" },
		"cannot use proxy.acme_roots: there is no certificate in " + dir: func(a *acmeSettings) { a.Roots = file("empty", "x") },
		"cannot read proxy.acme_binding: ":                               func(a *acmeSettings) { a.Binding = dir + "/none" },
		"cannot use proxy.acme_binding: the file must hold the key id":   func(a *acmeSettings) { a.Binding = file("one", "kid-1") },
		"cannot use proxy.acme_binding: the MAC key must be written in base64url": func(a *acmeSettings) {
			a.Binding = file("bad", "kid-1 secret+key")
		},
	} {
		bad := s
		change(&bad.Proxy.ACME)
		if _, err := bad.Authority(); err == nil || !strings.HasPrefix(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	s.Proxy.ACME = acmeSettings{Directory: certs.LetsEncrypt}
	if got, err := s.Authority(); err != nil || got.Roots != nil || got.KeyID != "" {
		t.Errorf("without files: %+v, %v", got, err)
	}
}
