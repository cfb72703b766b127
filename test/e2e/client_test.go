package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"berth/test/dns"
	"berth/test/harness"
)

// clientCommands are what scripts of the client call besides berth.
var clientCommands = map[string]func(*testscript.TestScript, bool, []string){
	"status": func(ts *testscript.TestScript, _ bool, args []string) { // status CODE COMMAND...
		want, err := strconv.Atoi(args[0])
		ts.Check(err)
		var ended *exec.ExitError
		got := 0
		if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
			got = ended.ExitCode()
		} else {
			ts.Check(err)
		}
		if got != want {
			ts.Fatalf("exit code %d, want %d: %s", got, want, ts.ReadFile("stderr"))
		}
	},
	"until": scriptUntil,
}

// scriptUntil runs a command until it prints what a pattern matches: until PATTERN COMMAND...
func scriptUntil(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(`(?m)` + args[0])
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(harness.Pause) {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%q never prints %q", args[1:], args[0])
		}
	}
}

// TestClientScripts runs each script twice: on the host over the local socket, without a
// token, and with a token from everywhere. Both must print the same.
func TestClientScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/client/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	d := launch(t, "--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "sites.test", "--names-resolver", dns.Start(t).Addr())
	for _, way := range []string{"socket", "token"} {
		t.Run(way, func(t *testing.T) {
			for _, script := range scripts {
				name := strings.TrimSuffix(filepath.Base(script), ".txtar")
				account := name + "-" + way
				c := d.account(account, 600)
				bot := c.Upload(harness.NodeBot(harness.IdleNode, "NAME=bot", "RAM=100"))
				crash := c.Upload(harness.ShellBot(`printf 'last words \033]0;x\007\n'; exit 3`, "NAME=crash", "RAM=100")) // at once, on a busy machine too
				c.Until(crash, "apps.online", false, "apps.exitCode", 3)
				values := map[string]string{"BOT": bot, "CRASH": crash, "ACCOUNT": account, "URL": d.Base, "TOKEN": c.Token, "NUMBER": c.Account, "WAY": way}
				if name == "others" {
					other := d.account("other-"+way, 100)
					site := func(text string) harness.Files {
						return harness.Files{"discloud.config": harness.Config("TYPE=site", "NAME=site", "ID="+account, "MAIN=index.html", "RAM=32"), "index.html": text}
					}
					values["SITE"] = c.Upload(site("first"))
					c.Commit(account, site("second")).Want(200)
					c.Upload(harness.NodeBot(harness.IdleNode, "NAME=crash", "RAM=100"))
					values["OTHER"], values["OTHERTOKEN"] = other.Account, other.Token
				}
				testscript.Run(t, testscript.Params{
					Files: []string{script}, Cmds: clientCommands,
					Setup: func(env *testscript.Env) error {
						env.Setenv("PATH", filepath.Dir(harness.Binary)+":"+os.Getenv("PATH"))
						env.Setenv("HOME", env.WorkDir)
						env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
						env.Setenv("BERTH_CONFIG", os.DevNull)
						for variable, value := range values {
							env.Setenv(variable, value)
						}
						if way == "socket" {
							env.Setenv("BERTH_RUNTIME_DIR", d.Runtime())
							env.Setenv("BERTH_ACCOUNT", account)
							env.Setenv("BERTH_DATA_DIR", d.Data) // app env and its like read the database
							return nil
						}
						env.Setenv("BERTH_RUNTIME_DIR", "/none")
						env.Setenv("BERTH_URL", d.Base)
						env.Setenv("BERTH_TOKEN", c.Token)
						return nil
					},
				})
			}
		})
	}
}

// A person at a terminal of 80 and of 40 columns logs in, looks, and deletes an application
// by typing its name. The token is not shown, and no line is wider than the terminal.
func TestClientAtATerminal(t *testing.T) {
	t.Parallel()
	d := launch(t)
	for _, columns := range []uint16{80, 40} {
		c := d.account("person"+strconv.Itoa(int(columns)), 300)
		id := c.Upload(harness.NodeBot(harness.IdleNode, "NAME=a-shop-with-a-long-name", "RAM=100"))
		home := t.TempDir()
		at := func(args ...string) *harness.Terminal {
			cmd := d.Command(args...)
			cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR=/none", "HOME="+home, "XDG_CONFIG_HOME="+home, "TERM=xterm")
			cmd.Dir = home
			return harness.OpenTerminal(t, cmd, columns)
		}
		p := at("login", d.Base, "--token", "--context", "lab")
		p.Answer("Token:", c.Token)
		p.Wait(`the context "lab" is the current one`)
		ends(t, p, 0)
		if strings.Contains(p.Out.String(), c.Token) {
			t.Errorf("the terminal shows the token: %q", p.Out.String())
		}
		for _, command := range []string{"ls", "status", "deploys " + id, "events " + id, "whoami", "context list"} {
			p := at(strings.Fields(command)...)
			ends(t, p, 0)
			for line := range strings.Lines(p.Out.String()) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, " \r\n")); n > int(columns) && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("berth %s at %d columns: %d in %q", command, columns, n, line)
				}
			}
			if strings.Contains(p.Out.String(), "\x1b") {
				t.Errorf("berth %s: %q", command, p.Out.String())
			}
		}
		p = at("delete", id)
		p.Answer("Type its name to go on:", "another")
		p.Wait("that is not its name")
		ends(t, p, 1)
		p = at("delete", id)
		p.Answer("Type its name to go on:", "a-shop-with-a-long-name")
		p.Wait("Your application was deleted.")
		ends(t, p, 0)
	}
}

func ends(t *testing.T, p *harness.Terminal, want int) {
	t.Helper()
	if code := p.End(); code != want {
		t.Errorf("exit status %d, want %d: %s", code, want, p.Out.String())
	}
}
