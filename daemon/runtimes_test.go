package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/db"
	"berth/files"
)

// A runtime is used by who would start with it, whose packages it installed, and who runs
// it; what a program puts in its directory does not hold up who asks.
func TestRuntimeUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to run a program as another user")
	}
	dir, err := os.MkdirTemp("/tmp", "berth-runtimes.") //nolint:usetesting // t.TempDir is closed to other users
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d, err := MakeDatabase(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	owner, err := d.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 4096})
	if err != nil {
		t.Fatal(err)
	}
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"node/22.11.0": "#!/bin/sh\necho v22.11.0\n", "node/22.9.0": string(sleep), "node/20.1.0": "#!/bin/sh\necho v20.1.0\n", "python/3.99.1": "",
	} {
		bin := filepath.Join(dir, "runtimes", path, "bin")
		err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(filepath.Join(bin, "node"), []byte(text), 0o755))
		if err != nil {
			t.Fatal(err)
		}
	}
	ids := db.IDRange{UIDBase: 470000, UIDCount: 20, PortFirst: 20000, PortLast: 20019}
	uids := map[app.ID]int{}
	for id, code := range map[app.ID]app.Code{
		"exact": {Lang: "javascript", Version: "20.1.0"}, "line": {Lang: "typescript", Version: "22"}, "start": {Lang: "shell", Start: "npm start", Version: "22.11.x"},
		"other": {Lang: "javascript", Version: "18"}, "plain": {Lang: "ruby", Version: "22"}, "runs": {Lang: "shell", Version: "latest"},
		"venv": {Lang: "shell"}, "elsewhere": {Lang: "shell"}, "fifo": {Lang: "shell"}, "link": {Lang: "shell"},
	} {
		a, err := d.Allocations(ids).Reserve(t.Context(), app.App{ID: id, Account: owner.ID, RAM: 32, Wanted: app.WantOnline}, func(app.Account, app.Use) error { return nil })
		if err == nil {
			a.Code = code
			a, err = d.Apps.CreateApp(t.Context(), a, app.Deploy{By: owner.ID, Kind: app.DeployUpload})
		}
		if err == nil {
			err = os.MkdirAll(filepath.Join(files.AppDir(dir, id), ".venv"), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		uids[id] = a.UID
	}
	config := func(id app.ID) string { return filepath.Join(files.AppDir(dir, id), ".venv", "pyvenv.cfg") }
	err = errors.Join(
		os.WriteFile(config("venv"), fmt.Appendf(nil, "home = %s/runtimes/python/3.99.1/bin\n", dir), 0o644),
		os.WriteFile(config("elsewhere"), []byte("home = /usr/bin\n"), 0o644),
		unix.Mkfifo(config("fifo"), 0o644), os.Symlink(config("venv"), config("link")),
	)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "runtimes/node/22.9.0/bin/node"), "60")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uids["runs"]), Gid: uint32(uids["runs"])}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	got, err := RuntimeUsers(t.Context(), d, dir, HostTools(dir, nil))
	if err != nil {
		t.Fatal(err)
	}
	sorted := map[string]map[app.ID]bool{}
	for name, list := range got {
		sorted[name] = map[app.ID]bool{}
		for _, id := range list {
			sorted[name][id] = true
		}
	}
	want := map[string]map[app.ID]bool{
		"node 20.1.0": {"exact": true}, "node 22.11.0": {"line": true, "start": true}, "node 22.9.0": {"runs": true}, "python 3.99.1": {"venv": true},
	}
	if !reflect.DeepEqual(sorted, want) {
		t.Errorf("got %v, want %v", sorted, want)
	}
}

// What does not run has no version; the command must be the runtime's own.
func TestRuntimeVersion(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "berth-runtimes.") //nolint:usetesting // t.TempDir is closed to other users
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, text := range map[string]string{"good": "#!/bin/sh\necho v1.2.3\n", "dies": "#!/no/such/interpreter\n", "silent": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"good": "1.2.3", "dies": "", "silent": "", "sh": "", "absent": ""} {
		if got := RuntimeVersion(dir, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
