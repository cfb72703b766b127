package main

import (
	"context"
	"time"

	"berth/sandbox"
)

// openNetwork loads the network policy. Where the kernel lets nobody, programs
// have the host's network, and PORT.
func (d *daemon) openNetwork() error {
	network, err := sandbox.NewNetwork(d.settings.networkRules())
	if err != nil {
		d.unnetworked = err
		d.log.Warn("programs reach everything that the host reaches, and their ports are open to all: only PORT is theirs", "error", err)
		return nil
	}
	d.network = network
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.keepNetwork(ctx)
	}()
	d.undo = append(d.undo, network.Close, func() error { stop(); <-done; return nil })
	return nil
}

// refreshEvery is how often the host's addresses and name servers are looked at
// for programs that run already.
const refreshEvery = 5 * time.Minute

func (d *daemon) keepNetwork(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := d.network.Refresh(); err != nil {
				d.log.Error("cannot keep the network policy true", "error", err)
			}
		}
	}
}
