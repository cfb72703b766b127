package packages

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const project = "../.."

// ready skips where packages cannot be made.
func ready(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: for mounts, and to be another machine's root")
	}
	for _, tool := range []string{"dh", "dpkg-buildpackage", "lintian", "apt-ftparchive", "gpg", "jq", "zip", "unzip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: deploy/tools repository installs it", err)
		}
	}
}

// run calls a script of the project, with variables of its own.
func run(t *testing.T, variables []string, script string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(script, args...)
	cmd.Dir, cmd.Env = project, append(os.Environ(), variables...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is run for what must succeed.
func must(t *testing.T, variables []string, script string, args ...string) string {
	t.Helper()
	out, err := run(t, variables, script, args...)
	if err != nil {
		t.Fatalf("%s %v: %v: %s", script, args, err, out)
	}
	return out
}

func arch(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(must(t, nil, "dpkg", "--print-architecture"))
}

// pack packs a binary as a version into a directory.
func pack(t *testing.T, binary, version, into string) {
	t.Helper()
	must(t, []string{"VERSION=" + version}, "deploy/package", arch(t), binary, into)
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPackages packs a binary as two versions, and lets apt have both: packing takes most of
// the time of these tests. TestSoakRelease packs all that is published twice.
func TestPackages(t *testing.T) {
	t.Parallel()
	ready(t)
	binary, packages := filepath.Join(t.TempDir(), "berth"), t.TempDir()
	must(t, []string{"VERSION=0.9.1"}, "test/scripts/build", binary)
	pack(t, binary, "0.9.1", packages)
	t.Run("sound", func(t *testing.T) { sound(t, packages) })
	pack(t, binary, "0.9.2", packages)
	dir, variables := repository(t, packages)
	lives(t, dir)
	t.Run("what was published stays", func(t *testing.T) {
		deb := "berth_0.9.2_" + arch(t) + ".deb"
		if out, err := run(t, variables, "deploy/apt-repository", packages, dir); err == nil || !strings.Contains(out, "apt-repository: cannot replace "+deb+": it was published with other bytes; release a new version\n") {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// sound checks what a binary is packed into, and that Debian's own examiner finds nothing.
func sound(t *testing.T, first string) {
	t.Helper()
	deb, bill := "berth_0.9.1_"+arch(t)+".deb", "berth_0.9.1_linux_"+arch(t)+".cdx.json"
	archive := "berth_0.9.1_linux_" + arch(t) + ".tar.gz"
	made, err := os.ReadDir(first)
	if err != nil || len(made) != 3 {
		t.Errorf("it makes %v, %v", made, err)
	}
	if out := must(t, nil, "lintian", "--allow-root", "--fail-on", "error,warning,info", "--tag-display-limit", "0", filepath.Join(first, deb)); strings.TrimSpace(out) != "" {
		t.Errorf("lintian says %s", out)
	}
	for line := range strings.Lines(must(t, nil, "dpkg-deb", "--contents", filepath.Join(first, deb))) {
		if fields := strings.Fields(line); !strings.HasPrefix(fields[5], "./usr/") && fields[5] != "./" || fields[1] != "root/root" {
			t.Errorf("the package has %s", line)
		}
	}

	dir, tree := t.TempDir(), strings.TrimSuffix(archive, ".tar.gz")
	for _, forge := range []string{"github", "gitlab", "forgejo"} { // which get berth from this archive
		text := strings.NewReplacer("1.2.3", "0.9.1", "amd64", arch(t)).Replace(string(content(t, filepath.Join(project, "examples/ci", forge+".yml"))))
		if !strings.Contains(text, "https://example.org/berth/"+archive+"\n") || !strings.Contains(text, " --strip-components 1 "+tree+"/berth\n") {
			t.Errorf("examples/ci/%s.yml gets something else than %s: %s", forge, archive, text)
		}
	}
	must(t, nil, "tar", "-xzf", filepath.Join(first, archive), "-C", dir)
	if out := must(t, nil, filepath.Join(dir, "berth_0.9.1_linux_"+arch(t), "berth"), "--help"); !strings.Contains(out, "install") {
		t.Errorf("the archive's binary says %s", out)
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "THIRD-PARTY-LICENSES", "berth.toml.example", "man/berth.8"} {
		content(t, filepath.Join(dir, "berth_0.9.1_linux_"+arch(t), name))
	}

	var sbom struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(content(t, filepath.Join(first, bill)), &sbom); err != nil || sbom.BOMFormat != "CycloneDX" {
		t.Errorf("the bill of materials: %v, %q", err, sbom.BOMFormat)
	}
	for _, want := range []string{"github.com/mattn/go-sqlite3", "sqlite", "glibc", "std"} {
		found := false
		for _, c := range sbom.Components {
			found = found || c.Name == want && c.Version != "" && strings.HasPrefix(c.PURL, "pkg:")
		}
		if !found {
			t.Errorf("the bill of materials lacks %s", want)
		}
	}
}

// The client of other systems is packed, and has its licenses. TestSoakRelease packs it twice,
// for all processors.
func TestClients(t *testing.T) {
	t.Parallel()
	ready(t)
	first := t.TempDir()
	for name, unpack := range map[string][]string{
		"berth_0.9.1_darwin_arm64.tar.gz": {"tar", "-xzf"}, "berth_0.9.1_windows_amd64.zip": {"unzip", "-q"},
	} {
		tree, _, _ := strings.Cut(strings.TrimSuffix(name, ".zip"), ".tar")
		parts := strings.Split(tree, "_")
		must(t, []string{"VERSION=0.9.1"}, "deploy/client", parts[2], parts[3], first)
		dir := t.TempDir()
		unpacking := append(unpack, filepath.Join(first, name))
		if unpack[0] == "tar" {
			unpacking = append(unpacking, "-C", dir)
		} else {
			unpacking = append(unpacking, "-d", dir)
		}
		must(t, nil, unpacking[0], unpacking[1:]...)
		begins := map[string]string{"darwin": "\xcf\xfa\xed\xfe", "windows": "MZ"}[parts[2]]
		binary := filepath.Join(dir, tree, map[string]string{"darwin": "berth", "windows": "berth.exe"}[parts[2]])
		if text := content(t, binary); !bytes.HasPrefix(text, []byte(begins)) || !bytes.Contains(text, []byte("0.9.1")) {
			t.Errorf("%s begins with %q", binary, text[:4])
		}
		for _, file := range []string{"LICENSE", "THIRD-PARTY-LICENSES", "CHANGELOG.md", "commands.md"} {
			content(t, filepath.Join(dir, tree, file))
		}
	}
}

// repository is one of two versions, signed by a key of the test's own.
func repository(t *testing.T, packages string) (dir string, variables []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "repository")
	variables = []string{"GNUPGHOME=" + t.TempDir(), "APT_KEY=packages@test"}
	must(t, variables, "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "packages@test", "ed25519", "sign", "never")
	t.Cleanup(func() { _, _ = run(t, variables, "gpgconf", "--kill", "all") })
	if out := must(t, variables, "deploy/apt-repository", packages, dir); !strings.Contains(out, "apt-repository: 2 packages in ") {
		t.Errorf("it says %s", out)
	}
	return dir, variables
}

// lives is that apt installs, upgrades, goes back and removes, and takes nothing that is not
// signed.
func lives(t *testing.T, repository string) {
	t.Helper()
	t.Run("apt", func(t *testing.T) {
		r := newRoot(t, "", repository)
		r.life()
		r.apt("clean")
		r.refuses(repository)
	})
}

// What cannot be released is said before anything is built.
func TestRefusals(t *testing.T) {
	t.Parallel()
	ready(t)
	none := t.TempDir()
	for _, tt := range []struct {
		variables []string
		call      []string
		want      string
	}{
		{nil, []string{"deploy/release"}, "release: cannot release version \"\": a version is three numbers: make release VERSION=1.2.3\n"},
		{nil, []string{"deploy/release", "v1.2.3"}, "release: cannot release version \"v1.2.3\": "},
		{nil, []string{"deploy/release", "01.2.3"}, "release: cannot release version \"01.2.3\": "},
		{[]string{"MINISIGN_KEY=" + none + "/key"}, []string{"deploy/release", "1.2.3"}, "release: cannot read MINISIGN_KEY=" + none + "/key: make a key with minisign -G\n"},
		{[]string{"RELEASE_BASE=https://example.org"}, []string{"deploy/release", "1.2.3"}, "release: cannot publish at https://example.org without a signature: MINISIGN_KEY names no key\n"},
		{[]string{"RELEASE_BASE=http://example.org/&", "MINISIGN_KEY=README.md"}, []string{"deploy/release", "1.2.3"}, "release: cannot publish at http://example.org/&: it is no address such as https://example.org/berth\n"},
		{[]string{"APT_KEY="}, []string{"deploy/apt-repository", none, none}, "apt-repository: cannot sign: APT_KEY names no key of gpg --list-secret-keys\n"},
		{[]string{"GNUPGHOME=" + none, "APT_KEY=nobody@test"}, []string{"deploy/apt-repository", none, none}, "apt-repository: cannot sign: gpg has no secret key nobody@test (gpg --list-secret-keys)\n"},
	} {
		if out, err := run(t, append([]string{"OUT=" + none, "MINISIGN_KEY=", "RELEASE_BASE="}, tt.variables...), tt.call[0], tt.call[1:]...); err == nil || !strings.HasPrefix(out, tt.want) {
			t.Errorf("%v: %v: %s", tt.call, err, out)
		}
	}
}
