package clients

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/test/harness"
)

const ok = http.StatusOK

// TestExtensionLogin: the extension looks into a token before it sends it, and
// labels the session with a name.
func TestExtensionLogin(t *testing.T) {
	d := launch(t)
	var key struct{ ID, Key *json.RawMessage }
	parts := strings.Split(d.token, ".")
	if payload, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)]); err != nil ||
		json.Unmarshal(payload, &key) != nil || len(parts) != 3 || key.ID == nil || key.Key == nil {
		t.Error("the token is none that the extension sends")
	}
	x := &extension{t, d, d.token}
	u := x.ask(ok, http.MethodGet, "/user", nil).object("user")
	if u.text("userID") != d.id || u.text("username") != "ana" {
		t.Errorf("the session is %s", u.of)
	}
	(&extension{t, d, d.token + "x"}).ask(http.StatusUnauthorized, http.MethodGet, "/vscode", nil).says("error", "")
	if l := x.ask(ok, http.MethodPut, "/locale/pt-BR", nil).text("locale"); l != "pt-BR" || x.user().text("locale") != l {
		t.Errorf("the locale is %s", l)
	}
}

// TestExtensionApps: every command on an application of the account.
func TestExtensionApps(t *testing.T) {
	d := launch(t)
	x := &extension{t, d, d.token}
	if apps := x.apps(); len(apps) != 0 {
		t.Errorf("there are %v", apps)
	}
	up := x.offer(ok, http.MethodPost, "/upload", zipped(t, "file.zip", bot("Demo", idle))).says("ok", "uploaded")
	up.object("app").texts("id", "avatarURL") // both go into discloud.config
	id := up.object("app").text("id")
	x.apps()[id].shown(id, "Demo", "on")
	x.offer(http.StatusUnprocessableEntity, http.MethodPost, "/upload", zipped(t, "file.zip", map[string]string{"discloud.config": "MAIN=gone.js\n"})).
		says("error", "gone.js")

	if s := x.status("/app/" + id + "/status"); s.text("container") != "Online" {
		t.Errorf("it is not online: %s", s.of)
	} else if _, err := time.Parse(time.RFC3339, s.text("startedAt")); err != nil {
		t.Error(err)
	}
	change := func(what string, body any) object {
		t.Helper()
		return x.ask(ok, http.MethodPut, "/app/"+id+"/"+what, body)
	}
	change("profile", map[string]string{"name": "Renamed"}).says("ok", "")
	change("profile", map[string]string{"avatarURL": "https://example.org/a.png"}).says("ok", "")
	change("stop", nil).says("ok", "stopped")
	x.apps()[id].shown(id, "Renamed", "off")
	change("start", nil).says("ok", "started")
	change("start", nil).says("error", "online")
	change("restart", nil).says("ok", "restarted")
	change("ram", map[string]int{"ramMB": 150}).says("ok", "150")
	change("ram", map[string]int{"ramMB": 100000}).says("error", "")
	x.offer(ok, http.MethodPut, "/app/"+id+"/commit", zipped(t, "file.zip", map[string]string{"index.js": "console.log('second');" + idle})).says("ok", "updated")
	harness.Eventually(t, "the new code runs", func() bool { return strings.Contains(x.log("/app/"+id), "second") })
	x.keeps(id, x.ask(ok, http.MethodGet, "/app/"+id+"/backup", nil).object("backups"))

	x.ask(ok, http.MethodDelete, "/app/"+id+"/delete", nil).says("ok", "deleted")
	x.ask(http.StatusNotFound, http.MethodGet, "/app/"+id+"/status", nil).says("error", "")
	failed := x.offer(ok, http.MethodPost, "/upload", zipped(t, "file.zip", map[string]string{
		"discloud.config": "TYPE=bot\nMAIN=start.sh\nNAME=Failing\nRAM=100\nVERSION=latest\n", "start.sh": "echo boom\nexit 1\n", // sooner than Node on a busy machine
	})).says("ok", "crashed")
	if !strings.Contains(failed.text("logs"), "boom") {
		t.Errorf("no reason in %s", failed.of)
	}
	for id, a := range x.apps() {
		a.shown(id, "Failing", "errorCode")
	}
}

// log is what is printed of the log.
func (x *extension) log(route string) string {
	x.t.Helper()
	a := x.ask(ok, http.MethodGet, route+"/logs", nil).object("apps")
	a.text("id")
	return a.object("terminal").text("big")
}

// keeps loads a backup, without a token, into a file that the address names.
func (x *extension) keeps(id string, b object) {
	x.t.Helper()
	u, err := url.Parse(b.text("url"))
	if err != nil || !u.IsAbs() || path.Base(u.Path) != id+".zip" || b.text("id") != id {
		x.t.Fatalf("the backup is %s", b.of)
	}
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		x.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != ok {
		x.t.Fatalf("the download: %d %v", resp.StatusCode, err)
	}
	if z, err := zip.NewReader(bytes.NewReader(text), int64(len(text))); err != nil || len(z.File) != 3 {
		x.t.Errorf("the backup is no ZIP of three files: %v", err)
	}
}

// TestExtensionTeam: the moderators of an application, and their view of it.
func TestExtensionTeam(t *testing.T) {
	d := launch(t)
	owner := &extension{t, d, d.token}
	friendID, friendToken := d.account("bea")
	friend := &extension{t, d, friendToken}
	id := owner.offer(ok, http.MethodPost, "/upload", zipped(t, "file.zip", bot("Demo", idle))).object("app").text("id")
	team := "/app/" + id + "/team"

	owner.ask(http.StatusNotFound, http.MethodPost, team, map[string]any{"modID": "999", "perms": everything}).says("error", "999")
	owner.ask(ok, http.MethodPost, team, map[string]any{"modID": friendID, "perms": []string{"logs_app"}}).says("ok", "bea")
	friend.ask(http.StatusForbidden, http.MethodPut, "/team/"+id+"/stop", nil).says("error", "stop_app")
	owner.ask(ok, http.MethodPut, team, map[string]any{"modID": friendID, "perms": everything}).says("ok", "")
	mods := owner.ask(ok, http.MethodGet, team, nil).objects("team")
	if len(mods) != 1 || mods[0].text("modID") != friendID || len(mods[0].list("perms")) != len(everything) {
		t.Errorf("the team is %v", mods)
	}
	if ids := friend.user().list("appsTeam"); len(ids) != 1 || ids[0] != id {
		t.Errorf("the friend has %v", ids)
	}
	apps := friend.ask(ok, http.MethodGet, "/team", nil).objects("apps")
	if len(apps) != 1 || apps[0].text("id") != id || apps[0].text("name") != "Demo" || apps[0].number("type") != 0 || apps[0].icon() != "on" ||
		len(apps[0].list("perms")) != len(everything) {
		t.Fatalf("the friend sees %v", apps)
	}
	theirs := "/team/" + id
	friend.status(theirs + "/status")
	for _, what := range []string{"stop", "start", "restart"} {
		friend.ask(ok, http.MethodPut, theirs+"/"+what, nil).says("ok", what)
	}
	friend.ask(ok, http.MethodPut, theirs+"/ram", map[string]int{"ramMB": 130}).says("ok", "130")
	friend.keeps(id, friend.ask(ok, http.MethodGet, theirs+"/backup", nil).object("backups"))
	friend.offer(ok, http.MethodPut, theirs+"/commit", zipped(t, "file.zip", map[string]string{"index.js": "console.log('friend');" + idle})).says("ok", "updated")
	harness.Eventually(t, "the friend's code runs", func() bool { return strings.Contains(friend.log(theirs), "friend") })
	owner.ask(ok, http.MethodDelete, team+"/"+friendID, nil).says("ok", "")
	if apps := friend.ask(ok, http.MethodGet, "/team", nil).objects("apps"); len(apps) != 0 {
		t.Errorf("the friend still sees %v", apps)
	}
}

// TestExtensionShowsAnUploadOverWebSocket: it asks for nothing after that, so the
// last frame must have all that is shown. The rest is in test/e2e.
func TestExtensionShowsAnUploadOverWebSocket(t *testing.T) {
	d := launch(t)
	file, err := os.ReadFile(zipped(t, "file.zip", bot("Socket", idle)))
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(d.Base, "http", "ws", 1)+"/v2/ws/upload", &websocket.DialOptions{
		HTTPHeader: http.Header{"Api-Token": {d.token}, "User-Agent": {extensionName}}, CompressionMode: websocket.CompressionContextTakeover,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }() // it is closed already
	data := make([]int, len(file))
	for i, b := range file {
		data[i] = int(b)
	}
	chunk, err := json.Marshal(map[string]any{"chunk": map[string]any{"type": "Buffer", "data": data}, "current": 1, "offset": 0, "pending": false, "total": 1})
	if err == nil {
		err = conn.Write(t.Context(), websocket.MessageText, chunk)
	}
	for err == nil {
		var text []byte
		if _, text, err = conn.Read(t.Context()); err != nil {
			break
		}
		frame := object{t: t, of: string(text)}
		if err := json.Unmarshal(text, &frame.fields); err != nil {
			t.Fatal(err)
		}
		frame.object("progress").texts("log")
		if frame.number("statusCode") == http.StatusProcessing {
			continue
		}
		a := frame.says("ok", "uploaded").object("app")
		id := a.text("id")
		a.shown(id, "Socket", "on")
		(&extension{t, d, d.token}).apps()[id].shown(id, "Socket", "on")
	}
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("it ended with %v", err)
	}
}
