package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/app"
	"berth/daemon"
	"berth/files"
	"berth/host"
	"berth/test/hosted"
)

// berthBeside runs a command on a data directory and returns what it printed.
func berthBeside(h *hosted.Directory, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	env := func(name string) string {
		return map[string]string{"BERTH_CONFIG": filepath.Join(filepath.Dir(h.Path), "berth.toml"), "BERTH_RUNTIME_DIR": "/none"}[name]
	}
	code = Run(context.Background(), args, env, &out, &errs)
	return code, out.String(), errs.String()
}

// settled does what a boot does with journals, and reports whether there was
// nothing to undo.
func settled(t *testing.T, h *hosted.Directory, a app.App) bool {
	t.Helper()
	good, err := h.DB.History.Journals(t.Context(), a.ID)
	hosted.Must(t, err)
	pending := h.Store.Pending(a.ID, good)
	hosted.Must(t, h.Store.Settle(t.Context(), a.ID, a.UID, good))
	return !pending
}

func TestBackupOfTheWholeHost(t *testing.T) {
	h := hosted.New(t)
	hosted.Must(t, h.Deploy(h.Stage(map[string]string{"main": "2", "new": "2"}), "b"))
	hosted.Must(t, os.WriteFile(filepath.Join(h.Store.Dir("shop"), "data"), []byte("rows"), 0o644))
	hosted.Must(t, os.Lchown(filepath.Join(h.Store.Dir("shop"), "data"), h.UID, h.UID))
	parent := filepath.Dir(h.Path)
	file := filepath.Join(parent, "all.tar.gz")
	code, out, errs := berthBeside(h, "backup", "create", "--to", file, "--data-dir", h.Path) // beside those who have it open
	if code != 0 || out != file+"\n" || !strings.Contains(errs, "It holds secrets") || strings.Contains(out+errs, "secret-value") {
		t.Fatalf("create: %d %s %s", code, out, errs)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if code, _, errs := berthBeside(h, "backup", "create", "--to", file, "--data-dir", h.Path); code != 1 || !strings.Contains(errs, "exists already") {
		t.Errorf("over a file: %d %s", code, errs)
	}
	if code, out, errs := berthBeside(h, "backup", "verify", file); code != 0 || !strings.Contains(out, "1 applications") {
		t.Errorf("verify: %d %s %s", code, out, errs)
	}
	to := filepath.Join(parent, "there")
	if code, _, errs := berthBeside(h, "backup", "restore", file, "--data-dir", to); code != 0 || !strings.Contains(errs, "the settings of that host are in") {
		t.Fatalf("restore: %d %s", code, errs)
	}
	for _, name := range []string{"apps", "rollback"} {
		got, want := hosted.Listing(t, filepath.Join(to, name)), hosted.Listing(t, filepath.Join(h.Path, name))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
	}
	there := hosted.Open(t, to)
	wantApps, err := h.DB.Apps.Apps(t.Context())
	hosted.Must(t, err)
	gotApps, err := there.DB.Apps.Apps(t.Context())
	hosted.Must(t, err)
	if fmt.Sprint(gotApps) != fmt.Sprint(wantApps) || len(gotApps) != 1 {
		t.Errorf("got %+v, want %+v", gotApps, wantApps)
	}
	vars, err := there.DB.Apps.Variables(t.Context(), "shop")
	if err != nil || len(vars) != 1 || vars[0].Value != "secret-value" {
		t.Errorf("variables %v, %v", vars, err)
	}
	if _, _, err := there.DB.Accounts.AccountByToken(t.Context(), [32]byte{7}); err != nil {
		t.Errorf("the token: %v", err)
	}
	if !settled(t, there, gotApps[0]) {
		t.Error("a boot finds a commit that was cut short")
	}
	all, err := there.DB.History.Deploys(t.Context(), "shop")
	hosted.Must(t, err)
	_, journals, err := host.WayBack(all, 1)
	hosted.Must(t, err)
	stage, stays, err := there.Store.Rollback(t.Context(), "shop", h.UID, journals)
	hosted.Must(t, err)
	there.UID = h.UID
	hosted.Must(t, there.Back(stage, "a"))
	if got := hosted.Listing(t, there.Store.Dir("shop")); len(stays) != 0 || !strings.HasSuffix(got["main"], " 1") || got["new"] != "" || !strings.HasSuffix(got["data"], " rows") {
		t.Errorf("after a rollback %v, stays %v", got, stays)
	}
	if code, _, errs := berthBeside(h, "backup", "restore", file, "--data-dir", to); code != 1 || !strings.Contains(errs, "it is not empty") {
		t.Errorf("over another: %d %s", code, errs)
	}
	left, err := filepath.Glob(filepath.Join(parent, "*part*"))
	if staged, serr := os.ReadDir(filepath.Join(h.Path, "staging")); err != nil || serr != nil || len(left)+len(staged) > 2 { // two stages of the test's
		t.Errorf("left %v, %v", left, staged)
	}
}

func TestBackupRefusals(t *testing.T) {
	h := hosted.New(t)
	parent := filepath.Dir(h.Path)
	file := filepath.Join(parent, "all.tar.gz")
	if code, _, errs := berthBeside(h, "backup", "create", "--to", file, "--data-dir", h.Path); code != 0 {
		t.Fatal(errs)
	}
	whole, err := os.ReadFile(file)
	hosted.Must(t, err)
	write := func(name string, text []byte) string {
		path := filepath.Join(parent, name)
		hosted.Must(t, os.WriteFile(path, text, 0o600))
		return path
	}
	broken := slices.Clone(whole)
	broken[len(broken)/2] ^= 1
	into := filepath.Join(parent, "into")
	hosted.Must(t, os.MkdirAll(filepath.Join(parent, "locked"), 0o711))
	lock, err := files.Lock(filepath.Join(parent, "locked"))
	hosted.Must(t, err)
	defer lock.Close()
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"backup", "create"}, 2, "the flag --to is missing"},
		{[]string{"backup", "create", "--to", file + "2", "--data-dir", into}, 5, "cannot find a database in"},
		{[]string{"backup", "create", "--to", filepath.Join(parent, "no", "x"), "--data-dir", h.Path}, 1, "cannot write the backup"},
		{[]string{"backup", "verify", file + "2"}, 5, "cannot verify"},
		{[]string{"backup", "verify", write("text", []byte("text"))}, 78, "it is not compressed with gzip"},
		{[]string{"backup", "verify", write("cut", whole[:len(whole)-9])}, 1, "the archive is damaged"},
		{[]string{"backup", "verify", write("broken", broken)}, 1, "the archive is damaged"},
		{[]string{"backup", "restore", filepath.Join(parent, "broken"), "--data-dir", into}, 1, "the archive is damaged"},
		{[]string{"backup", "restore", file, "--data-dir", h.Path}, 1, "it is not empty"},
		{[]string{"backup", "restore", file, "--data-dir", filepath.Join(parent, "locked")}, 1, "another berth is serving from it"},
	} {
		code, _, errs := berthBeside(h, tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%v: %d %s", tt.args, code, errs)
		}
	}
	if _, err := os.Stat(into); err == nil {
		t.Error("a backup that is not whole left a directory")
	}
	hosted.Must(t, os.MkdirAll(filepath.Join(into, daemon.UnfinishedName), 0o700))
	if code, _, errs := berthBeside(h, "account", "list", "--data-dir", into); code != 78 || !strings.Contains(errs, "a restore into it was cut short") {
		t.Errorf("half a restore: %d %s", code, errs)
	}
}

// A database of a newer berth is refused by everything, with 78, and in a backup.
func TestNewerDatabases(t *testing.T) {
	h := hosted.New(t)
	path := filepath.Join(h.Path, daemon.DatabaseName)
	hosted.Must(t, errors.Join(h.DB.Close()))
	b, err := os.ReadFile(path)
	hosted.Must(t, err)
	b[63] = 200 // user_version (https://sqlite.org/fileformat2.html, 1.3)
	hosted.Must(t, os.WriteFile(path, b, 0o600))
	if code, _, errs := berthBeside(h, "account", "list", "--data-dir", h.Path); code != 78 || !strings.Contains(errs, "written by a newer berth (schema 200") || !strings.Contains(errs, "Hint:") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestCollisions(t *testing.T) {
	apps := []app.App{{ID: "shop", UID: 70001}, {ID: "bot", UID: 70002}}
	got := collisions(apps, "root:x:0:0::/root:/bin/sh\nbo\x1bb:x:70002:1::/:\nbroken\neve:x:no:1\nal:x:70003:1\n")
	want := `warning: the user "bo\x1bb" of this host has the id 70002, as the application bot has: each can read the files of the other; remove that user, or upload the application anew`
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %q", got)
	}
}

// Whoever is deployed while a backup is made is in it as the database tells.
func TestBackupDuringDeploys(t *testing.T) {
	h := hosted.New(t)
	stop, done := make(chan struct{}), make(chan error, 1)
	stages := make([]app.Stage, 12)
	for i := range stages {
		stages[i] = h.Stage(map[string]string{"main": fmt.Sprint(i), "lib/x": fmt.Sprint(i)})
	}
	go func() {
		for i, stage := range stages {
			if err := h.Deploy(stage, fmt.Sprint(i)); err != nil {
				done <- err
				return
			}
		}
		close(stop)
		done <- nil
	}()
	for n := 0; ; n++ {
		file := filepath.Join(filepath.Dir(h.Path), fmt.Sprint(n, ".tar.gz"))
		code, _, errs := berthBeside(h, "backup", "create", "--to", file, "--data-dir", h.Path)
		if code != 0 {
			t.Fatal(errs)
		}
		to := filepath.Join(filepath.Dir(h.Path), fmt.Sprint("to", n))
		if code, _, errs := berthBeside(h, "backup", "restore", file, "--data-dir", to); code != 0 {
			t.Fatal(errs)
		}
		there := hosted.Open(t, to)
		all, err := there.DB.Apps.Apps(t.Context())
		hosted.Must(t, err)
		settled(t, there, all[0])
		main, err := os.ReadFile(filepath.Join(there.Store.Dir("shop"), "main"))
		hosted.Must(t, err)
		want := all[0].Code.Main
		if want == "a" {
			want = "1" // the upload
		}
		if string(main) != want {
			t.Errorf("the database says %s, the files %s", all[0].Code.Main, main)
		}
		select {
		case <-stop:
			hosted.Must(t, <-done)
			return
		default:
		}
	}
}
