package db

import (
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestLinkKeyIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = db.LinkKey(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, db.Close())
	again, err := openAt(t, path, time.Now).LinkKey(t.Context())
	must(t, err)
	for _, key := range keys {
		if len(key) != 32 || string(key) != string(again) {
			t.Errorf("got keys %x and %x, want one of 32 bytes", key, again)
		}
	}
	other, _ := openTemp(t)
	if key, err := other.LinkKey(t.Context()); err != nil || string(key) == string(again) {
		t.Errorf("another database has the same key, or %v", err)
	}
}
