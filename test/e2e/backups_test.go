package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth/test/harness"
)

// teller appends to a file of its own, and shows a variable.
const teller = `echo "secret $SECRET"; echo ran >> data.txt; exec sleep 1000000`

// repositoryIn is a repository in dir of the kind that place begins with.
func repositoryIn(place, dir string) string {
	kind := ""
	if strings.HasPrefix(place, "archives:") {
		kind = "archives:"
	}
	return kind + filepath.Join(dir, "backups")
}

// backedUp is a daemon whose host is backed up into place.
func backedUp(t *testing.T, place string) *daemon {
	t.Helper()
	d := prepare(t)
	d.backUpToEmpty(repositoryIn(place, d.Root))
	d.Serve()
	return d
}

// backUpToEmpty is backUpTo with a repository that restic opens in no time. TestBackups lets berth make one.
func (d *daemon) backUpToEmpty(repository string) {
	d.T.Helper()
	d.backUpTo(repository)
	if filepath.IsAbs(repository) {
		harness.MakeRestic(d.T, repository)
		harness.Write(d.T, filepath.Join(filepath.Dir(d.Data), "backup.key"), harness.ResticKey)
	}
}

// backUpTo sets up backups into a repository, before the daemon starts. The keys are beside the data.
func (d *daemon) backUpTo(repository string) {
	dir := filepath.Dir(d.Data)
	d.Env = append(d.Env, "BERTH_BACKUPS_REPOSITORY="+repository, "BERTH_BACKUPS_KEY_FILE="+filepath.Join(dir, "backup.key"),
		"BERTH_KEY_FILE="+filepath.Join(dir, "keys"))
}

// ofBackup is a command of berth backup.
func (d *daemon) ofBackup(input string, args ...string) *exec.Cmd {
	cmd := d.Command(append([]string{"backup"}, append(args, "--data-dir", d.Data)...)...)
	cmd.Env = append(harness.CleanEnv(), d.Env...)
	cmd.Stdin = strings.NewReader(input)
	return cmd
}

// backup runs a command of berth backup beside the daemon.
func (d *daemon) backup(want int, input string, args ...string) (stdout, stderr string) {
	d.T.Helper()
	cmd := d.ofBackup(input, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code tells
	if code := cmd.ProcessState.ExitCode(); code != want {
		d.T.Fatalf("berth backup %v: %d\n%s%s", args, code, &out, &errs)
	}
	return out.String(), errs.String()
}

// resume is berth resume, of a host that holds its programs.
func (d *daemon) resume() *exec.Cmd {
	cmd := d.Command("resume", "--data-dir", d.Data)
	cmd.Env = append(harness.CleanEnv(), d.Env...)
	return cmd
}

// A host is backed up while it serves; an owner brings yesterday's files back, with and without
// variables, into the same application and into a new one; the whole host comes back on another one, where nothing
// starts before berth resume.
func TestBackups(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"restic", "archives:"} {
		t.Run(strings.TrimSuffix(place, ":"), func(t *testing.T) {
			t.Parallel()
			d := prepare(t)
			d.backUpTo(repositoryIn(place, d.Root))
			d.Serve()
			c := d.account("ana", 500)
			id := c.Upload(harness.ShellBot(teller, "RAM=50", "NAME=teller"))
			c.Put("/app/"+id+"/env", `{"env":{"SECRET":"alpha"}}`).Want(200)
			c.Put("/app/"+id+"/restart", "").Want(200)
			c.UntilLog(id, "secret alpha\n")
			if _, said := d.backup(1, "", "status"); !strings.Contains(said, "the key that opens the backups is on this host alone") {
				t.Errorf("status: %s", said)
			}
			d.backup(0, "", "run")
			_, said := d.backup(0, "", "rehearse")
			if !strings.Contains(said, "can be restored: 1 application") {
				t.Errorf("rehearse: %s", said)
			}
			key, _ := d.backup(0, "", "key")
			d.backup(1, "", "key") // once
			if status, _ := d.backup(0, "", "status"); !strings.Contains(status, "1 application") || !strings.Contains(status, "was shown") {
				t.Errorf("status: %s", status)
			}
			found := regexp.MustCompile(`"snapshot":"(\d{8}T\d{6}Z)"`).FindSubmatch(c.Get("/app/" + id + "/snapshots").Want(200).Body)
			if found == nil {
				t.Fatal("its owner sees no snapshot")
			}
			snapshot := string(found[1])

			// Yesterday comes back.
			c.Put("/app/"+id+"/env", `{"env":{"SECRET":"beta"}}`).Want(200)
			if err := os.WriteFile(d.Path(id, "data.txt"), []byte("spoiled\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			c.ask("POST", "/app/"+id+"/restore", fmt.Sprintf(`{"snapshot":%q,"env":false}`, snapshot)).Want(200, "status", "ok")
			c.UntilLog(id, "secret beta\n")
			if data, err := os.ReadFile(d.Path(id, "data.txt")); err != nil || !strings.HasPrefix(string(data), "ran\n") {
				t.Errorf("its data is %q, %v", data, err)
			}
			c.ask("POST", "/app/"+id+"/restore", fmt.Sprintf(`{"snapshot":%q,"env":true}`, snapshot)).Want(200, "status", "ok")
			harness.Eventually(t, "it has its variables of then", func() bool {
				return strings.Count(c.Log(id), "secret alpha\n") == 2
			})
			a := c.ask("POST", "/app/"+id+"/copy", fmt.Sprintf(`{"snapshot":%q,"env":true}`, snapshot))
			a.Want(200, "status", "ok")
			other := a.Text("app.id")
			c.UntilLog(other, "secret alpha\n")
			if data, err := os.ReadFile(d.Path(other, "data.txt")); err != nil || !strings.HasPrefix(string(data), "ran\n") {
				t.Errorf("the copy's data is %q, %v", data, err)
			}
			c.ask("POST", "/app/"+id+"/restore", `{"snapshot":"20000101T000000Z"}`).Want(404)
			c.Get("/app/"+other+"/snapshots").Want(200, "snapshots", "[]") // none is its own yet

			// The host is gone, and another one takes its place.
			c.DeleteAll()
			d.End(15)
			next := prepare(t)
			next.backUpTo(repositoryIn(place, d.Root))
			next.Serve()
			if _, said := next.backup(1, "not the key of it\n", "restore"); !strings.Contains(said, "the backup key does not open the repository") || len(next.Entries("apps")) > 0 {
				t.Errorf("another key: %s, there are %v", said, next.Entries("apps"))
			}
			_, said = next.backup(0, key, "restore")
			if !strings.Contains(said, "berth resume starts them") {
				t.Errorf("restore: %s", said)
			}
			there := &client{&harness.Client{T: t, Berth: next.Berth, Name: c.Name, Account: c.Account, Token: c.Token}, next}
			next.Clients = append(next.Clients, there.Client)
			next.Listens()
			there.Until(id, "apps.online", false)
			there.Put("/app/"+id+"/start", "").Want(409)
			if out, err := next.resume().CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			there.Until(id, "apps.online", true)
			there.UntilLog(id, "secret alpha\n")
			next.backup(0, "", "run")    // goes on with the same key
			next.backup(0, "", "status") // restore stores that the typed key was shown
			if _, said := next.backup(0, "", "rehearse"); strings.Contains(said, "warning") || !strings.Contains(said, "was restored whole") {
				t.Errorf("rehearse: %s", said)
			}

			// The key is lost. No other one takes its place by itself.
			keyFile := filepath.Join(filepath.Dir(next.Data), "backup.key")
			if err := os.Rename(keyFile, keyFile+".away"); err != nil {
				t.Fatal(err)
			}
			_, said = next.backup(1, "", "run")
			if _, err := os.Stat(keyFile); err == nil || !strings.Contains(said, "key") || !strings.Contains(said, "Hint: put that key") && !strings.Contains(said, "Hint: put the key") {
				t.Errorf("without its key: %s", said)
			}
			if _, said := next.backup(1, "", "status"); !strings.Contains(said, "the last backup failed: ") {
				t.Errorf("status: %s", said)
			}
			if place == "restic" {
				return
			}
			found = regexp.MustCompile(`"snapshot":"(\d{8}T\d{6}Z)"`).FindSubmatch(there.Get("/app/" + id + "/snapshots").Want(200).Body)
			if found == nil {
				t.Fatal("its owner sees no snapshot")
			}
			there.ask("POST", "/app/"+id+"/restore", fmt.Sprintf(`{"snapshot":%q,"env":false}`, found[1])).Want(200, "status", "ok")
			if _, said := next.backup(0, "", "run", "--new-key"); !strings.Contains(said, "warning: berth made the key ") {
				t.Errorf("with a new key: %s", said)
			}
			next.backup(0, "", "run")
			if _, said := next.backup(1, "", "status"); !strings.Contains(said, "the key that opens new backups is not the one that was shown") {
				t.Errorf("status: %s", said)
			}
			if _, said := next.backup(0, "", "key"); !strings.Contains(said, "older backups need that one") {
				t.Errorf("key: %s", said)
			}
			next.backup(0, "", "status")
		})
	}
}

// The daemon itself makes a backup and rehearses it, as an administrator asks in the panel, and says there how that
// went; a place that is gone is told of, and the next try works.
func TestDaemonMakesBackups(t *testing.T) {
	t.Parallel()
	d := backedUp(t, "archives:")
	c := d.account("ana", 200)
	id := c.Upload(harness.ShellBot(teller, "RAM=50"))
	d.CLI("account", "set", "ana", "--admin=true")
	p := d.person("ana")
	says := func(part string) {
		t.Helper()
		harness.Eventually(t, "the page says "+part, func() bool { return strings.Contains(p.open("/host"), part) })
	}
	start := func() { // which is refused while a rehearsal is under way
		t.Helper()
		harness.Eventually(t, "it begins", func() bool {
			r, err := http.NewRequest(http.MethodPost, d.Base+"/host/backups/start", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			resp, err := p.web.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
	start()
	says("1 application")
	says("can be restored") // the first backup is rehearsed at once
	place := filepath.Join(d.Root, "backups")
	if err := os.Rename(place, place+".away"); err != nil {
		t.Fatal(err)
	}
	start()
	says("there is no repository")
	if _, err := os.Stat(place); err == nil {
		t.Error("a place that was gone was made anew")
	}
	if err := os.Rename(place+".away", place); err != nil {
		t.Fatal(err)
	}
	start()
	harness.Eventually(t, "a backup again", func() bool { return !strings.Contains(p.open("/host"), "there is no repository") })
	if list := c.Get("/app/" + id + "/snapshots").Want(200); !strings.Contains(string(list.Body), `"snapshot"`) {
		t.Errorf("its owner sees %s", list.Body)
	}
	d.Upgrade() // what is under way is called off
	c.Until(id, "apps.online", true)
}
