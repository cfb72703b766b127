package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/app"
	"berth/host"
)

func TestBackupOfTheWholeHost(t *testing.T) {
	h := newHosted(t)
	checked(t, h.deploy(h.stage(map[string]string{"main": "2", "new": "2"}), "b"))
	checked(t, os.WriteFile(filepath.Join(h.store.Dir("shop"), "data"), []byte("rows"), 0o644))
	checked(t, os.Lchown(filepath.Join(h.store.Dir("shop"), "data"), h.uid, h.uid))
	parent := filepath.Dir(h.dir)
	file := filepath.Join(parent, "all.tar.gz")
	code, out, errs := h.berth("backup", "create", "--to", file, "--data-dir", h.dir) // beside those who have it open
	if code != 0 || out != file+"\n" || !strings.Contains(errs, "It holds secrets") || strings.Contains(out+errs, "secret-value") {
		t.Fatalf("create: %d %s %s", code, out, errs)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if code, _, errs := h.berth("backup", "create", "--to", file, "--data-dir", h.dir); code != 1 || !strings.Contains(errs, "exists already") {
		t.Errorf("over a file: %d %s", code, errs)
	}
	if code, out, errs := h.berth("backup", "verify", file); code != 0 || !strings.Contains(out, "1 applications") {
		t.Errorf("verify: %d %s %s", code, out, errs)
	}
	to := filepath.Join(parent, "there")
	if code, _, errs := h.berth("backup", "restore", file, "--data-dir", to); code != 0 || !strings.Contains(errs, "the settings of that host are in") {
		t.Fatalf("restore: %d %s", code, errs)
	}
	for _, name := range []string{"apps", "rollback"} {
		got, want := listing(t, filepath.Join(to, name)), listing(t, filepath.Join(h.dir, name))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
	}
	there := openHosted(t, to)
	wantApps, err := h.db.Apps(t.Context())
	checked(t, err)
	gotApps, err := there.db.Apps(t.Context())
	checked(t, err)
	if fmt.Sprint(gotApps) != fmt.Sprint(wantApps) || len(gotApps) != 1 {
		t.Errorf("got %+v, want %+v", gotApps, wantApps)
	}
	vars, err := there.db.Variables(t.Context(), "shop")
	if err != nil || len(vars) != 1 || vars[0].Value != "secret-value" {
		t.Errorf("variables %v, %v", vars, err)
	}
	if _, _, err := there.db.AccountByToken(t.Context(), [32]byte{7}); err != nil {
		t.Errorf("the token: %v", err)
	}
	if broken, err := there.files.Recover(t.Context(), gotApps); err != nil || len(broken) != 0 {
		t.Errorf("a boot finds %v broken", broken)
	}
	all, err := there.db.Deploys(t.Context(), "shop")
	checked(t, err)
	_, journals, err := host.WayBack(all, 1)
	checked(t, err)
	stage, stays, err := there.store.Rollback(t.Context(), "shop", h.uid, journals)
	checked(t, err)
	there.uid = h.uid
	checked(t, there.deploy(stage, "a"))
	if got := listing(t, there.store.Dir("shop")); len(stays) != 0 || !strings.HasSuffix(got["main"], " 1") || got["new"] != "" || !strings.HasSuffix(got["data"], " rows") {
		t.Errorf("after a rollback %v, stays %v", got, stays)
	}
	if code, _, errs := h.berth("backup", "restore", file, "--data-dir", to); code != 1 || !strings.Contains(errs, "it is not empty") {
		t.Errorf("over another: %d %s", code, errs)
	}
	left, err := filepath.Glob(filepath.Join(parent, "*part*"))
	if staged, serr := os.ReadDir(filepath.Join(h.dir, "staging")); err != nil || serr != nil || len(left)+len(staged) > 2 { // two stages of the test's
		t.Errorf("left %v, %v", left, staged)
	}
}

func TestBackupRefusals(t *testing.T) {
	h := newHosted(t)
	parent := filepath.Dir(h.dir)
	file := filepath.Join(parent, "all.tar.gz")
	if code, _, errs := h.berth("backup", "create", "--to", file, "--data-dir", h.dir); code != 0 {
		t.Fatal(errs)
	}
	whole, err := os.ReadFile(file)
	checked(t, err)
	write := func(name string, text []byte) string {
		path := filepath.Join(parent, name)
		checked(t, os.WriteFile(path, text, 0o600))
		return path
	}
	broken := slices.Clone(whole)
	broken[len(broken)/2] ^= 1
	into := filepath.Join(parent, "into")
	checked(t, os.MkdirAll(filepath.Join(parent, "locked"), 0o711))
	lock, err := lockDir(filepath.Join(parent, "locked"))
	checked(t, err)
	defer lock.Close()
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"backup", "create"}, 2, "the flag --to is missing"},
		{[]string{"backup", "create", "--to", file + "2", "--data-dir", into}, 5, "there is no berth.db in"},
		{[]string{"backup", "create", "--to", filepath.Join(parent, "no", "x"), "--data-dir", h.dir}, 1, "cannot write the backup"},
		{[]string{"backup", "verify", file + "2"}, 5, "cannot verify"},
		{[]string{"backup", "verify", write("text", []byte("text"))}, 78, "it is not compressed with gzip"},
		{[]string{"backup", "verify", write("cut", whole[:len(whole)-9])}, 1, "the archive is damaged"},
		{[]string{"backup", "verify", write("broken", broken)}, 1, "the archive is damaged"},
		{[]string{"backup", "restore", filepath.Join(parent, "broken"), "--data-dir", into}, 1, "the archive is damaged"},
		{[]string{"backup", "restore", file, "--data-dir", h.dir}, 1, "it is not empty"},
		{[]string{"backup", "restore", file, "--data-dir", filepath.Join(parent, "locked")}, 1, "another berth is serving from it"},
	} {
		code, _, errs := h.berth(tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%v: %d %s", tt.args, code, errs)
		}
	}
	if _, err := os.Stat(into); err == nil {
		t.Error("a backup that is not whole left a directory")
	}
	checked(t, os.MkdirAll(filepath.Join(into, unfinishedName), 0o700))
	if code, _, errs := h.berth("account", "list", "--data-dir", into); code != 78 || !strings.Contains(errs, "a restore into it was cut short") {
		t.Errorf("half a restore: %d %s", code, errs)
	}
}

// A database of a newer berth is refused by everything, with 78, and in a backup.
func TestNewerDatabases(t *testing.T) {
	h := newHosted(t)
	path := filepath.Join(h.dir, databaseName)
	checked(t, errors.Join(h.db.Close()))
	b, err := os.ReadFile(path)
	checked(t, err)
	b[63] = 200 // user_version (https://sqlite.org/fileformat2.html, 1.3)
	checked(t, os.WriteFile(path, b, 0o600))
	if code, _, errs := h.berth("account", "list", "--data-dir", h.dir); code != 78 || !strings.Contains(errs, "written by a newer berth (schema 200") || !strings.Contains(errs, "Hint:") {
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
	h := newHosted(t)
	stop, done := make(chan struct{}), make(chan error, 1)
	stages := make([]app.Stage, 12)
	for i := range stages {
		stages[i] = h.stage(map[string]string{"main": fmt.Sprint(i), "lib/x": fmt.Sprint(i)})
	}
	go func() {
		for i, stage := range stages {
			if err := h.deploy(stage, fmt.Sprint(i)); err != nil {
				done <- err
				return
			}
		}
		close(stop)
		done <- nil
	}()
	for n := 0; ; n++ {
		file := filepath.Join(filepath.Dir(h.dir), fmt.Sprint(n, ".tar.gz"))
		code, _, errs := h.berth("backup", "create", "--to", file, "--data-dir", h.dir)
		if code != 0 {
			t.Fatal(errs)
		}
		to := filepath.Join(filepath.Dir(h.dir), fmt.Sprint("to", n))
		if code, _, errs := h.berth("backup", "restore", file, "--data-dir", to); code != 0 {
			t.Fatal(errs)
		}
		there := openHosted(t, to)
		all, err := there.db.Apps(t.Context())
		checked(t, err)
		there.files.Recover(t.Context(), all)
		main, err := os.ReadFile(filepath.Join(there.store.Dir("shop"), "main"))
		checked(t, err)
		want := all[0].Code.Main
		if want == "a" {
			want = "1" // the upload
		}
		if string(main) != want {
			t.Errorf("the database says %s, the files %s", all[0].Code.Main, main)
		}
		select {
		case <-stop:
			checked(t, <-done)
			return
		default:
		}
	}
}
