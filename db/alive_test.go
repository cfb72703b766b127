package db

import (
	"context"
	"testing"
	"time"
)

// While somebody else writes, here or in another process, the writer is not
// there to answer.
func TestAlive(t *testing.T) {
	db, _ := openTemp(t)
	if err := db.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx, err := db.writer.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.Alive(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("with a writer that hangs: %v, %v", err, ctx.Err())
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := db.Alive(t.Context()); err != nil {
		t.Error(err)
	}
}
