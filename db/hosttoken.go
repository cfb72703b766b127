package db

import (
	"context"

	"berth/app"
)

// HostTokens remembers the tokens of the owner of the host.
type HostTokens struct{ db *DB }

const selectHostTokens = "SELECT id, label, created_at, last_used FROM host_token"

// InsertHostToken remembers a token by the hash of its text.
func (s HostTokens) InsertHostToken(ctx context.Context, hash [32]byte, label string) (app.HostToken, error) {
	return put(ctx, s.db, "store the token", func(t tx) (made app.HostToken, err error) {
		made = app.HostToken{Label: label, CreatedAt: stored(s.db.now())}
		made.ID, err = t.insert("INSERT INTO host_token (hash, label, created_at, last_used) VALUES (?, ?, ?, 0)", hash[:], label, stamp(made.CreatedAt))
		return made, err
	})
}

// HostTokens returns all of them, oldest first.
func (s HostTokens) HostTokens(ctx context.Context) ([]app.HostToken, error) {
	return getAll(ctx, s.db, "list the tokens", scanHostToken, selectHostTokens+" ORDER BY id")
}

// DeleteHostToken forgets a token, or fails with app.NotFound.
func (s HostTokens) DeleteHostToken(ctx context.Context, id int64) error {
	return s.db.update(ctx, "delete the token", app.Errorf(app.NotFound, "there is no token %d of the host", id), "DELETE FROM host_token WHERE id = ?", id)
}

// HostTokenByHash returns the token with that hash, or app.NotFound. It notes the use of the
// token, at most once a minute; that the note cannot be written does not make the call fail.
func (s HostTokens) HostTokenByHash(ctx context.Context, hash [32]byte) (app.HostToken, error) {
	token, err := get(ctx, s.db, "look up the token", func(t tx) (app.HostToken, error) {
		return one(t, scanHostToken, app.Errorf(app.NotFound, "no such token"), selectHostTokens+" WHERE hash = ?", hash[:])
	})
	if err != nil {
		return app.HostToken{}, err
	}
	if now := s.db.now(); now.Sub(token.LastUsed) >= useEvery {
		_ = s.db.update(ctx, "note the use of a token", nil, "UPDATE host_token SET last_used = ? WHERE id = ?", stamp(now), token.ID)
	}
	return token, nil
}

func scanHostToken(row scanner) (t app.HostToken, err error) {
	err = row.Scan(&t.ID, &t.Label, asTime(&t.CreatedAt), asTime(&t.LastUsed))
	return t, err
}
