package clients

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/test/harness"
)

// cli is discloud-cli of one person: a home with a token, and a directory to
// work in.
type cli struct {
	t   *testing.T
	env []string
	dir string
}

func (d *daemon) cli(t *testing.T, token string) *cli {
	t.Helper()
	c := &cli{t: t, dir: t.TempDir()}
	home := t.TempDir()
	c.env = append(d.clientEnv(t, home, "discloud-cli", token), "FORCE_COLOR=0", "TERM=dumb")
	info, err := os.Stat(filepath.Join(home, ".discloud", ".cli"))
	if (err == nil) != (token != "") || err == nil && info.Mode() != 0o600 {
		t.Errorf("with the token %q, its file is %v, %v", token, info, err)
	}
	return c
}

// in is the same person in another directory.
func (c *cli) in(dir string) *cli {
	other := *c
	other.dir = dir
	return &other
}

// question is the prompt of the terminal command, the only one that asks twice.
const question = "? >"

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)

// answer is what is typed into a command that asks, and what the command then prints before it asks again.
type answer struct{ typed, shows string }

// try runs one command. With answers it runs in a terminal in which they are
// typed: the first at once, each other when it asks again.
func (c *cli) try(answers []answer, args ...string) (code int, said string) {
	c.t.Helper()
	line := append([]string{"node", filepath.Join(clients, "node_modules/discloud-cli/bin/discloud")}, args...)
	if answers != nil {
		line = []string{"script", "-qec", strings.Join(line, " "), "/dev/null"}
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = c.dir
	cmd.Env = c.env
	out := &harness.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	for i, a := range answers {
		if i > 0 { // what is typed between two questions is lost, and a question is drawn anew with each key
			shows := answers[i-1].shows
			harness.Eventually(c.t, "the command asks again", func() bool {
				_, after, shown := strings.Cut(out.String(), shows)
				return shown && strings.Contains(after, question)
			})
		}
		if _, err := io.WriteString(in, a.typed); err != nil {
			c.t.Fatal(err)
		}
	}
	_ = in.Close()
	_ = cmd.Wait() // the code tells
	if ctx.Err() != nil {
		c.t.Errorf("discloud %v did not end", args)
	}
	return cmd.ProcessState.ExitCode(), escapes.ReplaceAllString(out.String(), "")
}

// run is try for what must work; it says these.
func (c *cli) run(says []string, args ...string) string {
	c.t.Helper()
	return c.ask(nil, says, args...)
}

// ask is run with answers.
func (c *cli) ask(answers []answer, says []string, args ...string) string {
	c.t.Helper()
	code, said := c.try(answers, args...)
	if code != 0 {
		c.t.Errorf("discloud %v: status %d: %s", args, code, said)
	}
	for _, part := range append(says, "[DISCLOUD API]") {
		if !strings.Contains(said, part) {
			c.t.Errorf("discloud %v said %q, want %q in it", args, said, part)
		}
	}
	for _, wrong := range []string{"undefined", "NaN", "TypeError", "[object"} {
		if strings.Contains(said, wrong) {
			c.t.Errorf("discloud %v said %q", args, said)
		}
	}
	return said
}

// refused checks the status of a command that fails, and what it says.
func (c *cli) refused(status int, says string, args ...string) {
	c.t.Helper()
	code, said := c.try(nil, args...)
	if code != status&255 || !strings.Contains(said, fmt.Sprintf("[DISCLOUD API: %d]", status)) || !strings.Contains(said, says) {
		c.t.Errorf("discloud %v: status %d: %q, want the refusal %d with %q", args, code, said, status, says)
	}
}

// Of what failed it shows the message alone.
func TestCLIShowsWhyABuildFailed(t *testing.T) {
	d := launch(t)
	files := bot("Demo", idle)
	files["discloud.config"] += "BUILD=echo 'index.ts(1,7): error' >&2; exit 2\n"
	d.cli(t, d.token).in(folder(t, files)).refused(422, "index.ts(1,7): error", "upload", ".")
}

func TestCLI(t *testing.T) {
	d := launch(t)
	c := d.cli(t, d.token)

	c.run([]string{d.id, "Diamond", "4096", "en-US"}, "userinfo")
	c.ask([]answer{{typed: "\r"}}, nil, "locale")
	c.run(nil, "apps")
	d.cli(t, "").ask([]answer{{typed: d.token + "\r"}}, nil, "login")

	app := c.in(folder(t, bot("Demo", idle)))
	app.run([]string{"Demo", "javascript"}, "upload", ".")
	config, err := os.ReadFile(filepath.Join(app.dir, "discloud.config"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ID=(\d+)$`).FindStringSubmatch(string(config))
	if found == nil {
		t.Fatalf("no id was written into discloud.config: %s", config)
	}
	id := found[1]

	c.run([]string{id, "Demo", "true"}, "apps", id)
	c.run([]string{"Online", "MB/100MB"}, "status", id)
	c.run([]string{"Online"}, "status")
	harness.Eventually(t, "the log says up", func() bool {
		c.run([]string{id}, "logs", id)
		log, err := os.ReadFile(filepath.Join(c.dir, "discloud/logs", id+".log"))
		return err == nil && strings.Contains(string(log), "up")
	})
	c.run([]string{id}, "logs")
	c.run(nil, "ram", id, "150")
	c.run([]string{"150"}, "apps", id)
	c.run(nil, "restart", id)
	c.run(nil, "stop", id)
	c.run(nil, "start", id)
	if code, said := c.try(nil, "start", id); code != 0 || !strings.Contains(said, "online") {
		t.Errorf("a start of what runs: status %d: %s", code, said)
	}
	c.run([]string{id}, "stop", "all")
	c.run([]string{id}, "start", "all")
	c.run([]string{id}, "restart", "all")

	if err := os.WriteFile(filepath.Join(app.dir, "index.js"), []byte("console.log('second');"+idle), 0o644); err != nil { //nolint:gosec // no secret
		t.Fatal(err)
	}
	app.ask([]answer{{typed: "\r"}}, nil, "commit", ".") // it offers the application whose ID is in the config
	harness.Eventually(t, "the new code runs", func() bool {
		c.run([]string{id}, "logs", id)
		log, err := os.ReadFile(filepath.Join(c.dir, "discloud/logs", id+".log"))
		return err == nil && strings.Contains(string(log), "second")
	})

	c.run([]string{id}, "backups", id, "--save")
	c.run([]string{id}, "backups", "--save")
	if out, err := exec.Command("unzip", "-p", filepath.Join(c.dir, "discloud/backups", id+".zip"), "index.js").Output(); err != nil || !strings.Contains(string(out), "second") {
		t.Errorf("the backup holds %q, %v", out, err)
	}

	c.refused(404, "", "apps", "1")
	c.refused(404, "", "logs", "1")
	c.ask([]answer{{typed: "\r"}}, nil, "delete", id)
	if said := c.run(nil, "apps"); strings.Contains(said, id) {
		t.Errorf("it is still there: %s", said)
	}
	d.cli(t, "wrong").refused(401, "", "userinfo")
}
