package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var web = measure{
	name: "proxy", title: "Sites through berth, nginx and Caddy",
	method: `Two sites run as applications of berth: a compiled one in Go and one in Node.js, which make 100
	bytes of JSON for each request. berth's proxy (mode behind), Debian's nginx and Debian's Caddy bring
	requests to the same two processes over kept connections, and send a file of 1 MB each from a directory
	of their own; none writes an access log. wrk asks over 32 kept connections (8 for the file) for three
	seconds, five times each, in turns, on the same processors as everything else. Ratios are of rounds next
	to each other. CPU is of the proxy's processes alone, for each request. The reference "direct" is the
	program without a proxy. "net/http alone" is Go's own server, on which berth's proxy stands, with a
	handler that does nothing but fetch the answer as one piece of text: the least that such a proxy
	can take. WebSockets: the resident memory of the proxy with 1,000 of them idle, less what
	it was before.`,
	run: measureWeb,
}

const (
	sitesDomain = "apps.example.org"
	webRounds   = 5
	webSeconds  = 3
	sockets     = 1000
)

// load is what one round of wrk found.
type load struct{ rate, p99, cpu sample }

func measureWeb(ctx context.Context, b *bench) (rows []row, err error) {
	flags := []string{"--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", sitesDomain, "--connections", "4096", "--proxy-per-site", "4096"}
	err = b.with(ctx, "berth", plan{flags: flags}, func(m manager) (err error) {
		fronts, ports, err := b.openFronts(ctx, m.(*berth))
		defer func() {
			for _, f := range fronts {
				err = errors.Join(err, f.server.end())
			}
		}()
		if err != nil {
			return err
		}
		for _, target := range []struct {
			what, host, path string
			connections      int
			aim              func(of func(peer string) float64) string
		}{
			{"a small answer of a compiled site", "compiled", "/", 32, dynamicAim},
			{"a small answer of a Node.js site", "scripted", "/", 32, dynamicAim},
			{"a file of 1 MB", "filed", "/file.bin", 8, func(of func(string) float64) string {
				return verdict(of("Caddy") >= 0.95, "level with Caddy")
			}},
		} {
			all := fronts
			if target.host == "filed" {
				all = all[:len(all)-1] // it has no files
			}
			if port := ports[target.host]; port > 0 {
				all = append(all[:len(all):len(all)], &front{name: "direct", address: "127.0.0.1:" + strconv.Itoa(port)})
			}
			loads, err := askInTurns(ctx, all, target.host, target.path, target.connections)
			if err != nil {
				return err
			}
			rows = append(rows, webRows(target.what, loads, target.aim)...)
		}
		memory, err := socketMemory(ctx, fronts[:len(fronts)-1])
		rows = append(rows, memory)
		return err
	})
	return rows, err
}

func dynamicAim(of func(string) float64) string {
	return verdict(of("nginx") >= 0.8 && of("Caddy") > 1, "0.8 of nginx, more than Caddy")
}

// askInTurns lets wrk ask all servers in turns.
func askInTurns(ctx context.Context, all []*front, host, path string, connections int) (map[string]*load, error) {
	loads := map[string]*load{}
	for round := range webRounds {
		for i := range all {
			f := all[(i+round)%len(all)] // no one always comes behind the same
			if loads[f.name] == nil {
				loads[f.name] = &load{}
			}
			if err := loads[f.name].add(ctx, f, host, path, connections); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return loads, nil
}

var (
	wrkRate  = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrkCount = regexp.MustCompile(`(\d+) requests in`)
	wrkP99   = regexp.MustCompile(`99%\s+([0-9.]+(?:us|ms|s|m))\s`)
)

// add asks one server.
func (l *load) add(ctx context.Context, f *front, host, path string, connections int) error {
	before, err := f.cpu()
	if err != nil {
		return err
	}
	text, err := command(ctx, "/", nil, "wrk", "-t1", "-c", strconv.Itoa(connections), "-d", strconv.Itoa(webSeconds)+"s", "--latency",
		"-H", "Host: "+host+"."+sitesDomain, "http://"+f.address+path)
	if err != nil {
		return err
	}
	after, err := f.cpu()
	rate, count, p99 := wrkRate.FindStringSubmatch(text), wrkCount.FindStringSubmatch(text), wrkP99.FindStringSubmatch(text)
	if err != nil || rate == nil || count == nil || p99 == nil || strings.Contains(text, "Non-2xx") || strings.Contains(text, "Socket errors") {
		return errors.Join(err, fmt.Errorf("wrk says: %s", text))
	}
	perSecond, err := strconv.ParseFloat(rate[1], 64)
	number, err2 := strconv.ParseFloat(count[1], 64)
	slow, err3 := time.ParseDuration(p99[1])
	l.rate, l.p99 = append(l.rate, perSecond), append(l.p99, milliseconds(slow))
	l.cpu = append(l.cpu, float64((after-before).Microseconds())/number)
	return errors.Join(err, err2, err3)
}

// webRows are the three of one target.
func webRows(what string, loads map[string]*load, aim func(func(string) float64) string) []row {
	own := loads["berth"]
	var rate, p99, cpu []string
	for _, name := range []string{"nginx", "Caddy", aloneFront, "direct"} {
		if l := loads[name]; l != nil {
			rate = append(rate, name+": "+l.rate.in("a second"))
			p99 = append(p99, name+": "+l.p99.in("ms"))
			if name != "direct" {
				cpu = append(cpu, name+": "+l.cpu.in("µs"))
			}
		}
	}
	of := func(peer string) float64 { return ratios(own.rate, loads[peer].rate).median() }
	return []row{
		{
			what: what, aim: aim(of), reference: strings.Join(rate, "; "),
			berth: fmt.Sprintf("%s of nginx, %s of Caddy; %s", digits(of("nginx")), digits(of("Caddy")), own.rate.in("a second")),
		},
		{what: "p99 of it", berth: own.p99.in("ms"), reference: strings.Join(p99, "; ")},
		{what: "CPU for each", berth: own.cpu.in("µs"), reference: strings.Join(cpu, "; ")},
	}
}

// socketMemory weighs idle WebSockets.
func socketMemory(ctx context.Context, fronts []*front) (row, error) {
	r := row{what: "1,000 idle WebSockets"}
	var others []string
	for _, f := range fronts {
		before, err := settle(ctx, f.memory)
		if err != nil {
			return r, err
		}
		end, err := converseIdly(ctx, f, sockets)
		if err != nil {
			return r, fmt.Errorf("%s: %w", f.name, err)
		}
		with, err := settle(ctx, f.memory)
		end()
		if err != nil {
			return r, err
		}
		text := sample{with - before}.in("MB")
		if f.name == "berth" {
			r.berth = text
		} else {
			others = append(others, f.name+": "+text)
		}
	}
	r.reference = strings.Join(others, "; ")
	return r, nil
}

// noise makes the file that is sent.
func noise(dir string) ([]byte, error) {
	text := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(text) // never fails
	return text, os.WriteFile(filepath.Join(dir, "file.bin"), text, 0o644)
}
