package settings

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	"berth/app/exit"
)

// place is a directory with a settings file, and what reads and manages it.
type place struct {
	t    *testing.T
	file string
}

func newPlace(t *testing.T, text string) place {
	p := place{t, filepath.Join(t.TempDir(), "berth.toml")}
	if text != "" {
		p.write(p.file, text)
	}
	return p
}

func (p place) write(path, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) managed() string {
	p.t.Helper()
	text, err := os.ReadFile(ManagedFile(p.file))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

func (p place) explain(env map[string]string, args ...string) (Settings, []string, error) {
	p.t.Helper()
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	from := AddFlags(set)
	if err := set.Parse(append(args, "--config="+p.file)); err != nil {
		p.t.Fatal(err)
	}
	s, sources, err := from.Explain(func(name string) string { return env[name] })
	var lines []string
	for _, source := range sources {
		lines = append(lines, strings.ReplaceAll(source.String(), filepath.Dir(p.file), "DIR"))
	}
	return s, lines, err
}

func TestManage(t *testing.T) {
	p := newPlace(t, "rate_limit = 70\n")
	changed, err := Manage(p.file, map[string]string{"proxy.mode": "edge", "proxy.tls": "acme", "base_url": "https://berth.example.org", "rate_limit": "70"})
	if err != nil || !changed {
		t.Fatalf("changed is %t, %v", changed, err)
	}
	want := "# berth writes this file (berth setup and the panel). Your own settings belong into\n# " + p.file +
		", which wins over this file. Comments here get lost.\n" +
		"base_url = \"https://berth.example.org\"\nrate_limit = 70\n\n[proxy]\nmode = \"edge\"\ntls = \"acme\"\n"
	if got := p.managed(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for path, mode := range map[string]os.FileMode{ManagedFile(p.file): 0o644, filepath.Dir(ManagedFile(p.file)): 0o755 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}

	// Again: nothing to do. Then one more, and one less; the others stay.
	if changed, err := Manage(p.file, map[string]string{"proxy.mode": "edge"}); err != nil || changed {
		t.Errorf("the same again: changed is %t, %v", changed, err)
	}
	if changed, err := Manage(p.file, map[string]string{"names.domain": "apps.example.org"}, "base_url", "rate_limit"); err != nil || !changed {
		t.Errorf("changed is %t, %v", changed, err)
	}
	if _, rest, _ := strings.Cut(p.managed(), "lost.\n"); rest != "\n[names]\ndomain = \"apps.example.org\"\n\n[proxy]\nmode = \"edge\"\ntls = \"acme\"\n" {
		t.Errorf("got %s", rest)
	}
	entries, err := os.ReadDir(filepath.Dir(ManagedFile(p.file)))
	if err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	s, lines, err := p.explain(nil)
	if err != nil || s.Proxy.Mode != ProxyEdge || s.RateLimit != 70 || s.Names.Domain != "apps.example.org" {
		t.Errorf("got %+v, %v", s, err)
	}
	if want := []string{
		`rate_limit is "70", from DIR/berth.toml line 1`, `names.domain is "apps.example.org", from DIR/berth.d/managed.toml line 5`,
		`proxy.mode is "edge", from DIR/berth.d/managed.toml line 8`, `proxy.tls is "acme", from DIR/berth.d/managed.toml line 9`,
	}; !slices.Equal(lines, want) {
		t.Errorf("got %q", lines)
	}
}

func TestManageRefuses(t *testing.T) {
	const mine = "\nlisten = \"127.0.0.1:9000\"\n[apps]\nram_min = 200\nram_default = 300\n"
	for _, tt := range []struct {
		file, managed string
		set           map[string]string
		says, hint    string
	}{
		{mine, "", map[string]string{"listen": ":80"}, `cannot set listen to ":80": FILE line 2 says "127.0.0.1:9000", and that file wins`, "Hint: remove the line from FILE, or change it there."},
		{mine, "", map[string]string{"apps.ram_dfault": "1"}, `cannot set "apps.ram_dfault": there is no such setting; did you mean "apps.ram_default"?`, ""},
		{mine, "", map[string]string{"proxy.mode": "Edge"}, `cannot set proxy.mode to "Edge": expected one of off, behind, edge`, ""},
		{"[apps]\nram_min = 200\n", "[apps]\nram_default = 300\n", map[string]string{"apps.ram_default": "150"}, `cannot write the settings: apps.ram_default (150) must not be below apps.ram_min (200) (apps.ram_default is from MANAGED, apps.ram_min is from FILE line 2)`, ""},
		{"", "", map[string]string{"proxy.mode": "edge"}, `cannot write the settings: proxy.mode "edge" needs proxy.cert, the certificate of the sites, or proxy.tls "acme" (proxy.mode is from MANAGED)`, ""},
		{"", "x = 1\n", map[string]string{"proxy.mode": "behind"}, `unknown key "x" in MANAGED line 1`, ""},
		{"listen 5\n", "", map[string]string{"proxy.mode": "behind"}, "FILE line 1 is not TOML: ", ""},
	} {
		p := newPlace(t, tt.file)
		if tt.managed != "" {
			p.write(ManagedFile(p.file), tt.managed)
		}
		fill := strings.NewReplacer("FILE", p.file, "MANAGED", ManagedFile(p.file)).Replace
		changed, err := Manage(p.file, tt.set)
		wantProblem(t, err, exit.Config, fill(tt.says))
		if problem, ok := errors.AsType[*exit.Problem](err); changed || ok && problem.Hint != fill(tt.hint) {
			t.Errorf("changed is %t, %+v", changed, problem)
		}
		if is, err := os.ReadFile(ManagedFile(p.file)); string(is) != tt.managed {
			t.Errorf("it wrote %q, %v", is, err)
		}
	}
	// What the file says in other words is the same.
	p := newPlace(t, "[apps]\nstop_timeout = \"60s\"\n")
	if _, err := Manage(p.file, map[string]string{"apps.stop_timeout": "1m"}); err != nil {
		t.Error(err)
	}
}

// A directory stands where the file belongs: nothing is left behind.
func TestManageCannotWrite(t *testing.T) {
	p := newPlace(t, "")
	p.write(filepath.Join(filepath.Dir(p.file), "berth.d"), "a file")
	_, err := Manage(p.file, map[string]string{"rate_limit": "5"})
	if err == nil || !strings.HasPrefix(err.Error(), "cannot write the settings: ") && !strings.HasPrefix(err.Error(), "cannot read the configuration: ") {
		t.Errorf("got %v", err)
	}
	p = newPlace(t, "")
	p.write(ManagedFile(p.file)+".new/x", "in the way")
	if _, err := Manage(p.file, map[string]string{"rate_limit": "5"}); err == nil || !strings.HasPrefix(err.Error(), "cannot write the settings: ") {
		t.Errorf("got %v", err)
	}
}

func TestManageAtTheSameTime(t *testing.T) {
	p := newPlace(t, "")
	var all sync.WaitGroup
	for _, key := range []string{"rate_limit", "connections", "build.queue", "logs.keep", "upload.max", "apps.pids_max"} {
		all.Go(func() {
			if _, err := Manage(p.file, map[string]string{key: "77"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := strings.Count(p.managed(), " = 77\n"); got != 6 {
		t.Errorf("%d of 6 are in\n%s", got, p.managed())
	}
}

func TestExplain(t *testing.T) {
	p := newPlace(t, "listen = \":9000\"\n\n[proxy]\nmode = \"off\"\n")
	p.write(ManagedFile(p.file), "rate_limit = 60\n[proxy]\nmode = \"behind\"\n")
	env := map[string]string{"BERTH_LISTEN": ":9001", "BERTH_CONNECTIONS": "99"}
	_, lines, err := p.explain(env, "--listen=:9002")
	want := []string{
		`listen is ":9002", from --listen instead of ":9001" from BERTH_LISTEN and ":9000" from DIR/berth.toml line 1`,
		`connections is "99", from BERTH_CONNECTIONS`,
		`proxy.mode is "off", from DIR/berth.toml line 4 instead of "behind" from DIR/berth.d/managed.toml line 3`,
	}
	if err != nil || !slices.Equal(lines, want) {
		t.Errorf("got %q, %v", lines, err)
	}
	if got, err := json.Marshal(Source{"a", "1", "x", []Source{{Key: "a", Value: "2", From: "y"}}}); err != nil || string(got) != `{"key":"a","value":"1","from":"x","over":[{"key":"a","value":"2","from":"y"}]}` {
		t.Errorf("got %s, %v", got, err)
	}
	// The managed file may be there without the settings file, and is refused like it.
	p = newPlace(t, "")
	p.write(ManagedFile(p.file), "rate_limit = 61\n")
	if _, lines, err := p.explain(nil); err == nil {
		t.Errorf("a file that --config names is missing: %q", lines)
	}
	from := AddFlags(pflag.NewFlagSet("test", pflag.ContinueOnError))
	from.Fallback = p.file
	if s, err := from.Load(func(string) string { return "" }); err != nil || s.RateLimit != 61 {
		t.Errorf("got %d, %v", s.RateLimit, err)
	}
	p.write(ManagedFile(p.file), "[apps]\npids_max = 0\n")
	_, err = from.Load(func(string) string { return "" })
	wantProblem(t, err, exit.Config, `bad value "0" for apps.pids_max in `+ManagedFile(p.file)+" line 2: expected ")
}

// The example is a settings file that says nothing; without the marks of its comments
// it says every default.
func TestExample(t *testing.T) {
	values, err := parseFile("example", Example())
	if err != nil || len(values) > 0 {
		t.Errorf("it sets %v, %v", values, err)
	}
	var lines []string
	for line := range strings.Lines(Example()) {
		if rest, ok := strings.CutPrefix(line, "# "); ok && strings.Contains(rest, " = ") {
			line = rest
		}
		lines = append(lines, line)
	}
	values, err = parseFile("example", strings.Join(lines, ""))
	if err != nil || len(values) != len(settings) {
		t.Fatalf("%d values, %v", len(values), err)
	}
	for _, row := range settings {
		if got := values[row.key].value; !row.same(got, row.value) {
			t.Errorf("%s is %q, want %q", row.key, got, row.value)
		}
	}
}

func TestLiteral(t *testing.T) {
	for text, want := range map[string]string{
		"": `""`, "5": "5", "1.0": "1.0", "true": "true", "10s": `"10s"`, "007": `"007"`, "-1": `"-1"`, "a\"b\\\n\x01": `"a\"b\\\n\u0001"`, "nan": `"nan"`,
	} {
		if got := literal(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
