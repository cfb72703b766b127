//go:build guest

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"aead.dev/minisign"

	"berth/test/harness"
)

// guestVersion is the release that the berth of guests is (test/scripts/test-vm). No other text in
// the binary is the same.
const guestVersion = "900.700.501"

// unitDescription is in the daemon's unit.
const unitDescription = "Description=Application host berth\n"

// releases are on loopback, each a berth of guests with another version in it.
type releases struct {
	t      *testing.T
	key    minisign.PublicKey
	secret minisign.PrivateKey
	files  map[string][]byte
	*httptest.Server
}

func newReleases(t *testing.T) *releases {
	t.Helper()
	key, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := &releases{t: t, key: key, secret: secret, files: map[string][]byte{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, is := r.files[strings.TrimPrefix(q.URL.Path, "/")]
		if !is {
			http.NotFound(w, q)
			return
		}
		_, _ = w.Write(text)
	}))
	t.Cleanup(r.Close)
	return r
}

// publish makes a version of the same length the newest. Its units have another description, of
// the same length too.
func (r *releases) publish(version, description string, schema int) {
	r.t.Helper()
	binary, err := os.ReadFile(harness.Binary)
	if err != nil {
		r.t.Fatal(err)
	}
	binary = bytes.ReplaceAll(binary, []byte(guestVersion), []byte(version))
	binary = bytes.ReplaceAll(binary, []byte(unitDescription), []byte(description))
	var text bytes.Buffer
	packed, _ := gzip.NewWriterLevel(&text, gzip.BestSpeed)
	files := tar.NewWriter(packed)
	err = files.WriteHeader(&tar.Header{Name: "berth_" + version + "/berth", Mode: 0o755, Size: int64(len(binary))})
	_, errWrite := files.Write(binary)
	if err := errors.Join(err, errWrite, files.Close(), packed.Close()); err != nil {
		r.t.Fatal(err)
	}
	clear(r.files)
	name := "berth_" + version + "_linux_" + runtime.GOARCH + ".tar.gz"
	manifest := fmt.Sprintf("version %s\nschema %d\n%x  %s\n", version, schema, sha256.Sum256(text.Bytes()), name)
	r.files[name], r.files["manifest"] = text.Bytes(), []byte(manifest)
	r.files["manifest.minisig"] = minisign.Sign(r.secret, []byte(manifest))
}

// upgrade is the command of the berth that is installed.
func (r *releases) upgrade(args ...string) (said string, status int) {
	cmd := exec.Command("/usr/local/bin/berth", append([]string{"upgrade", "--from", r.URL, "--key", r.key.String()}, args...)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		r.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// serves checks which release answers.
func (s *service) serves(version string) {
	s.T.Helper()
	resp, err := http.Get(s.Base + "/v2/openapi.json")
	if err != nil {
		s.T.Fatal(err)
	}
	_ = resp.Body.Close()
	if is := resp.Header.Get("berth-version"); is != version {
		s.T.Errorf("berth %s serves, want %s", is, version)
	}
}

// TestGuestUpgrade: a release follows another under requests, and goes when it does not come up;
// no program restarts, no request fails and no line is lost. Not parallel: a guest has one installed
// berth.
func TestGuestUpgrade(t *testing.T) {
	s := uninstalled(t)
	t.Cleanup(s.leave)
	sites := harness.Address(t)
	s.settings(behind(sites)...)
	s.command("install", "--now")
	c := s.account("ana", 600)
	site := c.Upload(shopNode)
	counter := c.Upload(harness.PythonBot(countingPython, "RAM=40"))
	node := c.Upload(harness.NodeBot(harness.IdleNode, "RAM=90"))
	pids := map[string]int{counter: s.PID(counter), node: s.PID(node), site: s.PID(site)}
	s.serves(guestVersion)
	r := newReleases(t)
	schema := s.schema()

	r.publish("900.700.502", unitDescription, schema)
	if said, status := r.upgrade("--check"); status != 6 || !strings.Contains(said, "release 900.700.502 is at "+r.URL+", and "+guestVersion+" is installed\nHint: sudo berth upgrade\n") {
		t.Errorf("--check exits with %d: %s", status, said)
	}
	main := s.main()
	s.answersFour(func() {
		if said, status := r.upgrade(); status != 0 || !strings.HasSuffix(said, "berth 900.700.502 serves in the place of "+guestVersion+"; programs ran on\n") {
			t.Errorf("the upgrade exits with %d: %s", status, said)
		}
	})
	s.serves("900.700.502")
	s.runs(c, "an upgrade", pids)
	if now := s.main(); now != main {
		t.Errorf("the daemon was %d and is %d: the units are the same, and it was restarted", main, now)
	}

	// The next one passes its check, and does not come up: it has other units, so systemd starts it.
	if err := os.MkdirAll("/run/systemd/system/berth.service.d", 0o755); err != nil {
		t.Fatal(err)
	}
	harness.Write(t, "/run/systemd/system/berth.service.d/broken.conf",
		"[Service]\nExecStartPre=/bin/sh -c 'case $$(/usr/local/bin/berth --version) in *900.700.503*) echo it is broken on purpose; exit 1;; esac'\n")
	s.systemctl("daemon-reload")
	r.publish("900.700.503", strings.Replace(unitDescription, "berth", "BERTH", 1), schema)
	s.shopOpens(sites)
	visitors := harness.Visit(5, func() *http.Request { return atShop(sites) })
	s.answersFour(func() {
		said, status := r.upgrade()
		if status != 1 || !strings.Contains(said, "berth: cannot upgrade: berth 900.700.503 did not come up: ") || !strings.Contains(said, "it is broken on purpose; berth 900.700.502 is back\n") {
			t.Errorf("the upgrade exits with %d: %s", status, said)
		}
	})
	visitors.End(t, 5)
	s.serves("900.700.502")
	s.runs(c, "an upgrade that was taken back", pids)
	s.is("ActiveState=active", "SubState=running")
	if unit, err := os.ReadFile("/etc/systemd/system/berth.service"); err != nil || !strings.Contains(string(unit), unitDescription) {
		t.Errorf("the unit is not the old one: %v, %s", err, unit)
	}
	c.whole(counter, 20)
	if said, err := exec.Command("/usr/local/bin/berth", "--version").Output(); err != nil || !strings.HasPrefix(string(said), "berth 900.700.502 ") {
		t.Errorf("the binary is %s, %v", said, err)
	}
	left, err := os.ReadDir("/usr/local/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), ".berth") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// leave uninstalls berth, before the units stop, and leaves nothing to the next test.
func (s *service) leave() {
	out, err := exec.Command(harness.Binary, "uninstall").CombinedOutput()
	if err != nil {
		s.T.Errorf("uninstall: %v: %s", err, out)
	}
	for _, dir := range []string{"/etc/berth", "/run/systemd/system/berth.service.d"} {
		_ = os.RemoveAll(dir)
	}
	entries, _ := os.ReadDir(s.Data)
	for _, e := range entries {
		_ = os.RemoveAll(s.Data + "/" + e.Name())
	}
}

// behind are the settings of a berth that serves sites at an address.
func behind(sites string) []string {
	return []string{`proxy.mode = "behind"`, `proxy.domain = "apps.example.org"`, fmt.Sprintf("proxy.listen = %q", sites)}
}

// shopNode is the site of atShop.
var shopNode = harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"), "index.js": siteNode}

// answersFour is answersThrough by four clients at once.
func (s *service) answersFour(happens func()) {
	s.T.Helper()
	for range 4 {
		inner := happens
		happens = func() { s.answersThrough(inner) }
	}
	happens()
}

// schema is that of the database.
func (s *service) schema() int {
	s.T.Helper()
	names, err := os.ReadDir("../../db/migration")
	if err != nil || len(names) == 0 {
		s.T.Fatalf("the migrations are %v, %v", names, err)
	}
	return len(names)
}
