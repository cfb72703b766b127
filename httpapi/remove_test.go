package httpapi

import (
	"testing"

	"berth/app"
)

func removeAllScenes() []scene {
	const remove = "/v2/app/{appID}/delete"
	return []scene{
		{name: "app_delete_ok_all", method: "DELETE", path: "/v2/app/all/delete", op: remove, arrange: func(w *world) {
			several(w)
			w.fail["Delete crashing"] = app.Errorf(app.Conflict, "the application is being deployed")
		}},
		{name: "app_delete_ok_all_empty", method: "DELETE", path: "/v2/app/all/delete", op: remove, arrange: noApps},
	}
}

// What one application's failure does to the others: nothing.
func TestDeleteAll(t *testing.T) {
	for name, tt := range map[string]struct {
		fail    map[string]app.Kind
		code    int
		deleted int
		failed  int
	}{
		"all":                    {nil, 200, 4, 0},
		"one fails":              {map[string]app.Kind{"Delete shop": app.Internal}, 200, 3, 1},
		"one is gone meanwhile":  {map[string]app.Kind{"Delete shop": app.NotFound}, 200, 3, 0},
		"the server shuts down":  {map[string]app.Kind{"Delete": app.Unavailable}, 503, 0, 0},
		"nothing can be deleted": {map[string]app.Kind{"Delete": app.Internal}, 500, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			several(w)
			for call, kind := range tt.fail {
				w.fail[call] = app.Errorf(kind, "No.")
			}
			rec := do(t, w.handler(), newRequest("DELETE", "/v2/app/all/delete", "{}"))
			var got struct {
				Apps struct {
					Removealled []app.ID
					Failed      []app.ID
				}
			}
			decode(t, rec, &got)
			if rec.Code != tt.code || len(got.Apps.Removealled) != tt.deleted || len(got.Apps.Failed) != tt.failed || w.called("Delete") != 4 {
				t.Errorf("status %d, %s after %d calls", rec.Code, rec.Body, w.called("Delete"))
			}
		})
	}
}
