package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine is what the figures were measured on and with.
type machine struct {
	cores    int
	ram      float64 // GB
	kernel   string
	groups   string
	versions []string
}

// String describes the machine without a name of it.
func (m machine) String() string {
	return fmt.Sprintf("%d processors, %s GB of RAM, Linux %s, %s control groups", m.cores, digits(m.ram), m.kernel, m.groups)
}

// examine reads what the page tells of the machine.
func examine(ctx context.Context, berth string) (machine, error) {
	m := machine{cores: runtime.NumCPU()}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, err
	}
	kb, err := field(string(memory), "MemTotal")
	if err != nil {
		return m, err
	}
	m.ram = kb / (1 << 20)
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, err
	}
	m.kernel, _, _ = strings.Cut(strings.TrimSpace(string(release)), "-") // what follows names a build
	// It ends with status 1 when something is missing that programs here need not.
	findings, _ := command(ctx, "", nil, berth, "doctor", "--json")
	m.groups = groupsOf(findings)
	for _, v := range []struct {
		name string
		args []string
	}{
		{"", []string{berth, "version"}},
		{"PM2", []string{"pm2", "--version", "--silent"}},
		{"supervisord", []string{"supervisord", "--version"}},
		{"", []string{"sh", "-c", "nginx -v 2>&1 | sed 's/.*: //'"}},
		{"Caddy", []string{"caddy", "version"}},
		{"Node.js", []string{"node", "--version"}},
		{"", []string{"/usr/bin/python3", "--version"}},
	} {
		text, err := command(ctx, "", nil, v.args...)
		if err != nil {
			return m, err
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		m.versions = append(m.versions, strings.TrimSpace(v.name+" "+lines[len(lines)-1]))
	}
	return m, nil
}

// groupsOf finds how the host has its control groups in what doctor prints.
func groupsOf(findings string) string {
	var all []struct{ Name, Text string }
	if json.Unmarshal([]byte(findings), &all) == nil {
		for _, f := range all {
			if mode, _, ok := strings.Cut(f.Text, ":"); ok && f.Name == "cgroups" {
				return mode
			}
		}
	}
	return "unknown"
}
