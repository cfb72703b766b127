package db

import (
	"context"

	"berth/app"
)

// Icons remembers the icons of applications. They go with their application.
type Icons struct{ db *DB }

// IconSums returns the sums of all icons, by application.
func (s Icons) IconSums(ctx context.Context) (map[app.ID]string, error) {
	return get(ctx, s.db, "list the icons", func(t tx) (map[app.ID]string, error) {
		return allByKey[app.ID, string](t, "SELECT app, sum FROM icon")
	})
}

// Icon returns an icon as a PNG, or app.NotFound.
func (s Icons) Icon(ctx context.Context, id app.ID) (app.Icon, error) {
	return get(ctx, s.db, "read the icon", func(t tx) (app.Icon, error) {
		return one(t, scanIcon, app.Errorf(app.NotFound, "the application has no icon of its own"), "SELECT sum, brought, png FROM icon WHERE app = ?", id)
	})
}

func scanIcon(row scanner) (i app.Icon, err error) {
	err = row.Scan(&i.Sum, asBool(&i.Brought), &i.PNG)
	return i, err
}

// SetIcon remembers the icon of an application. One that came with the code replaces none that somebody
// uploaded. It fails with app.Conflict while the application does not exist yet.
func (s Icons) SetIcon(ctx context.Context, id app.ID, i app.Icon) error {
	return s.db.write(ctx, "store the icon", func(t tx) error {
		there, err := number(t, "SELECT count(*) FROM app WHERE id = ?", id)
		if err == nil && there == 0 {
			err = app.Errorf(app.Conflict, "the application is deployed for the first time; upload the icon when it is there")
		}
		if err != nil {
			return err
		}
		return t.exec(`INSERT INTO icon (app, sum, brought, png) VALUES (?, ?, ?, ?)
			ON CONFLICT (app) DO UPDATE SET sum = excluded.sum, brought = excluded.brought, png = excluded.png
			WHERE icon.brought OR NOT excluded.brought`, id, i.Sum, i.Brought, i.PNG)
	})
}

// DropIcon forgets the icon of an application, if there is one; brought: only one that came with its code.
func (s Icons) DropIcon(ctx context.Context, id app.ID, brought bool) error {
	return s.db.update(ctx, "remove the icon", nil, "DELETE FROM icon WHERE app = ? AND brought >= ?", id, brought)
}
