//go:build soak

package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSoakFreshDebian lets apt have the packages on a Debian 12 of nothing but what each has.
func TestSoakFreshDebian(t *testing.T) {
	ready(t)
	binary, packages := filepath.Join(t.TempDir(), "berth"), t.TempDir()
	must(t, []string{"VERSION=0.9.1"}, "test/scripts/build", binary)
	pack(t, binary, "0.9.1", packages)
	pack(t, binary, "0.9.2", packages)
	dir, _ := repository(t, packages)
	fresh := filepath.Join(t.TempDir(), "debian")
	if out, err := exec.Command("debootstrap", "--variant=minbase", "bookworm", fresh).CombinedOutput(); err != nil {
		t.Fatalf("debootstrap: %v: %s", err, out)
	}
	r := newRoot(t, fresh, dir)
	r.life()
	r.refuses(dir)
}

// TestSoakRelease makes a whole release twice, in two directories and with two caches of the
// compiler, and compares all bytes.
func TestSoakRelease(t *testing.T) {
	ready(t)
	must(t, nil, "deploy/tools", "release")
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	must(t, nil, "minisign", "-G", "-W", "-p", key+".pub", "-s", key)
	var made []string
	for _, name := range []string{"one", "another-directory"} {
		tree, out := filepath.Join(dir, name), filepath.Join(dir, name+".out")
		must(t, nil, "git", "clone", "-q", ".", tree)
		cmd := exec.Command("deploy/release", "0.9.1")
		cmd.Dir = tree
		cmd.Env = append(os.Environ(), "OUT="+out, "MINISIGN_KEY="+key, "RELEASE_BASE=https://example.org/berth", "GOCACHE="+filepath.Join(dir, name+".cache"))
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		made = append(made, out)
	}
	files, err := os.ReadDir(made[0])
	if err != nil || len(files) != 15 {
		t.Errorf("a release is %v, %v", files, err)
	}
	for _, f := range files {
		if string(content(t, filepath.Join(made[0], f.Name()))) != string(content(t, filepath.Join(made[1], f.Name()))) {
			t.Errorf("%s is another one the second time", f.Name())
		}
	}
	for _, name := range []string{"manifest", "SHA256SUMS"} {
		must(t, nil, "minisign", "-V", "-p", key+".pub", "-m", filepath.Join(made[0], name))
	}
	script := string(content(t, made[0]+"/install.sh"))
	if !strings.Contains(script, "${BERTH_BASE:-https://example.org/berth}") || strings.Contains(script, "-@KEY@}") {
		t.Error("install.sh has no address or no key")
	}
	manifest := string(content(t, made[0]+"/manifest"))
	if !strings.HasPrefix(manifest, "version 0.9.1\nschema ") || !strings.HasSuffix(manifest, string(content(t, made[0]+"/SHA256SUMS"))) {
		t.Errorf("the manifest is %s", manifest)
	}
}
