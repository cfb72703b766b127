//go:build guest

package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/test/harness"
)

// The two halves of a power cut: the machine dies during the first, and the
// second runs on another with the same disk. What was acknowledged until then
// is in a file on the host.
const (
	powerRoot    = "/disk/powercut"
	acknowledged = "/out/acknowledged"
	promised     = "/out/promised" // the same, after the cut
)

// state is what an answer of the API promised of an application.
type state struct {
	ID        string
	RAM, Code int
}

// powered is a daemon whose data outlives the guest.
func powered(t *testing.T) *harness.Berth {
	return &harness.Berth{
		T: t, Root: powerRoot, Data: filepath.Join(powerRoot, "data"), UID: 300000,
		Args: []string{
			"serve", "--data-dir", filepath.Join(powerRoot, "data"), "--listen", "127.0.0.1:0", "--rate-limit", "100000",
			"--apps-ok-delay", "10ms", "--apps-uid-base", "300000", "--apps-uid-count", fmt.Sprint(harness.UIDs),
		},
	}
}

func numbered(code int) string { return fmt.Sprintf("echo code %d; exec sleep 1000\n", code) }

// TestPowerCutBegins uploads, changes and commits until the power goes.
func TestPowerCutBegins(t *testing.T) {
	out, err := os.OpenFile(acknowledged, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	acknowledge := func(s state) {
		t.Helper()
		if err := json.NewEncoder(out).Encode(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(powerRoot, 0o711); err != nil { //nolint:gosec // programs pass through
		t.Fatal(err)
	}
	d := powered(t)
	d.Serve()
	c := d.NewAccount("ana", 100000)
	for range 100 {
		s := state{ID: c.Upload(harness.ShellBot(numbered(1), "RAM=32").With("only-1", "x")), RAM: 32, Code: 1}
		acknowledge(s)
		c.Put("/app/"+s.ID+"/ram", `{"ramMB":40}`).Want(200)
		s.RAM = 40
		acknowledge(s)
		c.CommitExact(s.ID, harness.Files{"start.sh": numbered(2), "only-2": "x"}).Want(200)
		s.Code = 2
		acknowledge(s)
	}
	t.Fatal("the power did not go")
}

// TestPowerCutEnds finds everything that was acknowledged, whole, and running.
func TestPowerCutEnds(t *testing.T) {
	text, err := os.ReadFile(promised)
	if err != nil {
		t.Fatal(err)
	}
	promises, last := map[string]state{}, state{}
	for line := range strings.Lines(string(text)) {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		promises[last.ID] = last
	}
	if len(promises) == 0 {
		t.Fatal("nothing was acknowledged before the power went")
	}
	d := powered(t)
	t.Cleanup(d.Finish)
	d.Serve()
	c := &harness.Client{T: t, Berth: d, Name: "ana", Token: d.CLI("token", "create", "ana")}
	d.Clients = append(d.Clients, c)
	ids := c.IDs()
	t.Logf("%d promises, of %d applications; %d are there", strings.Count(string(text), "\n"), len(promises), len(ids))
	for id, s := range promises {
		got := state{ID: id}
		c.Until(id, "apps.online", true) // its turn comes after the daemon listens
		a := c.Info(id)
		code, err := os.ReadFile(d.Path(id, "start.sh"))
		if err != nil {
			t.Error(err)
		}
		if _, err := fmt.Sscanf(a.Text("apps.ram")+" "+string(code), "%d echo code %d;", &got.RAM, &got.Code); err != nil {
			t.Errorf("%s has %s MB and %q: %v", id, a.Text("apps.ram"), code, err)
		}
		c.UntilLog(id, fmt.Sprintf("code %d\n", got.Code))
		only, err := filepath.Glob(d.Path(id, "only-*"))
		if err != nil || len(only) != 1 || filepath.Base(only[0]) != fmt.Sprint("only-", got.Code) {
			t.Errorf("%s: beside the code %d there is %v, %v", id, got.Code, only, err)
		}
		// The last request may have come to its end without its answer.
		if got != s && (id != last.ID || got.RAM < s.RAM || got.Code < s.Code) {
			t.Errorf("%+v is left of what was promised: %+v", got, s)
		}
	}
	if len(ids) > len(promises)+1 || len(d.Entries("apps")) != len(ids) || len(d.Entries("logs")) != len(ids) {
		t.Errorf("%v are there, files of %v, logs of %v", ids, d.Entries("apps"), d.Entries("logs"))
	}
	if left := d.Entries("staging"); len(left) > 0 {
		t.Errorf("left in staging: %v", left)
	}
	// Of each application the journals of good commits are kept, and none that is open.
	for _, id := range d.Entries("rollback") {
		if open, err := filepath.Glob(filepath.Join(d.Data, "rollback", id, "*.open")); err != nil || len(open) > 0 || !slices.Contains(ids, id) {
			t.Errorf("left in rollback/%s: %v, %v", id, open, err)
		}
	}
	out, err := exec.Command("/usr/bin/python3", "-c", `import sqlite3, sys
print(sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True).execute("PRAGMA integrity_check").fetchone()[0])`,
		filepath.Join(d.Data, "berth.db")).CombinedOutput()
	if err != nil || string(out) != "ok\n" {
		t.Errorf("the database: %s, %v", out, err)
	}
}
