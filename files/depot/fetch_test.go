package depot

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// site is a publisher: what it answers by path.
type site map[string]string

// ServeHTTP implements http.Handler.
func (s site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	text, ok := s[path]
	if to, is := strings.CutPrefix(text, "->"); is {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	fmt.Fprint(w, text)
}

// published serves a site over TLS and returns a client of it for every language.
func published(t *testing.T, s http.Handler) (*Client, string) {
	t.Helper()
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	base := map[string]string{}
	for _, language := range Languages() {
		base[language] = server.URL + "/" + language
	}
	c := NewClient(base, "berth/test")
	trust(t, c, server)
	return c, server.URL
}

func trust(t *testing.T, c *Client, server *httptest.Server) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	transport, ok := c.http.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("%T", c.http.Transport)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// arch is the name of this machine's processor to a publisher.
func arch(language string) string { return publishers[language].arch[runtime.GOARCH] }

// shop is what every publisher publishes, and its archives by their versions.
func shop(t *testing.T) site {
	t.Helper()
	s := site{}
	x := arch("node")
	var sums string
	for _, version := range []string{"22.11.0", "22.9.0", "20.18.1"} {
		data := node(t, version)
		name := "node-v" + version + "-linux-" + x + ".tar.gz"
		s["/node/v"+version+"/"+name] = string(data)
		s["/node/v"+version+"/SHASUMS256.txt"] = sumOf([]byte("other")) + "  node-v" + version + ".pkg\n" + sumOf(data) + "  " + name + "\n"
	}
	s["/node/index.json"] = `[{"version":"v23.0.0-rc.1","files":["linux-` + x + `"]},{"version":"v22.9.0","files":["linux-` + x + `","win-x64"],"lts":false},
		{"version":"v22.11.0","files":["linux-` + x + `"],"lts":"Jod"},{"version":"v24.0.0","files":["win-x64"]},{"version":"v20.18.1","files":["linux-` + x + `"]},{"version":"../../x","files":["linux-` + x + `"]}]`

	for _, version := range []string{"3.12.8", "3.13.1"} {
		data := tarball(t, piece{name: "python/bin/python3", text: version, mode: 0o755})
		name := "cpython-" + version + "+20241206-" + arch("python") + "-unknown-linux-gnu-install_only_stripped.tar.gz"
		sums += sumOf(data) + "  " + name + "\n" + sumOf(nil) + "  " + strings.ReplaceAll(name, "_stripped", "") + "\n"
		s["/python/download/20241206/"+strings.ReplaceAll(name, "+", "%2B")] = "->/elsewhere/" + version
		s["/elsewhere/"+version] = string(data)
	}
	s["/python/latest/download/SHA256SUMS"] = "->/elsewhere/sums"
	s["/elsewhere/sums"] = sums + sumOf(nil) + "  cpython-3.14.0a2+20241206-" + arch("python") + "-unknown-linux-gnu-install_only_stripped.tar.gz\n"

	jre := tarball(t, piece{name: "jdk-21.0.5+11-jre/bin/java", text: "21.0.5", mode: 0o755})
	s["/java/v3/info/available_releases"] = `{"available_lts_releases":[8,21],"most_recent_feature_release":23}`
	s["/java/v3/assets/feature_releases/21/ga"] = `[{"release_name":"jdk-21.0.5+11","version_data":{"semver":"21.0.5+11.0.LTS"},"binaries":[
		{"package":{"name":"x.pkg","checksum":"` + sumOf(nil) + `"}},{"package":{"name":"x.tar.gz","checksum":"` + sumOf(jre) + `"}}]}]`
	s["/java/v3/binary/version/jdk-21.0.5%2B11/linux/"+arch("java")+"/jre/hotspot/normal/eclipse"] = string(jre)

	deno := zipped(t, piece{name: "deno", text: "2.1.4", mode: 0o755})
	name := "deno-" + arch("deno") + "-unknown-linux-gnu.zip"
	s["/deno.atom"] = atom("/denoland/deno/releases/tag/v2.1.4", "/denoland/deno/releases/tag/v2.1.3", "/denoland/deno/releases/tag/std/0.1.0")
	s["/deno/download/v2.1.4/"+name] = string(deno)
	s["/deno/download/v2.1.4/"+name+".sha256sum"] = sumOf(deno) + "  target/release/" + name + "\n"

	bun := zipped(t, piece{name: "bun-linux-" + arch("bun") + "/bun", text: "1.1.38", mode: 0o755})
	name = "bun-linux-" + arch("bun") + ".zip"
	s["/bun.atom"] = atom("/oven-sh/bun/releases/tag/bun-v1.1.38", "/oven-sh/bun/releases/tag/canary")
	s["/bun/download/bun-v1.1.38/"+name] = string(bun)
	s["/bun/download/bun-v1.1.38/SHASUMS256.txt"] = sumOf(bun) + "  " + name + "\n"
	return s
}

// atom is a feed of releases.
func atom(links ...string) string {
	text := `<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom"><link href="https://github.com/x"/>`
	for _, link := range links {
		text += `<entry><id>x</id><link rel="alternate" type="text/html" href="https://github.com` + link + `"/></entry>`
	}
	return text + "</feed>"
}

func TestPublishers(t *testing.T) {
	client, _ := published(t, shop(t))
	c := changed(t)
	for _, tt := range []struct {
		language, wanted string
		offers           []string
	}{
		{"node", "", []string{"22.11.0", "22.9.0", "20.18.1"}},
		{"node", "20", []string{"20.18.1"}},
		{"node", "22.9", []string{"22.9.0"}},
		{"node", "2", nil},
		{"python", "", []string{"3.13.1", "3.12.8"}},
		{"python", "3.12", []string{"3.12.8"}},
		{"java", "", []string{"21.0.5"}},
		{"java", "21", []string{"21.0.5"}},
		{"java", "21.0.4", nil},
		{"java", "17", nil},
		{"java", "8", nil},
		{"deno", "", []string{"2.1.4", "2.1.3"}},
		{"deno", "2.1.4", []string{"2.1.4"}},
		{"deno", "1.46.3", []string{"1.46.3"}}, // which the feed is too short for
		{"bun", "", []string{"1.1.38"}},
		{"bun", "1", []string{"1.1.38"}},
	} {
		offers, err := client.Offers(t.Context(), tt.language, tt.wanted)
		if err != nil {
			t.Errorf("%s %s: %v", tt.language, tt.wanted, err)
			continue
		}
		var got []string
		for _, o := range offers {
			got = append(got, o.Version)
		}
		if !slices.Equal(got, tt.offers) {
			t.Errorf("%s %s: %v, want %v", tt.language, tt.wanted, got, tt.offers)
		}
		if tt.wanted != "" || len(offers) == 0 {
			continue
		}
		source, err := client.Source(t.Context(), offers[0])
		if err != nil {
			t.Errorf("%s: %v", tt.language, err)
			continue
		}
		if r, err := c.Install(t.Context(), source, says); err != nil || r.Version != offers[0].Version || r.Source != source.Name || r.SHA256 != source.SHA256 {
			t.Errorf("%s: %+v, %v", tt.language, r, err)
		}
	}
	if all := c.Runtimes(); len(all) != len(Languages()) {
		t.Errorf("%v", all)
	}
}

func TestBadPublisher(t *testing.T) {
	name := "node-v22.11.0-linux-" + arch("node") + ".tar.gz"
	dir := "/node/v22.11.0/"
	for _, tt := range []struct {
		name   string
		change func(s site)
		words  []string
	}{
		{"no index", func(s site) { delete(s, "/node/index.json") }, []string{"cannot list the versions of Node.js", "/node/index.json: the server answers 404 Not Found"}},
		{"a page instead", func(s site) { s["/node/index.json"] = "<html>" }, []string{"cannot read what", "/node/index.json gives"}},
		{"too long", func(s site) { s["/node/index.json"] = strings.Repeat(" ", maxList+1) }, []string{"it is larger than 32 MB"}},
		{"no sums", func(s site) { delete(s, dir+"SHASUMS256.txt") }, []string{"cannot learn the sum of node 22.11.0", "404"}},
		{"sum of others", func(s site) { s[dir+"SHASUMS256.txt"] = sumOf(nil) + "  other\n" + sumOf(nil) + "  x\n" }, []string{"the list of sums has none of " + name}},
		{"another archive", func(s site) { s[dir+name] = string(node(t, "22.9.0")) }, []string{"has the SHA-256", "the publisher's list says"}},
		{"no archive", func(s site) { delete(s, dir+name) }, []string{"cannot install node 22.11.0: cannot get", "404"}},
		{"cut short", func(s site) { s[dir+name] = s[dir+name][:50] }, []string{"has the SHA-256"}},
		{"to plain HTTP", func(s site) { s[dir+name] = "->http://127.0.0.1:1/x" }, []string{"it leads to http://127.0.0.1:1/x, which is not HTTPS"}},
		{"to a file", func(s site) { s[dir+name] = "->file:///etc/passwd" }, []string{"it leads to file:///etc/passwd, which is not HTTPS"}},
		{"in a circle", func(s site) { s[dir+name] = "->" + dir + name }, []string{"it leads on too often"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := shop(t)
			tt.change(s)
			client, _ := published(t, s)
			c := changed(t)
			offers, err := client.Offers(t.Context(), "node", "22")
			if err == nil {
				var source Source
				if source, err = client.Source(t.Context(), offers[0]); err == nil {
					_, err = c.Install(t.Context(), source, says)
				}
			}
			refused(t, c, err, tt.words...)
		})
	}
}

// An entity of a list of releases is neither read from a file nor fetched, and a bomb of them
// does not go off.
func TestListWithEntities(t *testing.T) {
	for name, entity := range map[string]string{
		"a file": `<!ENTITY x SYSTEM "file:///etc/hostname">`, "an address": `<!ENTITY x SYSTEM "http://127.0.0.1:1/">`,
		"a bomb": `<!ENTITY y "0000000000"><!ENTITY x "&y;&y;&y;&y;&y;&y;&y;&y;&y;&y;">`,
	} {
		s := shop(t)
		s["/deno.atom"] = `<?xml version="1.0"?><!DOCTYPE feed [` + entity + `]><feed><entry><link href="/v9.9.9"/><title>&x;</title></entry></feed>`
		client, _ := published(t, s)
		if offers, err := client.Offers(t.Context(), "deno", ""); err == nil || !strings.Contains(err.Error(), "invalid character entity &x;") {
			t.Errorf("%s: %v, %v", name, offers, err)
		}
	}
}

// A server that says nothing more does not hold a command for ever.
func TestStalledDownload(t *testing.T) {
	held := make(chan struct{})
	client, address := published(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "a")
		w.(http.Flusher).Flush()
		<-held
	}))
	defer close(held)
	client.stall = 50 * time.Millisecond
	_, err := client.list(t.Context(), address)
	if err == nil || !strings.Contains(err.Error(), "cannot get "+address+": nothing came for 50ms") {
		t.Errorf("%v", err)
	}
}

// Nobody answers for a server that cannot prove its name.
func TestUnknownServer(t *testing.T) {
	server := httptest.NewUnstartedServer(site{"/node/index.json": "[]"})
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the client goes away
	server.StartTLS()
	defer server.Close()
	client := NewClient(map[string]string{"node": server.URL + "/node"}, "berth/test")
	if _, err := client.Offers(t.Context(), "node", ""); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
}

func TestSum(t *testing.T) {
	a, b := sumOf([]byte("a")), sumOf([]byte("b"))
	for _, tt := range []struct{ list, want string }{
		{a + "  x.zip\n" + b + "  y.zip\n", a},
		{b + "  y.zip\r\n" + a + " *x.zip\r\n", a},
		{strings.ToUpper(a) + "  ./dir/x.zip", a},
		{a + "\n", a},
		{"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n" + a + "  x.zip\n-----BEGIN PGP SIGNATURE-----\n", a},
		{b + "  y.zip", ""},
		{a + "\n" + b + "\n", ""},
		{"x.zip " + a, ""},
		{a[:63] + "  x.zip", ""},
		{"", ""},
	} {
		got, err := Sum([]byte(tt.list), "x.zip")
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %q, %v", tt.list, got, err)
		}
	}
}
