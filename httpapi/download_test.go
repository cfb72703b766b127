package httpapi

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"berth/app"
)

const downloadOp = "/d/{token}/{name}"

func downloadScenes() []scene {
	const (
		logs   = "/v2/app/{appID}/logs"
		backup = "/v2/app/{appID}/backup"
	)
	talkative := func(w *world) {
		several(w)
		w.terminals["bot-one"] = app.Terminal{
			Small: "2026-11-20T09:31:01.000Z ready & <ok>\n",
			Big:   "2026-11-20T09:31:00.000Z start\n2026-11-20T09:31:01.000Z ready & <ok>\n",
		}
	}
	someFail := func(w *world) {
		several(w)
		w.fail["Backup crashing"] = app.Errorf(app.Conflict, "Another operation is under way")
		w.fail["Backup shop"] = errors.New("disk on fire")
	}
	zip := func(w *world) string { return w.addBackup("PK content of a zip") }
	log := func(w *world) string {
		w.logText = strings.NewReader("2026-11-20T09:31:00.000Z start\n")
		return logPath(w, 20001)
	}
	list := []scene{
		{name: "app_logs_ok", method: "GET", path: "/v2/app/bot-one/logs", op: logs, arrange: talkative},
		{
			name: "app_logs_ok_base_url", method: "GET", path: "/v2/app/bot-one/logs", op: logs,
			arrange: func(w *world) { w.config.BaseURL = "https://api.example.net/" },
		},
		{name: "app_logs_ok_all", method: "GET", path: "/v2/app/all/logs", op: logs, arrange: talkative},
		{name: "app_logs_ok_all_empty", method: "GET", path: "/v2/app/all/logs", op: logs, arrange: noApps},
		{name: "app_logs_invalid", method: "GET", path: "/v2/app/bot-one/logs", op: logs, raw: badHost("/v2/app/bot-one/logs")},
		{name: "app_logs_not_found", method: "GET", path: "/v2/app/nobody/logs", op: logs},

		{name: "app_backup_ok", method: "GET", path: "/v2/app/bot-one/backup", op: backup},
		{name: "app_backup_ok_all", method: "GET", path: "/v2/app/all/backup", op: backup, arrange: several},
		{name: "app_backup_ok_all_empty", method: "GET", path: "/v2/app/all/backup", op: backup, arrange: noApps},
		{name: "app_backup_ok_all_some_failed", method: "GET", path: "/v2/app/all/backup", op: backup, arrange: someFail},
		{name: "app_backups_ok", method: "GET", path: "/v2/app/bot-one/backups", op: backup + "s", arrange: func(w *world) { w.addBackup("PK content of a zip") }},
		{name: "app_backups_ok_none", method: "GET", path: "/v2/app/bot-one/backups", op: backup + "s"},
		{name: "app_backups_invalid", method: "GET", path: "/v2/app/bot-one/backups", op: backup + "s", raw: badHost("/v2/app/bot-one/backups")},
		{name: "app_backups_not_found", method: "GET", path: "/v2/app/nobody/backups", op: backup + "s"},
		{name: "app_backups_conflict", method: "GET", path: "/v2/app/bot-one/backups", op: backup + "s", arrange: failing("Backups", app.Conflict, "Another operation is under way.")},
		{name: "app_backup_invalid", method: "GET", path: "/v2/app/bot-one/backup", op: backup, raw: badHost("/v2/app/bot-one/backup")},
		{name: "app_backup_invalid_env", method: "GET", path: "/v2/app/bot-one/backup?env=yes", op: backup},
		{name: "app_backup_not_found", method: "GET", path: "/v2/app/nobody/backup", op: backup},
		{
			name: "app_backup_conflict", method: "GET", path: "/v2/app/all/backup", op: backup,
			arrange: failing("Backup", app.Conflict, "Another operation on this application is under way."),
		},
		{
			name: "app_backup_exhausted", method: "GET", path: "/v2/app/bot-one/backup", op: backup,
			arrange: failing("Backup", app.Exhausted, "The disk of the host has no room for a backup."),
		},
		{
			name: "app_backup_too_large", method: "GET", path: "/v2/app/bot-one/backup", op: backup,
			arrange: failing("Backup", app.TooLarge, "The files of the application are larger than a backup may hold."),
		},

		{name: "download_ok_backup", pathOf: zip},
		{name: "download_ok_log", pathOf: log},
		{name: "download_part", pathOf: zip, header: map[string]string{"Range": "bytes=3-9"}},
		{name: "download_unchanged", pathOf: zip, header: map[string]string{"If-Modified-Since": testNow.Format(http.TimeFormat)}},
		{name: "download_no_such_part", pathOf: zip, header: map[string]string{"Range": "bytes=100-"}},
		{name: "download_other_file", pathOf: zip, header: map[string]string{"If-Match": `"x"`}},
		{name: "download_not_found_forged", path: "/d/forged/bot-one.zip"},
		{name: "download_internal", pathOf: zip, arrange: func(w *world) { w.fail["OpenBackup"] = errors.New("disk on fire") }},
	}
	for i := range list {
		if list[i].method == "" {
			list[i].method, list[i].op = http.MethodGet, downloadOp
		}
	}
	return list
}

func logPath(w *world, version int64) string {
	link := app.Link{Kind: app.LinkLog, Object: "bot-one", Version: version, Expires: w.clock().Add(time.Hour)}
	return "/d/" + w.Sign(link) + "/bot-one.log"
}

func TestDownloadNeedsNoTokenAndIsNotCounted(t *testing.T) {
	w := newWorld(t)
	w.config.RateLimit = 2
	path, h := w.addBackup("PK"), w.handler()
	for range 5 {
		r := newRequest("GET", path, "")
		r.Header.Del(tokenHeader)
		if rec := do(t, h, r); rec.Code != 200 || rec.Body.String() != "PK" {
			t.Fatalf("status %d, body %q", rec.Code, rec.Body)
		}
	}
	if w.called("Authenticate") != 0 {
		t.Error("the token was looked at")
	}
}

func TestDownloadNamesAndVersions(t *testing.T) {
	w := newWorld(t)
	w.logText = strings.NewReader("")
	zip, log := w.addBackup("PK"), logPath(w, 20001)
	dir := func(path string) string { return path[:strings.LastIndex(path, "/")+1] }
	for path, want := range map[string]int{
		zip:                      200,
		dir(zip) + "other.zip":   200, // the name is the client's
		dir(zip) + "a%22b.zip":   404,
		dir(zip) + ".zip":        404,
		dir(zip) + "bot-one":     404,
		dir(zip) + "bot-one.log": 404,
		dir(zip):                 404,
		dir(log) + "other.log":   404,
		dir(log) + "bot-one.zip": 404,
		logPath(w, 20002):        404,
	} {
		if rec := do(t, w.handler(), newRequest("HEAD", path, "")); rec.Code != want {
			t.Errorf("%s: status %d, want %d", path, rec.Code, want)
		}
	}
	w.advance(time.Hour)
	if rec := do(t, w.handler(), newRequest("GET", zip, "")); rec.Code != 404 {
		t.Errorf("expired: status %d, want 404", rec.Code)
	}
}

func TestHeadOfBackupMakesNone(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]int{
		"/v2/app/bot-one/backup": 200, "/v2/app/all/backup": 200, "/v2/app/nobody/backup": 404,
	} {
		if rec := do(t, w.handler(), newRequest("HEAD", path, "")); rec.Code != want {
			t.Errorf("%s: status %d, want %d", path, rec.Code, want)
		}
	}
	if n := w.called("Backup"); n != 0 {
		t.Errorf("%d backups were made", n)
	}
}

func TestBackupURLIsFetchedAsItIs(t *testing.T) {
	w := newWorld(t)
	w.addBackup("PK")
	h := w.handler()
	var answer struct{ Backups struct{ URL string } }
	decode(t, do(t, h, newRequest("GET", "/v2/app/bot-one/backup", "")), &answer)
	path, found := strings.CutPrefix(answer.Backups.URL, "http://example.com")
	if !found || !strings.HasSuffix(path, "/bot-one.zip") {
		t.Fatalf("url %q", answer.Backups.URL)
	}
	if rec := do(t, h, newRequest("GET", path, "")); rec.Body.String() != "PK" {
		t.Errorf("status %d, body %q", rec.Code, rec.Body)
	}
}

func TestLogThatCannotBeReadCutsTheConnection(t *testing.T) {
	w := newWorld(t)
	w.logText = io.MultiReader(strings.NewReader("first half\n"), iotest.ErrReader(errors.New("disk on fire")))
	var text bytes.Buffer
	w.config.Log = slog.New(slog.NewTextHandler(&text, nil))
	defer func() {
		if v, _ := recover().(error); !errors.Is(v, http.ErrAbortHandler) {
			t.Errorf("recovered %v, want ErrAbortHandler", v)
		}
		if !strings.Contains(text.String(), "disk on fire") {
			t.Error("the cause is not in the log")
		}
	}()
	do(t, w.handler(), newRequest("GET", logPath(w, 20001), ""))
}
