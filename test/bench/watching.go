package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

var watching = measure{
	name: "watch", title: "History and watchers",
	method: `A daemon with 200 programs that wait, 65 s after the last was started. Its processor time and
	what it gives to the disk (write_bytes of /proc/PID/io, which counts pages) over four minutes, times
	fifteen: in these it measures every program once a minute and appends that to its history; once an
	hour it also writes two or three pages for each program, which are not in the figure. Then its
	processor time over 60 s with no stream of GET /v2/events open, and with 20: for states alone, for the
	figures of one application, for those of all, which it then measures every two seconds, and for the
	lines of one that prints nothing. At last with 100 streams, each for the lines of another program that
	prints nothing, of four further accounts.`,
	run: measureWatching,
}

const (
	watchedPrograms = 200
	lookedFor       = 4 * time.Minute
	watchers        = 20
)

func measureWatching(ctx context.Context, b *bench) (rows []row, err error) {
	m, err := b.open(ctx, "berth", plan{program: "idle", count: watchedPrograms, restart: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut(ctx, m)) }()
	d, pid := m.(*berth), m.programs().pid
	if err := pause(ctx, calm); err != nil {
		return nil, err
	}
	hours := float64(time.Hour / lookedFor)
	written, err := writtenBy(pid)
	if err != nil {
		return nil, err
	}
	used, err := spent(ctx, pid, lookedFor)
	if err != nil {
		return nil, err
	}
	more, err := writtenBy(pid)
	if err != nil {
		return nil, err
	}
	rows = append(rows,
		row{what: "history of 200 programs: CPU an hour", berth: digits(used*hours) + " ms", aim: below(used*hours, 10_000, "ms")},
		row{what: "history of 200 programs: written an hour", berth: digits((more-written)*hours/1e6) + " MB"})
	first := appOf(m.programs().dirs[0])
	for _, w := range []struct{ what, query string }{
		{"nobody", ""},
		{"20 watchers of states", "?types=state,exit"},
		{"20 watchers of one application's figures", "?types=metric&app=" + first},
		{"20 watchers of all figures", "?types=metric"},
		{"20 followers of one quiet application's lines", "?types=log&tail=0&app=" + first},
	} {
		var streams []*http.Request
		for range min(watchers, watchers*len(w.query)) {
			r, err := d.request(ctx, http.MethodGet, "/v2/events"+w.query, nil)
			if err != nil {
				return rows, err
			}
			streams = append(streams, r)
		}
		used, err := watchedBy(ctx, streams, pid)
		if err != nil {
			return rows, err
		}
		rows = append(rows, row{what: w.what + ": CPU in 60 s", berth: digits(used) + " ms"})
	}
	streams, err := d.followers(ctx)
	if err != nil {
		return rows, err
	}
	used, err = watchedBy(ctx, streams, pid)
	return append(rows, row{what: "100 followers of quiet programs: CPU in 60 s", berth: digits(used) + " ms", aim: below(used, 600, "ms")}), err
}

// followers are streams for the lines of a hundred programs of four accounts, which it makes.
func (d *berth) followers(ctx context.Context) (streams []*http.Request, err error) {
	owner := d.token
	defer func() { d.token = owner }()
	for n := range 4 {
		name := fmt.Sprintf("follower%d", n)
		if _, err := d.berth(ctx, "account", "create", name, "--ram", "100000"); err != nil {
			return nil, err
		}
		token, err := d.berth(ctx, "token", "create", name)
		if err != nil {
			return nil, err
		}
		d.token = strings.TrimSpace(token)
		for range 25 {
			id, err := d.upload(ctx, bytes.NewReader(d.zip), int64(len(d.zip)))
			if err != nil {
				return nil, err
			}
			r, err := d.request(ctx, http.MethodGet, "/v2/events?types=log&tail=0&app="+id, nil)
			if err != nil {
				return nil, err
			}
			streams = append(streams, r)
		}
	}
	return streams, pause(ctx, calm)
}

// spent is the processor time in milliseconds that a process uses for so long.
func spent(ctx context.Context, pid int, long time.Duration) (float64, error) {
	before, err := cpuTime(pid)
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, long); err != nil {
		return 0, err
	}
	after, err := cpuTime(pid)
	return milliseconds(after - before), err
}

// writtenBy is how many bytes a process has given to disks.
func writtenBy(pid int) (float64, error) {
	text, err := read(pid, "io")
	if err != nil {
		return 0, err
	}
	return field(text, "write_bytes")
}

// watchedBy is spent while streams are open.
func watchedBy(ctx context.Context, streams []*http.Request, pid int) (used float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	for _, r := range streams {
		resp, err := web.Do(r.WithContext(ctx))
		if err != nil {
			return 0, err
		}
		if resp.StatusCode != http.StatusOK {
			return 0, errors.Join(fmt.Errorf("the stream is refused: %s", resp.Status), resp.Body.Close())
		}
		reading.Go(func() {
			defer func() { _ = resp.Body.Close() }()
			_, _ = io.Copy(io.Discard, resp.Body) // until it is cancelled
		})
	}
	if err := pause(ctx, 5*time.Second); err != nil { // what opening them costs
		return 0, err
	}
	return spent(ctx, pid, window)
}
