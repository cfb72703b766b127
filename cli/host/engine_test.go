package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/app"
	"berth/app/exit"
	"berth/test/hosted"
)

func TestEngineMoveRefusals(t *testing.T) {
	h := hosted.New(t)
	for engine, want := range map[string]struct {
		code int
		says string
	}{
		"kubernete":  {exit.Usage, `did you mean "kubernetes"?`},
		"kubernetes": {exit.Failure, "cannot move the programs: berth does not run here"},
	} {
		if code, _, errs := berthBeside(h, "engine", "move", engine, "--yes", "--data-dir", h.Path); code != want.code || !strings.Contains(errs, want.says) {
			t.Errorf("%s: %d %s", engine, code, errs)
		}
	}
	if _, held, err := h.DB.Holds.HoldOf(t.Context()); err != nil || held {
		t.Errorf("the programs are held: %t, %v", held, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(h.Path), "berth.d")); err == nil {
		t.Error("settings were written")
	}
}

func TestEngineForget(t *testing.T) {
	h := hosted.New(t)
	forget := func(args ...string) string {
		t.Helper()
		_, _, errs := berthBeside(h, append([]string{"engine", "forget", "--data-dir", h.Path}, args...)...)
		return errs
	}
	if errs := forget("--yes"); !strings.Contains(errs, "no program of this host runs on a cluster") {
		t.Errorf("without one: %s", errs)
	}
	const server = "https://10.0.0.1:6443"
	hosted.Must(t, h.DB.SetCluster(t.Context(), server))
	if errs := forget(); !strings.Contains(errs, "Programs that still run at "+server+" go on there") || !strings.Contains(errs, "that is not its address") {
		t.Errorf("without a word: %s", errs)
	}
	if is, err := h.DB.Cluster(t.Context()); err != nil || is != server {
		t.Errorf("then it is %q, %v", is, err)
	}
	if errs := forget("--yes"); !strings.Contains(errs, "the cluster at "+server+" is forgotten") {
		t.Errorf("with --yes: %s", errs)
	}
	if is, err := h.DB.Cluster(t.Context()); err != nil || is != "" {
		t.Errorf("at last it is %q, %v", is, err)
	}
	records, err := h.DB.Audit.Records(t.Context(), app.AuditQuery{Operation: "host.engine_forget", Limit: 10})
	if err != nil || len(records) != 1 {
		t.Errorf("recorded are %+v, %v", records, err)
	}
}
