package main

import (
	"context"

	"berth/app"
	"berth/db"
	"berth/host"
)

// visits are the requests of the web as the host sees them.
type visits struct{ d *daemon }

// visits returns them, nil where the web comes by itself: then it knows one port
// of each application, and requests cannot be brought to another.
func (d *daemon) visits() host.Visits {
	if d.settings.Proxy.Mode == proxyOff {
		return nil
	}
	return visits{d}
}

// Healthy implements host.Visits.
func (v visits) Healthy(ctx context.Context, id app.ID, port int, path string) error {
	return v.d.sites.proxy.Healthy(ctx, string(id), port, path)
}

// Drain implements host.Visits.
func (v visits) Drain(ctx context.Context, port int, sockets bool) {
	v.d.sites.proxy.Drain(ctx, port, sockets)
}

// ports are the ports that belong to applications.
type ports struct {
	db  *db.DB
	ids db.IDRange
}

// Spare implements host.Ports.
func (p ports) Spare(ctx context.Context, id app.ID) (int, error) { return p.db.Spare(ctx, id, p.ids) }
