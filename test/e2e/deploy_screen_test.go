package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/test/harness"
)

// changing are what differs from deploy to deploy on a screen.
var changing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|\d{13}|[0-9.]+(ms|s)\b|\d+ (bytes|KB)`)

// TestScreensOfADeploy: what a person sees at a terminal of 80 and of 40 columns while a
// directory is deployed: the size, the place in the queue, the build as it comes, the
// verdict; of code that does not start, its last words; and after Ctrl-C what goes on.
func TestScreensOfADeploy(t *testing.T) {
	t.Parallel()
	for columns, want := range map[uint16]struct{ queued, building, online, broken, left string }{
		80: {
			`2 files, #; 1 left out by ignore files
sent #
in the queue of builds: number 1
`,
			`2 files, #; 1 left out by ignore files
sent #
begun
building
`,
			`2 files, #; 1 left out by ignore files
sent #
begun
ready green
Your application was uploaded.
shop (#) is online.
`,
			`2 files, #; 1 left out by ignore files
sent #
# last words \x1b]0;x�
# [berth] exited with code 3 after #
berth: cannot start the new code (exited with code 3 after #); the code from before the commit is back
`,
			`2 files, #; 1 left out by ignore files
sent #
begun
berth: interrupted, but the deploy goes on
Hint: berth stop # calls it off until the new code is in place;
  berth events # says what came of it.
`,
		},
		40: {
			`2 files, #; 1 left out by ignore
 files
sent #
in the queue of builds: number 1
`,
			`2 files, #; 1 left out by ignore
 files
sent #
begun
building
`,
			`2 files, #; 1 left out by ignore
 files
sent #
begun
ready green
Your application was uploaded.
shop (#) is online.
`,
			`2 files, #; 1 left out by ignore
 files
sent #
# last words \x1b
]0;x�
# [berth] exited
with code 3 after #
berth: cannot start the new code (exited with code 3 after #); the code from before the commit is back
`,
			`2 files, #; 1 left out by ignore
 files
sent #
begun
berth: interrupted, but the deploy
  goes on
Hint: berth stop # calls
  it off until the new code is in place;
  berth events # says what
  came of it.
`,
		},
	} {
		t.Run(strconv.Itoa(int(columns)), func(t *testing.T) {
			t.Parallel()
			d := launch(t)
			c := d.account("person", 600)
			gate := func(name string) string { return filepath.Join(d.Gates, name) }
			waits := func(name string) string {
				return "echo begun; until [ -e " + gate(name) + " ]; do sleep 0.05; done; printf 'ready \\033[32mgreen\\033[0m\\n'"
			}
			dir := filepath.Join(t.TempDir(), "shop")
			write := func(config, code string) {
				t.Helper()
				for name, text := range map[string]string{"discloud.config": config, "index.js": code, ".gitignore": "node_modules\n", "node_modules/x.js": "x"} {
					if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
						t.Fatal(err)
					}
					harness.Write(t, filepath.Join(dir, name), text)
				}
			}
			home := t.TempDir()
			deploys := func() *harness.Terminal {
				cmd := d.Command("deploy", dir)
				cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR="+d.Runtime(), "BERTH_ACCOUNT=person", "TERM=xterm", "HOME="+home, "XDG_CONFIG_HOME="+home)
				return harness.OpenTerminal(t, cmd, columns)
			}
			shows := func(p *harness.Terminal, want string) {
				t.Helper()
				deadline := time.Now().Add(harness.Patience / 16)
				screen := func() string {
					text := changing.ReplaceAllString(p.Screen(), "#")
					return strings.Replace(strings.Replace(text, "sent # in #", "sent #", 1), "^C", "", 1)
				}
				alike := func(a, b string) bool { return a == b }
				if strings.Contains(want, "cannot start") { // after a time of one figure, or of three
					alike = func(a, b string) bool {
						return strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
					}
				}
				for !alike(screen(), want) {
					if time.Now().After(deadline) {
						t.Errorf("the screen is\n%s\nwant\n%s\n%q", screen(), want, p.Out.String())
						return
					}
					time.Sleep(harness.Pause)
				}
			}

			first := make(chan struct{})
			go func() { // holds the only place where builds run
				defer close(first)
				c.Upload(harness.NodeBot(harness.IdleNode, "RAM=64", "BUILD="+waits("first")))
			}()
			harness.Eventually(t, "the first build runs", func() bool { return len(c.IDs()) == 1 })
			write(harness.Config("TYPE=bot", "NAME=shop", "MAIN=index.js", "RAM=64", "BUILD="+waits("second")), harness.IdleNode)
			p := deploys()
			shows(p, want.queued)
			harness.Write(t, gate("first"), "")
			<-first
			shows(p, want.building)
			harness.Write(t, gate("second"), "")
			shows(p, want.online)
			ends(t, p, 0)
			if !strings.Contains(p.Out.String(), "\x1b[32mgreen") {
				t.Errorf("the build has no colours: %q", p.Out.String())
			}

			write(harness.Config("TYPE=bot", "NAME=shop", "MAIN=index.js", "RAM=64"), `console.log("last words \x1b]0;x\x07"); process.exit(3)`)
			p = deploys()
			shows(p, want.broken)
			ends(t, p, 1)

			write(harness.Config("TYPE=bot", "NAME=shop", "MAIN=index.js", "RAM=64", "BUILD="+waits("third")), harness.IdleNode)
			p = deploys()
			p.Wait("begun")
			p.Press("\x03")
			shows(p, want.left)
			ends(t, p, 130)
			harness.Write(t, gate("third"), "")
			id := c.IDs()[1]
			harness.Eventually(t, "the deploy goes on", func() bool {
				return len(c.Get("/app/"+id+"/deploys").At("deploys").([]any)) == 2
			})
		})
	}
}
