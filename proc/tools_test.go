package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// openDir makes a directory that every user may enter; t.TempDir is closed.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "berth-tools.") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// script makes a command.
func script(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), mode); err != nil {
		t.Fatal(err)
	}
}

func TestFindTools(t *testing.T) {
	tools := FindTools()
	dirs := strings.Split(tools.Path(), ":")
	for _, dir := range dirs {
		if !enterable(dir) || strings.HasPrefix(dir, "/root/") || strings.HasPrefix(dir, "/home/") {
			t.Errorf("%s is on the PATH of programs", dir)
		}
	}
	if !slices.Contains(dirs, "/usr/bin") {
		t.Errorf("PATH is %s", tools.Path())
	}
	if path, _ := tools.Find("sh"); !filepath.IsAbs(path) {
		t.Errorf("Find(sh) = %q", path)
	}
	if path, hidden := tools.Find("no-such-command"); path != "" || hidden != "" {
		t.Errorf("Find found %q, %q", path, hidden)
	}
}

// Programs trust what is on their PATH, so no program may write there.
func TestUsableDirectories(t *testing.T) {
	dir := openDir(t)
	for name, mode := range map[string]os.FileMode{
		"go/bin": 0o755, "opt/b/bin": 0o755, "opt/a/bin": 0o775, "opt/closed/bin": 0o750, "opt/anybody/bin": 0o777, "opt/x:y/bin": 0o755,
		"opt/exchanged/bin": 0o755, "opt/exchanged": 0o777, "opt/relinked": 0o777, "other": 0o777, "other/bin": 0o755,
	} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "opt/linked"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"opt/linked/bin": "other/bin", "opt/relinked/bin": "go/bin"} {
		if err := os.Symlink(filepath.Join(dir, target), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	got := usable([]string{dir + "/absent", dir + "/go/bin", dir + "/opt/*/bin"})
	if want := []string{dir + "/go/bin", dir + "/opt/a/bin", dir + "/opt/b/bin"}; !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestFind(t *testing.T) {
	dir := openDir(t)
	bin, home := dir+"/bin", dir+"/home"
	script(t, bin+"/open", "", 0o755)
	script(t, bin+"/closed", "", 0o750)
	script(t, bin+"/text", "", 0o644)
	script(t, bin+"/anybodys", "", 0o755)
	if err := os.Chmod(bin+"/anybodys", 0o757); err != nil {
		t.Fatal(err)
	}
	script(t, home+"/.cargo/bin/cargo", "", 0o755)
	script(t, home+"/.cargo/bin/closed", "", 0o755)
	script(t, home+"/.cargo/bin/open", "", 0o755)
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"linked": bin + "/open", "into-a-home": home + "/.cargo/bin/cargo", "nowhere": "x"} {
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(bin+"/folder", 0o755); err != nil {
		t.Fatal(err)
	}
	tools := &Tools{dirs: []string{dir + "/absent", bin}, homes: []string{home + "/.*/bin"}}
	for name, want := range map[string][2]string{
		"open":        {bin + "/open", ""},
		"linked":      {bin + "/linked", ""},
		"closed":      {"", bin + "/closed"},
		"anybodys":    {"", bin + "/anybodys"},
		"into-a-home": {"", bin + "/into-a-home"},
		"cargo":       {"", home + "/.cargo/bin/cargo"},
		"text":        {}, "folder": {}, "nowhere": {}, "absent": {},
	} {
		if path, hidden := tools.Find(name); path != want[0] || hidden != want[1] {
			t.Errorf("Find(%s) = %q, %q, want %q", name, path, hidden, want)
		}
	}
}

func TestVersion(t *testing.T) {
	dir := openDir(t)
	tools := &Tools{dirs: []string{dir, "/usr/bin", "/bin"}, versions: make(map[file]string), patience: versionTimeout}
	for name, c := range map[string]struct{ says, want string }{
		"node":    {`echo v20.20.2`, "20.20.2"},
		"go":      {`[ "$1" = version ] && echo go version go1.19.8 linux/amd64`, "1.19.8"},
		"java":    {`[ "$1" = -version ] && echo 'openjdk version "17.0.15" 2025-04-15' >&2; echo 9.9`, "17.0.15"},
		"rustc":   {`echo 'rustc 1.63.0'; echo 2.2 >&2`, "1.63.0"},
		"ruby":    {`echo 'ruby 3.1.2p20 (2022-04-12 revision 4491bb740a)'`, "3.1.2"},
		"php":     {`printf 'PHP 8.2.29 (cli)\nZend Engine v4.2.29\n'`, "8.2.29"},
		"bundle":  {`echo 'Bundler version 2.3.15'`, "2.3.15"},
		"bare":    {`echo 21`, "21"},
		"fails":   {`echo 1.2.3; exit 1`, "1.2.3"},
		"nothing": {`exit 3`, ""},
		"floods":  {`echo 4.5.6; exec head -c 10000000 /dev/zero`, "4.5.6"},
		"prints":  {`echo "$HOME $PWD" $(ls) | tr -d 0-9; echo 7.7`, "7.7"},
	} {
		script(t, filepath.Join(dir, name), c.says, 0o755)
		if got := tools.Version(name); got != c.want {
			t.Errorf("the version of %s is %q, want %q", name, got, c.want)
		}
	}
	if got := tools.Version("absent"); got != "" {
		t.Errorf("the version of nothing is %q", got)
	}
	// Another file is asked again, the same is not.
	script(t, filepath.Join(dir, "node"), `echo v22.18.0`, 0o755)
	if got := tools.Version("node"); got != "22.18.0" {
		t.Errorf("after an update the version is %q", got)
	}
	count := filepath.Join(dir, "count")
	if err := os.WriteFile(count, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(count, 0o666); err != nil {
		t.Fatal(err)
	}
	script(t, filepath.Join(dir, "counts"), `echo x >> `+count+`; id -u; exit`, 0o755)
	who := tools.Version("counts")
	if again := tools.Version("counts"); again != who {
		t.Errorf("two answers: %q and %q", who, again)
	}
	if text, err := os.ReadFile(count); err != nil || string(text) != "x\n" {
		t.Errorf("it ran %q, %v", text, err)
	}
	if os.Geteuid() == 0 && who != "65534" {
		t.Errorf("root asked as user %s", who)
	}
}

// What hangs, and what it has started, is ended; it is asked again another time.
func TestVersionOfWhatHangs(t *testing.T) {
	dir := openDir(t)
	tools := &Tools{dirs: []string{dir, "/usr/bin", "/bin"}, versions: make(map[file]string), patience: 200 * time.Millisecond}
	script(t, filepath.Join(dir, "hangs"), `echo 1.0; sleep 1234.5 & sleep 1234.5`, 0o755)
	if got := tools.Version("hangs"); got != "" {
		t.Errorf("the version is %q", got)
	}
	if len(tools.versions) > 0 {
		t.Errorf("it is remembered: %v", tools.versions)
	}
	poll(t, "nothing of it runs", func() bool { return !running(t, "1234.5") })
}

// running reports whether a process has this word in its command line.
func running(t *testing.T, word string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(lines, func(path string) bool {
		text, _ := os.ReadFile(path) // it may have ended
		return slices.Contains(strings.Split(string(text), "\x00"), word)
	})
}

// What was said is told again while another command takes its time.
func TestVersionIsToldWhileAnotherIsAsked(t *testing.T) {
	dir := openDir(t)
	tools := &Tools{dirs: []string{dir, "/usr/bin", "/bin"}, versions: make(map[file]string), patience: time.Minute}
	marks := openDir(t)
	if err := os.Chown(marks, nobody, nobody); err != nil && os.Getuid() == 0 {
		t.Fatal(err)
	}
	script(t, dir+"/quick", `echo 1.0`, 0o755)
	script(t, dir+"/slow", `touch `+marks+`/asked; until [ -e `+marks+`/go ]; do sleep 0.01; done; echo 2.0`, 0o755)
	tools.Version("quick")
	slow := make(chan string, 1)
	go func() { slow <- tools.Version("slow") }()
	poll(t, "the slow one is asked", func() bool { _, err := os.Stat(marks + "/asked"); return err == nil })
	if got := tools.Version("quick"); got != "1.0" || len(slow) > 0 {
		t.Errorf("the version is %q, told after the slow one's: %t", got, len(slow) > 0)
	}
	if err := os.WriteFile(marks+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := <-slow; got != "2.0" {
		t.Errorf("the slow one says %q", got)
	}
}

// What lies where programs do not see it is as good as closed to them.
func TestToolsOnly(t *testing.T) {
	shown, unseen := openDir(t), openDir(t)
	for _, path := range []string{filepath.Join(shown, "here"), filepath.Join(unseen, "there")} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(unseen, "there"), filepath.Join(shown, "linked")); err != nil {
		t.Fatal(err)
	}
	tools := &Tools{dirs: []string{shown, unseen}}
	if path, _ := tools.Find("linked"); path == "" {
		t.Skip("everything here is closed to others")
	}
	tools.Only([]string{shown, "/no/such/path"})
	if got := tools.Path(); got != shown {
		t.Errorf("the PATH is %s, want %s", got, shown)
	}
	if path, _ := tools.Find("here"); path != filepath.Join(shown, "here") {
		t.Errorf("what is shown is found at %q", path)
	}
	if path, hidden := tools.Find("linked"); path != "" || hidden != filepath.Join(shown, "linked") {
		t.Errorf("a link to what is not shown is found at %q, hidden at %q", path, hidden)
	}
}

// The tools of an installed runtime go before the host's, and share what is known of them.
func TestToolsBefore(t *testing.T) {
	dir := openDir(t)
	host, installed := dir+"/host", dir+"/22.11.0/bin"
	script(t, host+"/node", "echo v18.19.0; echo asked >> "+dir+"/asked", 0o755)
	script(t, host+"/yarn", "echo 1.22.19", 0o755)
	script(t, installed+"/node", "echo v22.11.0", 0o755)
	script(t, installed+"/npm", `node --version`, 0o755)
	script(t, installed+"/closed", "", 0o700)
	if err := os.WriteFile(dir+"/asked", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir+"/asked", 0o666); err != nil {
		t.Fatal(err)
	}
	tools := &Tools{dirs: []string{host, "/usr/bin", "/bin"}, shown: []string{host, "/usr"}, versions: make(map[file]string), patience: versionTimeout}
	before := tools.Before(installed)
	if got, want := before.Path(), installed+":"+tools.Path(); got != want {
		t.Errorf("PATH is %s, want %s", got, want)
	}
	for name, want := range map[string][2]string{
		"node": {installed + "/node", "22.11.0"}, "npm": {installed + "/npm", "22.11.0"}, "yarn": {host + "/yarn", "1.22.19"}, "closed": {"", ""},
	} {
		if path, _ := before.Find(name); path != want[0] || before.Version(name) != want[1] {
			t.Errorf("%s is %s %s, want %s", name, path, before.Version(name), want)
		}
	}
	for _, host := range []*Tools{tools, tools.Before(dir), before.Before(dir)} {
		if got := host.Version("yarn"); got != "1.22.19" {
			t.Errorf("yarn is %s", got)
		}
	}
	if got := tools.Version("node"); got != "18.19.0" {
		t.Errorf("the host's node is %s", got)
	}
	if got := tools.Before(dir).Version("node"); got != "18.19.0" {
		t.Errorf("the host's node is %s", got)
	}
	if text, err := os.ReadFile(dir + "/asked"); err != nil || string(text) != "asked\n" {
		t.Errorf("the host's node was asked %q, %v", text, err)
	}
}
