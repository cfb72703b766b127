package kube

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A token whose file is being replaced stays the one before until the new one is there.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	k := &token{file: file}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k.read = time.Time{}
	}
	for _, text := range []string{"", "\n"} {
		if text != "" {
			put(text)
		}
		if got, err := k.get(); err == nil {
			t.Errorf("without one: %q", got)
		}
	}
	for _, want := range []string{"one", "two"} {
		put(want + "\n")
		if got, err := k.get(); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	put("")
	if got, err := k.get(); err != nil || got != "two" {
		t.Errorf("an empty file: %q, %v", got, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	k.read = time.Time{}
	if got, err := k.get(); err != nil || got != "two" {
		t.Errorf("no file: %q, %v", got, err)
	}
}
