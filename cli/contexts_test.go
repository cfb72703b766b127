package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"berth/app/exit"
)

// The application of a directory is that of the ID in the nearest discloud.config, or else the
// one that the nearest directory was deployed to.
func TestAppOfDirectory(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir()) // as the working directory is written
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, filepath.Join(root, "home"))
	}
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("deployed/deep/x", "")
	write("named/deep/x", "")
	write("named/discloud.config", "ID=shop\nMAIN=index.js\n")
	write("both/discloud.config", "ID=shop\n")
	write("inner/discloud.config", "MAIN=index.js\n")
	write("broken/discloud.config", "ID\n")
	write("none/x", "")
	err = changeContexts(func(all *contexts) error {
		all.Contexts["lab"] = savedContext{URL: "https://berth.example.org", Token: "t"}
		for dir, id := range map[string]string{"deployed": "1", "both": "shop", "inner": "2"} {
			all.Applications[filepath.Join(root, dir)] = savedApp{Context: "lab", ID: id}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		path, err := contextsFile()
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	for dir, want := range map[string]savedApp{
		"deployed": {"lab", "1"}, "deployed/deep": {"lab", "1"}, "named": {"", "shop"}, "named/deep": {"", "shop"},
		"both": {"lab", "shop"}, "inner": {"lab", "2"}, "none": {}, "broken": {},
	} {
		t.Chdir(filepath.Join(root, dir))
		got, err := appOfDirectory()
		if got != want || (err == nil) != (want.ID != "") {
			t.Errorf("%s: %+v, %v, want %+v", dir, got, err, want)
		}
		if code, _ := verdict(err); dir == "none" && code != exit.Usage {
			t.Errorf("%s: exit status %d", dir, code)
		}
	}
}
