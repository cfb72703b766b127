package main

import (
	"context"
	"net/http"
)

var packets = measure{
	name: "packets", title: "Cost of counting a packet",
	method: `A program sends itself 1,000,000 datagrams of 64 bytes over loopback and receives each
	before it sends the next. It runs as an application of berth, where bytes are counted for netIO
	if the host gives what that needs, and started directly by the measuring program, outside any group
	of berth's; the difference of the medians is what sending and receiving one datagram costs more.
	Three times each, in turns. The reference also shows what berth counted, as its status tells it.`,
	run: measurePackets,
}

const datagrams = 1_000_000

func measurePackets(ctx context.Context, b *bench) ([]row, error) {
	var counted, bare sample
	var io string
	for range 3 {
		err := b.with(ctx, "berth", plan{program: "send", count: 1}, func(m manager) error {
			d := m.(*berth)
			took, err := pass(ctx, d.dirs[0])
			if err != nil {
				return err
			}
			counted = append(counted, took.Seconds()*1e9/datagrams)
			io, err = d.netIO(ctx, appOf(d.dirs[0]))
			return err
		})
		if err != nil {
			return nil, err
		}
		seconds, err := b.sendDirectly(ctx)
		if err != nil {
			return nil, err
		}
		bare = append(bare, seconds*1e9/datagrams)
	}
	return []row{
		{what: "a datagram sent and received", berth: counted.in("ns"), reference: "started directly: " + bare.in("ns")},
		{what: "of it ours", berth: sample{counted.median() - bare.median()}.in("ns"), reference: io},
	}, nil
}

// netIO is what an application's status says of its network.
func (d *berth) netIO(ctx context.Context, id string) (string, error) {
	var answer struct {
		Apps struct {
			NetIO struct{ Down, Up string }
		}
	}
	err := d.ask(ctx, http.MethodGet, "/v2/app/"+id+"/status", &answer)
	n := answer.Apps.NetIO
	return "netIO after 64 MB of data each way: down " + n.Down + ", up " + n.Up, err
}

func (b *bench) sendDirectly(ctx context.Context) (seconds float64, err error) {
	err = b.within(func(dir string) (err error) {
		seconds, err = b.direct(ctx, dir, "send", nil)
		return err
	})
	return seconds, err
}
