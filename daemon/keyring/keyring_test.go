package keyring

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/db"
)

func mustMake(t *testing.T, r *Ring) db.Key {
	t.Helper()
	key, err := r.Make()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func wantKeys(t *testing.T, r *Ring, want ...db.Key) {
	t.Helper()
	if all, err := r.Keys(); err != nil || !slices.Equal(all, want) {
		t.Errorf("the keys are %v, %v, want %v", all, err, want)
	}
	for _, key := range want {
		if is, ok, err := r.Key(key.ID()); err != nil || !ok || is != key {
			t.Errorf("the key %s is %v, %v", key.ID(), ok, err)
		}
	}
}

// A ring is what its file says, also when another ring changes it.
func TestRing(t *testing.T) {
	dir := t.TempDir()
	missing, file := filepath.Join(dir, "none", "deep", "berth.key"), filepath.Join(dir, "berth.d", "berth.key")
	r, other := Open(dir, missing, file), Open(dir, missing, file)
	wantKeys(t, r)
	if r.File() != "" {
		t.Errorf("a file %s", r.File())
	}
	a := mustMake(t, r)
	wantKeys(t, r, a)
	wantKeys(t, other, a)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 || r.File() != file {
		t.Errorf("the file is %v, %v", info, err)
	}
	b := mustMake(t, other)
	if a == b {
		t.Fatal("twice the same key")
	}
	wantKeys(t, r, b, a)
	if err := r.Keep(b.ID()); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, r, b)
	if _, ok, err := r.Key(a.ID()); ok || err != nil {
		t.Errorf("a key that was removed is there: %v", err)
	}
	for range 2 { // twice is once
		if err := r.Add(a); err != nil {
			t.Fatal(err)
		}
	}
	wantKeys(t, other, b, a)
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), prefix) != 2 {
		t.Errorf("%d keys, %v", strings.Count(string(text), prefix), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "berth.d", "*")); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A file that cannot be read as one of keys is left as it is, and named.
func TestRingOfADamagedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "berth.key")
	key := db.Key{1}
	for what, text := range map[string]string{
		"a slip":      strings.Replace(Text(key), "AAAA", "AAAB", 1),
		"too short":   Text(key)[:40],
		"another one": "# fine\nssh-rsa AAAA\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := Open(t.TempDir(), file)
		_, first := r.Keys()
		_, _, found := r.Key(key.ID())
		_, made := r.Make()
		for _, err := range []error{first, found, made} {
			if err == nil || !strings.Contains(err.Error(), "of "+file+": it is no key") || strings.Contains(err.Error(), "AAAA") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if is, err := os.ReadFile(file); err != nil || string(is) != text {
			t.Errorf("%s: the file is changed: %v", what, err)
		}
	}
}

// A file that is there, and that this process may not read, is not taken for none.
func TestRingOfAForbiddenFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: another user's file")
	}
	dir := t.TempDir()
	key := mustMake(t, Open(dir, filepath.Join(dir, "berth.key")))
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	if err := unix.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setfsuid(0) }() // the directory is removed by root
	r := Open(dir, filepath.Join(dir, "berth.key"), filepath.Join(dir, "other.key"))
	_, found := r.Keys()
	_, _, one := r.Key(key.ID())
	_, made := r.Make()
	for what, err := range map[string]error{"Keys": found, "Key": one, "Make": made} {
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestRingWithoutAPlace(t *testing.T) {
	r := Open("/", "/proc/berth.key", "/proc/1/none/berth.key")
	if _, err := r.Make(); err == nil || !strings.Contains(err.Error(), "cannot store the keys of the secrets: ") {
		t.Error(err)
	}
}

func TestText(t *testing.T) {
	key := db.Key{1, 2, 3}
	text := Text(key)
	if is, err := Parse(" " + text + "\n"); err != nil || is != key || len(text) != 62 {
		t.Errorf("%q is read as %v, %v", text, is.ID(), err)
	}
	for _, bad := range []string{"", prefix, text + "A", strings.ToUpper(text), "berth-key-00000000-" + text[19:]} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q is a key", bad)
		}
	}
}
