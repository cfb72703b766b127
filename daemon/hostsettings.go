package daemon

import (
	"context"

	"berth/app"
	"berth/daemon/settings"
)

// hostSettings is app.HostSettings over the settings with which the daemon runs.
type hostSettings struct{ settings.Settings }

// HostSettings implements app.HostSettings.
func (h hostSettings) HostSettings(context.Context) ([]app.HostSetting, error) { return h.ForPanel() }

// SetHostSettings implements app.HostSettings.
func (h hostSettings) SetHostSettings(_ context.Context, values map[string]string) ([]app.HostSetting, error) {
	return h.SetForPanel(values)
}
