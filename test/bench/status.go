package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

var status = measure{
	name: "status", title: "Status of 100 programs",
	method: `Four connections that are kept alive ask for the status of 100 running programs as fast
	as the answers come, for ten seconds; the latency is from the request to the last byte. Each answer
	is checked to hold 100 programs. Who asks is another process on the same processors and shares them.
	berth is asked by GET /v2/app/all/status, supervisord by its XML-RPC call getAllProcessInfo over a
	Unix socket, PM2, which has no such interface, by its command "pm2 jlist", one after the other.`,
	run: measureStatus,
}

const (
	asked       = 100
	connections = 4
	askingFor   = 10 * time.Second
)

func measureStatus(ctx context.Context, b *bench) ([]row, error) {
	rate, latency := row{what: "status of 100 programs"}, row{what: "its latency, p50 and p99"}
	err := b.withAll(ctx, plan{program: "idle", count: asked, restart: true}, func(all map[string]manager) error {
		d, s := all["berth"].(*berth), all["supervisord"].(*supervisord)
		own, err := ask(ctx, d.web, []byte(`"container":"Online"`), func() (*http.Request, error) {
			return d.request(ctx, http.MethodGet, "/v2/app/all/status", nil)
		})
		if err != nil {
			return fmt.Errorf("berth: %w", err)
		}
		theirs, err := s.askAll(ctx)
		if err != nil {
			return fmt.Errorf("supervisord: %w", err)
		}
		listed, err := all["PM2"].(*pm2).list(ctx)
		if err != nil {
			return fmt.Errorf("PM2: %w", err)
		}
		perSecond := func(n int) float64 { return float64(n) / askingFor.Seconds() }
		rate.berth = digits(perSecond(len(own))) + " a second"
		rate.aim = verdict(perSecond(len(own)) >= 2000, "2000 a second")
		rate.supervisord = digits(perSecond(len(theirs))) + " a second"
		rate.pm2 = digits(1000/listed.median()) + " a second"
		latency.berth, latency.aim = quantiles(own), below(own.percentile(99), 10, "ms")
		latency.supervisord, latency.pm2 = quantiles(theirs), listed.in("ms")
		return nil
	})
	return []row{rate, latency}, err
}

func quantiles(s sample) string {
	return digits(s.percentile(50)) + " and " + digits(s.percentile(99)) + " ms"
}

// ask sends requests on several connections, each when the answer before has
// come, and returns the latencies in milliseconds. Each answer must hold the
// mark once for each program.
func ask(ctx context.Context, web *http.Client, mark []byte, request func() (*http.Request, error)) (sample, error) {
	end := time.Now().Add(askingFor)
	results := make([]sample, connections)
	g := errgroup.Group{}
	for i := range results {
		g.Go(func() error {
			var body bytes.Buffer
			for time.Now().Before(end) && ctx.Err() == nil {
				began := time.Now()
				if err := askOnce(web, request, &body); err != nil {
					return err
				}
				results[i] = append(results[i], milliseconds(time.Since(began)))
				if n := bytes.Count(body.Bytes(), mark); n != asked {
					return fmt.Errorf("an answer holds %d programs: %s", n, tail(body.String()))
				}
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	var all sample
	for _, r := range results {
		all = append(all, r...)
	}
	return all, err
}

func askOnce(web *http.Client, request func() (*http.Request, error), body *bytes.Buffer) error {
	r, err := request()
	if err != nil {
		return err
	}
	resp, err := web.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body.Reset()
	if _, err := io.Copy(body, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, tail(body.String()))
	}
	return nil
}

// askAll asks supervisord as ask does.
func (s *supervisord) askAll(ctx context.Context) (sample, error) {
	transport := &http.Transport{
		MaxIdleConnsPerHost: connections,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", s.socket())
		},
	}
	defer transport.CloseIdleConnections()
	const call = `<?xml version="1.0"?><methodCall><methodName>supervisor.getAllProcessInfo</methodName><params/></methodCall>`
	return ask(ctx, &http.Client{Transport: transport}, []byte("<name>statename</name>"), func() (*http.Request, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://supervisor/RPC2", strings.NewReader(call))
		if err == nil {
			r.Header.Set("Content-Type", "text/xml")
		}
		return r, err
	})
}

// list returns how many milliseconds PM2's command takes, five times.
func (m *pm2) list(ctx context.Context) (sample, error) {
	var times sample
	for range 5 {
		began := time.Now()
		text, err := m.pm2(ctx, "jlist")
		if err != nil {
			return nil, err
		}
		times = append(times, milliseconds(time.Since(began)))
		if n := strings.Count(text, `"pm2_env":`); n != asked {
			return nil, fmt.Errorf("an answer holds %d programs", n)
		}
	}
	return times, nil
}
