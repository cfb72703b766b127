package daemon

import (
	"log/slog"
	"strings"
	"testing"

	"berth/daemon/settings"
	"berth/test/hosted"
)

// Programs that may run on a cluster are not started here, and those here go on when a cluster does not answer.
func TestNoSecondEngine(t *testing.T) {
	s := testSettings(t)
	d, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler))
	hosted.Must(t, err)
	hosted.Must(t, d.data.db.SetCluster(t.Context(), "https://127.0.0.1:1"))
	hosted.Must(t, d.undo.close())
	for name, tt := range map[string]struct {
		server, engine, says string
	}{
		"no cluster":      {"", settings.Machine, "may still run on the cluster at https://127.0.0.1:1, which kubernetes.server does not name"},
		"another cluster": {"https://127.0.0.1:2", settings.Kubernetes, "which kubernetes.server does not name"},
		"it is away":      {"https://127.0.0.1:1", settings.Machine, "may still run on the cluster at https://127.0.0.1:1: "},
	} {
		s := s
		s.Engine, s.Kubernetes.Server, s.Kubernetes.Images = tt.engine, tt.server, "default image"
		if _, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
