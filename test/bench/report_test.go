package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	r := row{what: "a|b", aim: below(1, 2, "MB")}
	for _, name := range append(managers, "other") {
		r.set(name, "of "+name)
	}
	want := "| measure | berth | aim | PM2 | supervisord | reference |\n|---|---|---|---|---|---|\n" +
		"| a\\|b | of berth | under 2 MB: within | of PM2 | of supervisord | of other |\n" +
		"| x | | under 2 MB: **beyond** | | | |\n"
	if got := table([]row{r, {what: "x", aim: below(2, 2, "MB")}}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDocument(t *testing.T) {
	page := document(machine{cores: 2, ram: 23.5, kernel: "6.1", groups: "hybrid", versions: []string{"PM2 7"}}, measures, []row{{what: "x"}})
	for _, part := range []string{"2 processors, 23.5 GB of RAM, Linux 6.1, hybrid control groups", "Versions: PM2 7.", "| x |", "`make bench ONLY=idle`"} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is missing in\n%s", part, page)
		}
	}
	for line := range strings.Lines(page) {
		if len(line) > 101 && !strings.HasPrefix(line, "|") {
			t.Errorf("a line is too long: %s", line)
		}
	}
}

func TestChoose(t *testing.T) {
	if all, err := choose(""); err != nil || len(all) != len(measures) {
		t.Errorf("got %d, %v", len(all), err)
	}
	if two, err := choose("start,idle"); err != nil || len(two) != 2 || two[1].name != "idle" {
		t.Errorf("got %v, %v", two, err)
	}
	if _, err := choose("start,lunch"); err == nil || !strings.Contains(err.Error(), `no measure "lunch"; there are: memory,`) {
		t.Errorf("got %v", err)
	}
}

func TestGroupsOf(t *testing.T) {
	for text, want := range map[string]string{
		`[{"name":"cgroups","verdict":"ok","text":"hybrid: by v1"}]`: "hybrid",
		`[{"name":"memory","text":"hybrid: by v1"}]`:                 "unknown",
		`nonsense`: "unknown",
	} {
		if got := groupsOf(text); got != want {
			t.Errorf("groupsOf(%s) = %q, want %q", text, got, want)
		}
	}
}

func TestParseStamps(t *testing.T) {
	got := parseStamps("start 1000000001 7\nbad\nend x 7\nstart 2000000000 8\nend 30")
	want := event{time.Unix(2, 0), 8}
	if len(got) != 1 || !got["start"].at.Equal(want.at) || got["start"].pid != want.pid {
		t.Errorf("got %v, want %v alone", got, want)
	}
}

func TestCountLog(t *testing.T) {
	dir := t.TempDir()
	x := strings.Repeat("x", 99) + "\n"
	const at = "2026-01-02T03:04:05.678Z "
	write(t, dir, "run.log", at+x+at+"[berth] 1,000 lines\n"+at+"[berth] 12 lines (1.2 KB) dropped: the program prints more than 1 MB/s\n"+at+"ready\n")
	write(t, dir, "run.log.1", x+at+"[berth] 1 line lost: cannot write the log: no space left on device\n")
	kept, dropped, err := countLog(filepath.Join(dir, "run.log*"))
	if err != nil || kept != 2 || dropped != 13 {
		t.Errorf("kept %d, dropped %d, %v; want 2 and 13", kept, dropped, err)
	}
	if _, _, err := countLog(filepath.Join(dir, "no*")); err == nil {
		t.Error("a log that is missing was counted")
	}
}

func TestOutputRows(t *testing.T) {
	whole := &outflow{took: sample{2}, cpu: sample{1}, peak: sample{20}, kept: sample{produced - 5}, dropped: sample{5}}
	torn := &outflow{took: sample{1}, cpu: sample{1}, peak: sample{30}, kept: sample{produced - 5}, dropped: sample{4}}
	flows := map[string]*outflow{"berth, a": whole, "berth, b": torn, "PM2": torn, "supervisord": whole}
	for name, within := range map[string][]bool{"berth, a": {false, false, true, true}, "berth, b": {true, false, false, false}} {
		for i, r := range outputRows(name, flows, sample{1}) {
			if strings.HasSuffix(r.aim, ": within") != within[i] {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	if got, want := torn.lines(), "1999995 kept, 4 dropped and counted, 1 missing"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestIdleRows(t *testing.T) {
	rows := idleRows([]float64{0, 10, 10, 299, 20, 500, 30}, []float64{3, 4, 4, 5, 6, 700, 8})
	if len(rows) != 5 || rows[2].berth != "10 ms CPU, 4 switches" || rows[2].pm2 != "500 ms CPU, 700 switches" || rows[2].supervisord != "30 ms CPU, 8 switches" {
		t.Errorf("got %+v", rows)
	}
	if rows[3].aim != "under 300 ms CPU: within" || rows[4].aim != "150 ms more than with 10: **beyond**" {
		t.Errorf("the aims are %q and %q", rows[3].aim, rows[4].aim)
	}
	if rows := idleRows([]float64{0, 0, 0, 0, 180, 0, 0}, make([]float64, 7)); rows[4].aim != "150 ms more than with 10: **beyond**" {
		t.Errorf("the aim is %q", rows[3].aim)
	}
}

// The program itself, without a manager: it starts, waits for its gate and
// prints what it says.
func TestProgram(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	b.probe = filepath.Join(b.dir, "probe")
	if err := compile(t.Context(), b.probe); err != nil {
		t.Fatal(err)
	}
	if ms, err := b.startDirectly(t.Context()); err != nil || ms <= 0 {
		t.Errorf("it started after %g ms, %v", ms, err)
	}
	dir, err := b.fresh("print")
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if s, err := b.direct(t.Context(), dir, "print", out); err != nil || s <= 0 {
		t.Errorf("it printed for %g s, %v", s, err)
	}
	if kept, _, err := countLog(out.Name()); err != nil || kept != produced {
		t.Errorf("it printed %d lines, %v; want %d", kept, err, produced)
	}
}

func TestUntilEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := until(ctx, "pigs fly", func() (bool, error) { return false, nil }); err == nil {
		t.Error("waited for nothing")
	}
}
