package db

import (
	"context"

	"berth/app"
)

// keptNotices is how many new sign-ins of an account are remembered: the newest.
const keptNotices = 20

// noteSignIn remembers the sign-in of a session in a browser that was not known. The first one
// of an account is no news to anybody.
func noteSignIn(t tx, s app.Session) error {
	if err := t.exec(`INSERT INTO new_sign_in (account, session, at, agent, address, dismissed)
		SELECT ?1, ?2, ?3, ?4, ?5, NOT EXISTS (SELECT 1 FROM session WHERE account = ?1 AND id <> ?2) AND NOT EXISTS (SELECT 1 FROM new_sign_in WHERE account = ?1)`,
		s.Account, s.ID, stamp(s.CreatedAt), s.Agent, s.Address); err != nil {
		return err
	}
	if err := t.exec("DELETE FROM new_sign_in WHERE account = ?1 AND id NOT IN (SELECT id FROM new_sign_in WHERE account = ?1 ORDER BY id DESC LIMIT ?2)",
		s.Account, keptNotices); err != nil {
		return err
	}
	news, err := number(t, "SELECT count(*) FROM new_sign_in WHERE account = ? AND session = ? AND dismissed = 0", s.Account, s.ID)
	if err != nil || news == 0 {
		return err
	}
	return t.notice(app.Notice{Account: s.Account, At: s.CreatedAt, Kind: app.NoticeSignIn, Args: []string{s.Agent, s.Address}})
}

// NewSignIns returns the sign-ins of an account in browsers that were not known, newest first:
// those that it has not dismissed, and that are not of the session which looks.
func (s SignIns) NewSignIns(ctx context.Context, account app.AccountID, session int64) ([]app.NewSignIn, error) {
	scan := func(row scanner) (n app.NewSignIn, err error) {
		err = row.Scan(&n.ID, &n.Session, asTime(&n.At), &n.Agent, &n.Address)
		return n, err
	}
	return getAll(ctx, s.db, "list the new sign-ins", scan,
		"SELECT id, session, at, agent, address FROM new_sign_in WHERE account = ? AND session <> ? AND dismissed = 0 ORDER BY id DESC", account, session)
}

// DismissSignIn makes that a new sign-in is shown no more. It fails with app.NotFound, also for
// that of the session which asks.
func (s SignIns) DismissSignIn(ctx context.Context, account app.AccountID, id, session int64) error {
	return s.db.update(ctx, "dismiss a notice", app.Errorf(app.NotFound, "there is no such notice"),
		"UPDATE new_sign_in SET dismissed = 1 WHERE id = ? AND account = ? AND session <> ?", id, account, session)
}
