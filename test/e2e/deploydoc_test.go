package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth/test/harness"
)

// shown is a command of a document, and what the document shows of its output.
type shown struct{ command, output string }

// commandsOf are the lines with a prompt in the blocks of a document.
func commandsOf(t *testing.T, path string) (list []shown) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(text), "```") {
		body, is := strings.CutPrefix(block, "sh\n")
		if i%2 == 0 || !is {
			continue
		}
		for line := range strings.Lines(body) {
			if command, is := strings.CutPrefix(line, "$ "); is {
				list = append(list, shown{command: command})
				continue
			}
			list[len(list)-1].output += line
		}
	}
	return list
}

// Every command of docs/deploy.md works as it is shown there, one after the other in one
// directory: each line of the output is there in this order, but for numbers and spaces.
func TestDeployDocument(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner := d.account("ana", 600)
	r := newRunner(t, harness.Files{"index.js": `setInterval(() => {}, 1000)`}, "BERTH_RUNTIME_DIR=/none")
	host := strings.TrimPrefix(d.Base, "http://")
	alike := func(text string) string {
		text = strings.NewReplacer(d.Base, "https://apps.example.org", host, "apps.example.org").Replace(text)
		text = regexp.MustCompile(`eyJ[A-Za-z0-9_.-]+`).ReplaceAllString(text, "TOKEN")
		text = regexp.MustCompile(`[0-9.]+ ?(B|bytes|kB|ms|s)\b|[0-9]+`).ReplaceAllString(text, "N")
		return strings.Join(strings.Fields(text), " ")
	}
	all := commandsOf(t, "../../docs/deploy.md")
	if len(all) < 15 {
		t.Fatalf("%d commands", len(all))
	}
	for _, tt := range all {
		for _, id := range owner.IDs() {
			harness.Eventually(t, "the last deploy ends", func() bool { return owner.Get("/app/"+id+"/deploys").At("deploying") == false })
		}
		line := strings.ReplaceAll(tt.command, "https://apps.example.org", d.Base)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir, cmd.Env, cmd.Stdin = r.dir, append(r.env, "PATH="+filepath.Dir(harness.Binary)+":"+os.Getenv("PATH")), strings.NewReader(owner.Token)
		out, err := cmd.CombinedOutput()
		if fails := strings.Contains(tt.output, "berth: "); fails != (err != nil) {
			t.Fatalf("$ %s%v: %s", line, err, out)
		}
		rest := string(out)
		for want := range strings.Lines(tt.output) {
			want = strings.TrimPrefix(strings.TrimSpace(want), "...")
			for found := want == ""; !found; {
				var got string
				if rest == "" {
					t.Errorf("$ %sdid not say %q: %s", line, want, out)
					break
				}
				got, rest, _ = strings.Cut(rest, "\n")
				found = strings.HasSuffix(alike(got), alike(want))
			}
		}
	}
}
