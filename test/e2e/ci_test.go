package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"berth/test/harness"
)

// ciJob is what an example of examples/ci lets a runner do: get berth, then deploy.
type ciJob struct {
	name        string
	env         map[string]string
	get, deploy []string // commands
}

// ciJobs reads the examples as their forges do.
func ciJobs(t *testing.T) []ciJob {
	t.Helper()
	jobs := []ciJob{}
	for _, name := range []string{"github", "forgejo"} {
		var of struct {
			Env  map[string]string
			Jobs map[string]struct {
				Steps []struct{ Uses, Name, Run string }
			}
		}
		readYAML(t, name, &of)
		steps := of.Jobs["deploy"].Steps
		if len(of.Jobs) != 1 || len(steps) != 3 || !strings.HasPrefix(steps[0].Uses, "actions/checkout@") || steps[1].Name != "get berth" || steps[2].Name != "deploy" {
			t.Fatalf("%s has other steps: %+v", name, of)
		}
		if of.Env["BERTH_TOKEN"] != "${{ secrets.BERTH_TOKEN }}" {
			t.Errorf("%s has the token %q", name, of.Env["BERTH_TOKEN"])
		}
		delete(of.Env, "BERTH_TOKEN")
		jobs = append(jobs, ciJob{name, of.Env, []string{steps[1].Run}, []string{steps[2].Run}})
	}
	var of struct {
		Deploy struct {
			Variables map[string]string
			Before    []string `yaml:"before_script"`
			Script    []string
		}
	}
	readYAML(t, "gitlab", &of)
	return append(jobs, ciJob{"gitlab", of.Deploy.Variables, of.Deploy.Before, of.Deploy.Script})
}

func readYAML(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile("../../examples/ci/" + name + ".yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// ciRelease serves the archive of a release, with the binary of these tests, under the name that
// is asked for, and returns its sum. test/packages looks whether releases have these names.
func ciRelease(t *testing.T) (address, sum string) {
	t.Helper()
	text, err := os.ReadFile(harness.Binary)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	files := tar.NewWriter(z)
	for name, content := range map[string][]byte{"berth": text, "README.md": []byte("of the release")} {
		if err := files.WriteHeader(&tar.Header{Name: "berth_1.2.3_linux_amd64/" + name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/berth/berth_1.2.3_linux_amd64.tar.gz" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(packed.Bytes())
	}))
	t.Cleanup(s.Close)
	return s.URL, fmt.Sprintf("%x", sha256.Sum256(packed.Bytes()))
}

// runner is a machine that runs a job in a checkout.
type runner struct {
	t         *testing.T
	dir, home string
	env       []string
}

func newRunner(t *testing.T, files harness.Files, env ...string) *runner {
	t.Helper()
	r := &runner{t: t, dir: t.TempDir(), home: t.TempDir()}
	r.env = append(append(harness.CleanEnv(), "HOME="+r.home, "CI=true"), env...)
	for name, text := range files {
		path := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		harness.Write(t, path, text)
	}
	return r
}

// run runs commands as one script that ends at the first that fails.
func (r *runner) run(commands ...string) (code int, said string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "sh", "-ec", strings.Join(commands, "\n"))
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		r.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// bounded makes a token for one application, as docs/deploy.md says.
func bounded(t *testing.T, d *daemon, owner *client, id string) string {
	t.Helper()
	cmd := exec.Command(harness.Binary, "token", "create", "--label", "ci", "--app", id, "--may", "commit_app,logs_app", "--days", "365")
	cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR=/none", "BERTH_URL="+d.Base, "BERTH_TOKEN="+owner.Token)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("berth token create: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestCIExamples runs what the examples of examples/ci tell a runner to do, with a token that can
// do nothing else: the commands are those of the files, with the addresses, the sum and the id of
// the test.
func TestCIExamples(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner := d.account("ana", 600)
	release, sum := ciRelease(t)
	other := owner.Upload(harness.NodeBot(harness.IdleNode, "NAME=other", "RAM=100"))
	for _, job := range ciJobs(t) {
		t.Run(job.name, func(t *testing.T) {
			id := owner.Upload(harness.NodeBot(harness.IdleNode, "NAME="+job.name, "RAM=100"))
			actual := strings.NewReplacer("https://example.org", release, "SHA256", sum, "1745338954955", id, "https://apps.example.org", d.Base)
			env := []string{"BERTH_TOKEN=" + bounded(t, d, owner, id), "BERTH_RUNTIME_DIR=/none"}
			for name, value := range job.env {
				env = append(env, name+"="+actual.Replace(value))
			}
			checkout := harness.NodeBot(`console.log("from `+job.name+`"); setInterval(() => {}, 1e6)`, "NAME="+job.name, "RAM=100")
			checkout[".git/HEAD"], checkout[".gitignore"], checkout["README.md"] = "ref: refs/heads/main\n", "dist\n", "of the checkout"
			r := newRunner(t, checkout, env...)

			before := harness.Snapshot(t, r.dir)

			get, deploy := actual.Replace(strings.Join(job.get, "\n")), actual.Replace(strings.Join(job.deploy, "\n"))
			if code, said := r.run(strings.ReplaceAll(get, sum, strings.Repeat("0", 64))); code == 0 || harness.Exists(t, filepath.Join(r.home, "berth")) {
				t.Fatalf("another archive than that of the sum: exit code %d: %s", code, said)
			}
			if code, said := r.run(get); code != 0 {
				t.Fatalf("get berth: exit code %d: %s", code, said)
			}
			code, said := r.run(deploy)
			if code != 0 || !strings.Contains(said, "Your application was updated.") {
				t.Fatalf("deploy: exit code %d: %s", code, said)
			}
			owner.UntilLog(id, "from "+job.name)
			harness.SameTree(t, harness.Snapshot(t, r.dir), before) // the archive and its files are elsewhere
			if job.name == "gitlab" {
				r.within(id, other)
				r.fails(deploy)
			}
		})
	}
}

// A member of a team deploys from CI too, with what the membership allows.
func TestCIOfATeam(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner, member := d.account("ana", 300), d.account("bea", 300)
	id := owner.Upload(harness.NodeBot(harness.IdleNode, "NAME=shared", "RAM=100"))
	of := newRunner(t, nil, "BERTH_RUNTIME_DIR=/none", "BERTH_URL="+d.Base, "BERTH_TOKEN="+owner.Token, "PATH="+filepath.Dir(harness.Binary)+":"+os.Getenv("PATH"))
	if code, said := of.run("berth team add " + id + " " + member.Account + " --may commit_app,logs_app"); code != 0 {
		t.Fatal(said)
	}
	r := newRunner(t, harness.NodeBot(`console.log("from bea"); setInterval(() => {}, 1e6)`, "NAME=shared", "RAM=100"),
		"BERTH_RUNTIME_DIR=/none", "BERTH_URL="+d.Base, "BERTH_TOKEN="+bounded(t, d, member, id), "PATH="+filepath.Dir(harness.Binary)+":"+os.Getenv("PATH"))
	if code, said := r.run("berth deploy --app " + id); code != 0 || !strings.Contains(said, "Your application was updated.") {
		t.Fatalf("exit code %d: %s", code, said)
	}
	owner.UntilLog(id, "from bea")
	for command, want := range map[string]int{"logs " + id: 0, "stop " + id: 4, "deploy --new": 4, "delete " + id + " --yes": 4} {
		if code, said := r.run("berth " + command); code != want {
			t.Errorf("berth %s: exit code %d, want %d: %s", command, code, want, said)
		}
	}
}

// within calls every command of the client: the token can read what its deploys come to, and is
// refused everything else, also of its own application.
func (r *runner) within(id, other string) {
	r.t.Helper()
	vars := filepath.Join(r.dir, "vars")
	harness.Write(r.t, vars, "A=b\n")
	defer os.Remove(vars)
	for _, tt := range []struct {
		command string
		code    int
	}{
		{"ls", 0},
		{"logs ID", 0},
		{"logs ID --build", 0},
		{"deploys ID", 0},
		{"whoami", 0},
		{"rollback ID", 0},
		{"status ID", 4},
		{"events ID", 4},
		{"start ID", 4},
		{"stop ID", 4},
		{"restart ID", 4},
		{"ram ID 200", 4},
		{"env list ID", 4},
		{"env set ID A=b", 4},
		{"env unset ID A", 4},
		{"env push ID vars", 4},
		{"env pull ID -", 4},
		{"exec ID -- true", 4},
		{"app backup make ID", 4},
		{"app backup ls ID", 4},
		{"domain list", 4},
		{"domain add example.com ID", 4},
		{"team list ID", 4},
		{"team add ID 2 --may logs_app", 4},
		{"token list", 4},
		{"token create", 4},
		{"token revoke 1", 4},
		{"delete ID --yes", 4},
		{"deploy --new", 4},
		{"deploy --app OTHER", 5},
		{"logs OTHER", 5},
		{"deploys OTHER", 5},
		{"rollback OTHER", 5},
		{"delete OTHER --yes", 5},
	} {
		command := strings.NewReplacer("ID", id, "OTHER", other).Replace(strings.ReplaceAll(tt.command, "OTHER", other))
		if code, said := r.run("~/berth " + command + " </dev/null"); code != tt.code {
			r.t.Errorf("berth %s: exit code %d, want %d: %s", tt.command, code, tt.code, said)
		}
	}
}

// fails deploys what does not work: the job ends with a code that is not 0, and says why.
func (r *runner) fails(deploy string) {
	r.t.Helper()
	index := filepath.Join(r.dir, "index.js")
	config := filepath.Join(r.dir, "discloud.config")
	good, err := os.ReadFile(config)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, tt := range []struct {
		what, path, text string
		code             int
		says             string
	}{
		{"a build that fails", config, string(good) + "BUILD=echo no such thing >&2; exit 3\n", 1, "no such thing"},
		{"a program that dies", index, `console.log("last words"); process.exit(7)`, 1, "last words"},
		{"a file with secrets", filepath.Join(r.dir, ".env"), "TOKEN=x\n", 2, `".env" holds secrets`},
	} {
		before, missing := os.ReadFile(tt.path)
		harness.Write(r.t, tt.path, tt.text)
		if code, said := r.run(deploy); code != tt.code || !strings.Contains(said, tt.says) {
			r.t.Errorf("%s: exit code %d, want %d: %s", tt.what, code, tt.code, said)
		}
		if missing != nil {
			_ = os.Remove(tt.path)
			continue
		}
		harness.Write(r.t, tt.path, string(before))
	}
	token := regexp.MustCompile(`^BERTH_TOKEN=.*`)
	for i, pair := range r.env {
		r.env[i] = token.ReplaceAllString(pair, "BERTH_TOKEN=")
	}
	if code, said := r.run(deploy); code != 2 || !strings.Contains(said, "BERTH_URL and BERTH_TOKEN go together") { // a fork has no secrets
		r.t.Errorf("without the secret: exit code %d: %s", code, said)
	}
}
