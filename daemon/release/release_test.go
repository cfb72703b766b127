package release

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// published are the files of a release, as its makers' server has them.
type published struct {
	files  map[string]string
	key    minisign.PublicKey
	secret minisign.PrivateKey
	server *httptest.Server
}

// publish serves files on loopback, with a manifest of them that is signed.
func publish(t *testing.T, version string, schema int, files map[string]string) *published {
	t.Helper()
	p := &published{files: map[string]string{}}
	var err error
	if p.key, p.secret, err = minisign.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	manifest := fmt.Sprintf("version %s\nschema %d\n", version, schema)
	for name, text := range files {
		p.files[name] = text
		manifest += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(text)), name)
	}
	p.sign(manifest)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, is := p.files[strings.TrimPrefix(r.URL.Path, "/berth/")]
		if !is {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(p.server.Close)
	return p
}

// sign puts a manifest there, with its signature as minisign makes it today.
func (p *published) sign(manifest string) {
	r := minisign.NewReader(strings.NewReader(manifest))
	_, _ = io.Copy(io.Discard, r)
	p.files["manifest"], p.files["manifest.minisig"] = manifest, string(r.Sign(p.secret))
}

func (p *published) source(t *testing.T) *Source {
	t.Helper()
	s, err := Open(p.server.URL+"/berth/", p.key.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestLatest(t *testing.T) {
	p := publish(t, "1.3.0", 34, map[string]string{"berth_1.3.0_amd64.deb": "a package"})
	s := p.source(t)
	check := func(about string) {
		t.Helper()
		r, err := s.Latest(t.Context())
		if err != nil || r.Version != (Version{1, 3, 0}) || r.Schema != 34 {
			t.Fatalf("%s: %+v, %v", about, r, err)
		}
		to := tempFile(t)
		if err := s.Download(t.Context(), r, "berth_1.3.0_amd64.deb", to); err != nil {
			t.Fatalf("%s: %v", about, err)
		}
		if text, err := os.ReadFile(to.Name()); err != nil || string(text) != "a package" {
			t.Errorf("%s: it is %q, %v", about, text, err)
		}
	}
	check("prehashed")
	p.files["manifest.minisig"] = string(minisign.Sign(p.secret, []byte(p.files["manifest"])))
	check("of an older minisign")
}

func tempFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestLatestRefuses(t *testing.T) {
	const sum = "0000000000000000000000000000000000000000000000000000000000000000"
	_, other, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for about, tt := range map[string]struct {
		change func(*published)
		says   string
	}{
		"no manifest":         {func(p *published) { delete(p.files, "manifest") }, "cannot download BASE/manifest: the server answers 404 Not Found"},
		"no signature":        {func(p *published) { delete(p.files, "manifest.minisig") }, "cannot download BASE/manifest.minisig: the server answers 404 Not Found"},
		"an empty signature":  {func(p *published) { p.files["manifest.minisig"] = "" }, "the manifest at BASE is not signed by the key KEY"},
		"a changed manifest":  {func(p *published) { p.files["manifest"] += sum + "  x\n" }, "the manifest at BASE is not signed by the key KEY"},
		"another's signature": {func(p *published) { p.secret = other; p.sign(p.files["manifest"]) }, "the manifest at BASE is not signed by the key KEY"},
		"a changed comment": {func(p *published) {
			p.files["manifest.minisig"] = strings.Replace(p.files["manifest.minisig"], "trusted comment: ", "trusted comment: x", 2)
		}, "the manifest at BASE is not signed by the key KEY"},
		"a huge manifest":      {func(p *published) { p.sign(strings.Repeat("x", maxManifest+1)) }, "cannot download BASE/manifest: it has more than 1 MB"},
		"an empty one":         {func(p *published) { p.sign("") }, "cannot use the release at BASE: its manifest is none that this berth can read: it names no file"},
		"one without files":    {func(p *published) { p.sign("version 1.3.0\nschema 1\n") }, "cannot use the release at BASE: its manifest is none that this berth can read: it names no file"},
		"a page":               {func(p *published) { p.sign("<html>\n") }, `its manifest is none that this berth can read: line 1 is "<html>"`},
		"no version":           {func(p *published) { p.sign("version 1.3\n") }, `line 1 is "version 1.3"`},
		"a version of Windows": {func(p *published) { p.sign("version 1.3.0\r\n") }, `line 1 is "version 1.3.0"`},
		"no schema":            {func(p *published) { p.sign("version 1.3.0\nschema 0\n") }, `line 2 is "schema 0"`},
		"no sum":               {func(p *published) { p.sign("version 1.3.0\nschema 1\n12  x\n") }, `line 3 is "12  x"`},
		"a path":               {func(p *published) { p.sign("version 1.3.0\nschema 1\n" + sum + "  ../x\n") }, `line 3 is "` + sum + `  ../x"`},
		"twice the same": {
			func(p *published) { p.sign("version 1.3.0\nschema 1\n" + sum + "  x\n" + sum + "  x\n") },
			`line 4 is "` + sum + `  x"`,
		},
	} {
		t.Run(about, func(t *testing.T) {
			p := publish(t, "1.3.0", 34, map[string]string{"x": "y"})
			tt.change(p)
			_, err := p.source(t).Latest(t.Context())
			want := strings.NewReplacer("BASE", p.server.URL+"/berth", "KEY", p.key.String()).Replace(tt.says)
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestDownloadRefuses(t *testing.T) {
	p := publish(t, "1.3.0", 34, map[string]string{"x": "y", "cut": "whole"})
	s := p.source(t)
	r, err := s.Latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.files["x"] = "z"
	cut := p.server.Config.Handler
	p.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cut") {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "who")
			return
		}
		cut.ServeHTTP(w, r)
	})
	for name, want := range map[string]string{
		"none": "the release 1.3.0 at BASE has no file none",
		"x":    fmt.Sprintf("BASE/x is not what the manifest names: its SHA-256 is %x", sha256.Sum256([]byte("z"))),
		"cut":  "cannot download BASE/cut: the connection broke off",
	} {
		want = strings.ReplaceAll(want, "BASE", p.server.URL+"/berth")
		if err := s.Download(t.Context(), r, name, tempFile(t)); err == nil || err.Error() != want {
			t.Errorf("%s: got  %v\nwant %s", name, err, want)
		}
	}
	p.server.Close()
	if err := s.Download(t.Context(), r, "x", tempFile(t)); err == nil || !strings.HasSuffix(err.Error(), "connection refused") {
		t.Errorf("no server: %v", err)
	}
}

// A file on a full disk is refused in the words of the system.
func TestDownloadToAFullDisk(t *testing.T) {
	p := publish(t, "1.3.0", 34, map[string]string{"x": "y"})
	s := p.source(t)
	r, err := s.Latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	if err := s.Download(t.Context(), r, "x", full); err == nil || !strings.HasSuffix(err.Error(), "no space left on device") {
		t.Errorf("got %v", err)
	}
}

func TestRedirects(t *testing.T) {
	p := publish(t, "1.3.0", 34, map[string]string{"x": "y"})
	for to, want := range map[string]string{
		p.server.URL + "/berth":        "",
		"http://192.0.2.1/berth":       "cannot download BASE/manifest: it redirects to http://192.0.2.1/berth/manifest, which is not HTTPS",
		"ftp://127.0.0.1/berth":        "cannot download BASE/manifest: it redirects to ftp://127.0.0.1/berth/manifest, which is not HTTPS",
		"http://localhost.example.org": "cannot download BASE/manifest: it redirects to http://localhost.example.org/manifest, which is not HTTPS",
		"":                             "cannot download BASE/manifest: it redirects without end",
	} {
		from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to+r.URL.Path, http.StatusFound)
		}))
		s, err := Open(from.URL, p.key.String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Latest(t.Context())
		if said := fmt.Sprint(err); want == "" && err != nil || want != "" && said != strings.ReplaceAll(want, "BASE", from.URL) {
			t.Errorf("to %q: got %v, want %s", to, err, want)
		}
		s.Close()
		from.Close()
	}
}

func TestOpenRefuses(t *testing.T) {
	const key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
	for _, tt := range []struct{ base, key, want string }{
		{"http://example.org", key, "http://example.org is not HTTPS"},
		{"http://localhost:80", key, "http://localhost:80 is not HTTPS"}, // a name may lead anywhere
		{"file:///x", key, `"file:///x" is no address such as https://example.org/berth`},
		{"https://a:b@example.org", key, `"https://a:b@example.org" is no address such as https://example.org/berth`},
		{"https://example.org/?x=y", key, `"https://example.org/?x=y" is no address such as https://example.org/berth`},
		{"", key, `"" is no address such as https://example.org/berth`},
		{"https://example.org", "", `"" is no public key of minisign's: it begins with RW and has 56 characters`},
		{"https://example.org", key[:55], `"` + key[:55] + `" is no public key of minisign's: it begins with RW and has 56 characters`},
		{"https://example.org/berth", key, ""},
		{"http://127.0.0.1:8000", key, ""},
		{"http://[::1]:8000", key, ""},
	} {
		if _, err := Open(tt.base, tt.key); tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
			t.Errorf("%s, %s: got %v, want %s", tt.base, tt.key, err, tt.want)
		}
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"1.2.3": "1.2.3", "v1.2.3": "1.2.3", "0.0.0": "0.0.0", "1.10.0": "1.10.0",
		"": "", "1.2": "", "1.2.3.4": "", "1.2.x": "", "1.2.3-rc1": "", "01.2.3": "", "1.2.+3": "", "-1.2.3": "", "(devel)": "", "unknown": "",
		"v0.0.0-20261122120000-0123456789ab": "", "v1.2.4-0.20261122120000-0123456789ab+dirty": "", "1.2.99999999999": "",
	} {
		v, ok := ParseVersion(text)
		if ok != (want != "") || ok && v.String() != want {
			t.Errorf("%q: %v, %v", text, v, ok)
		}
	}
	for _, tt := range []struct {
		a, b string
		want int
	}{{"1.2.3", "1.2.3", 0}, {"1.2.3", "1.10.0", -1}, {"2.0.0", "1.99.99", 1}, {"1.2.3", "1.2.4", -1}} {
		a, _ := ParseVersion(tt.a)
		b, _ := ParseVersion(tt.b)
		if a.Compare(b) != tt.want || b.Compare(a) != -tt.want {
			t.Errorf("%s and %s: %d", a, b, a.Compare(b))
		}
	}
}

// Whatever the bytes are, parse ends, and what it takes has names of files alone.
func FuzzManifest(f *testing.F) {
	f.Add([]byte("version 1.3.0\nschema 1\n" + strings.Repeat("0", 64) + "  berth_1.3.0_amd64.deb\n"))
	f.Add([]byte("version 1.3.0\nschema 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil {
			return
		}
		if len(r.sums) == 0 || bytes.Count(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) != len(r.sums)+1 {
			t.Errorf("%q has %d files", text, len(r.sums))
		}
		for name := range r.sums {
			if name == "" || strings.ContainsAny(name, "/\\ ") {
				t.Errorf("%q names %q", text, name)
			}
		}
	})
}
