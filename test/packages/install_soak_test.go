//go:build soak

package packages

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSoakInstallScript installs a release by install.sh on a Debian 12 of nothing but curl, again,
// and a newer one by install.sh and by berth upgrade; and an older one by neither.
func TestSoakInstallScript(t *testing.T) {
	ready(t)
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	must(t, nil, "minisign", "-G", "-W", "-p", key+".pub", "-s", key)
	public := strings.Split(string(content(t, key+".pub")), "\n")[1]
	for _, version := range []string{"0.9.1", "0.9.2", "0.9.3"} {
		binary := filepath.Join(t.TempDir(), "berth")
		must(t, []string{"VERSION=" + version}, "test/scripts/build", binary)
		pack(t, binary, version, filepath.Join(dir, version))
	}
	fresh := filepath.Join(t.TempDir(), "debian")
	if out, err := exec.Command("debootstrap", "--variant=minbase", "bookworm", fresh).CombinedOutput(); err != nil {
		t.Fatalf("debootstrap: %v: %s", err, out)
	}
	r := newRoot(t, fresh, dir)
	r.run("apt-get", "-qq", "update")
	r.run("apt-get", "-qq", "install", "-y", "--no-install-recommends", "curl")

	var now string // the release that is published
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.ServeFile(w, q, filepath.Join(dir, now, filepath.Base(q.URL.Path)))
	}))
	t.Cleanup(server.Close)
	publish := func(version string) {
		now = version
		manifest := fmt.Sprintf("version %s\nschema 1\n", version)
		files, err := filepath.Glob(filepath.Join(dir, version, "berth_*"))
		if err != nil || len(files) != 3 {
			t.Fatalf("packed are %v, %v", files, err)
		}
		for _, file := range files {
			manifest += fmt.Sprintf("%x  %s\n", sha256.Sum256(content(t, file)), filepath.Base(file))
		}
		at := filepath.Join(dir, version, "manifest")
		if err := os.WriteFile(at, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		must(t, nil, "minisign", "-S", "-s", key, "-m", at)
		script := strings.NewReplacer("@BASE@", server.URL, "@KEY@", public).Replace(string(content(t, project+"/deploy/install.sh")))
		if err := os.WriteFile(filepath.Join(dir, version, "install.sh"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := func() (string, error) { return r.try("sh", "-c", "curl -fsSL "+server.URL+"/install.sh | sh") }
	ends := func(about, out string, err error, want string) {
		t.Helper()
		if !strings.HasSuffix(out, want+"\n") || (err != nil) != strings.Contains(want, "cannot") {
			t.Errorf("%s: %v: %s", about, err, out)
		}
	}

	publish("0.9.1")
	out, err := install()
	ends("first", out, err, "install.sh: berth 0.9.1 is installed. Next, to make your account and open the panel: sudo berth setup")
	r.has(true, "/usr/bin/berth", "/etc/berth/berth.toml", "/usr/bin/openssl", "/usr/bin/node")
	out, err = install()
	if err != nil || out != "install.sh: berth 0.9.1 is installed, and there is none newer: nothing to do\n" {
		t.Errorf("again: %v: %s", err, out)
	}
	publish("0.9.2")
	out, err = install()
	ends("a newer one", out, err, "install.sh: berth 0.9.2 is installed in the place of 0.9.1; berth doctor shows how it is")
	publish("0.9.3")
	out, err = r.try("berth", "upgrade", "--from", server.URL, "--key", public)
	ends("by berth upgrade", out, err, "berth 0.9.3 is installed in the place of 0.9.2. The service is stopped, as it was: systemctl start berth")
	if is := r.run("dpkg-query", "-W", "-f", "${Version} ${Status}", "berth"); is != "0.9.3 install ok installed" {
		t.Errorf("dpkg has %s", is)
	}
	publish("0.9.1")
	out, err = install()
	ends("an older one", out, err, "install.sh: cannot install berth: berth 0.9.3 is installed, and "+server.URL+" has only 0.9.1, which is older")
	out, err = r.try("berth", "upgrade", "--from", server.URL, "--key", public)
	ends("an older one by berth upgrade", out, err, "berth: cannot upgrade: berth 0.9.3 is installed, and "+server.URL+" has only 0.9.1, which is older")
	r.has(false, "/usr/bin/berth.old")
	if left := r.run("sh", "-c", "ls -A /var/tmp; ls -A /usr/bin | grep ^.berth- || true"); left != "" {
		t.Errorf("left are %s", left)
	}
}
