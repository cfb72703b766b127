package systemd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"text/template"
)

// The units of berth install.
const (
	DaemonUnit = "berth.service"
	AppsUnit   = "berth-apps.service"
	SocketUnit = "berth.socket"
)

// VendorDir is where packages put their units (systemd.unit(5)).
const VendorDir = "/usr/lib/systemd/system"

// UnitFacts is what the units say of one host.
type UnitFacts struct {
	Berth   string // the binary
	DataDir string
	State   bool   // the data directory is systemd's to make: /var/lib/berth
	Home    string // ProtectHome=
	Listen  string // ListenStream=
}

// unitTexts are templates of the units, by name. Programs are born of the
// daemon: its mounts, capabilities, filters of system calls and limits are
// theirs, so nothing may be here that a program could miss. docs/systemd.md
// says of each line, and of those that are not here, why.
var unitTexts = map[string]string{
	AppsUnit: `[Unit]
Description=Programs hosted by berth

[Service]
# The home of the programs' control groups, and the life of every program: to
# stop this unit is to end them all. It is active with or without a process, so
# nothing that dies in it ends the rest.
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'sleep infinity &'
Delegate=yes
OOMPolicy=continue
OOMScoreAdjust=-1000
KillMode=control-group
TimeoutStopSec=30s
TasksMax=infinity
# What follows is for the shell above alone; programs are no children of it.
CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateNetwork=yes
RestrictAddressFamilies=none
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
`,
	SocketUnit: `[Unit]
Description=Socket of berth's API
# Who ends all programs does not want the next request to start them again.
PartOf=berth-apps.service

[Socket]
# Requests that come while the daemon is restarted wait here.
ListenStream={{.Listen}}
FileDescriptorName=api
Backlog=4096
FreeBind=yes

[Install]
WantedBy=sockets.target
`,
	DaemonUnit: `[Unit]
Description=Application host berth
Requires=berth-apps.service berth.socket
After=berth-apps.service berth.socket network-online.target
Wants=network-online.target
# However often it failed: a full disk is made room on some day.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={{.Berth}} serve
ExecReload=/bin/kill -HUP $MAINPID
# A bad setting waits for a person, not for the next request on the socket.
ExecStopPost=/bin/sh -c 'if [ "$$EXIT_STATUS" = 78 ]; then exec systemctl --no-block stop berth.socket; fi'
Restart=on-failure
RestartSec=2s
RestartPreventExitStatus=78
WatchdogSec=60s
TimeoutStartSec=10min
TimeoutStopSec=60s
KillMode=mixed
Environment=` + HolderEnv + "=" + AppsHolder + ` FDSTORE=8192 ` + UnitEnv + `=
FileDescriptorStoreMax=8192
OOMPolicy=continue
OOMScoreAdjust=-500
LimitNOFILE=1024:524288
TasksMax=infinity
# Of the local socket, which waits over a restart as the programs' pipes do.
RuntimeDirectory=berth
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=restart
{{- if .State}}
StateDirectory=berth
StateDirectoryMode=0711
{{- else}}
ReadWritePaths={{.DataDir}}
{{- end}}
# What berth setup and the panel write.
ReadWritePaths=-/etc/berth/berth.d
ProtectSystem=strict
ProtectHome={{.Home}}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
NoNewPrivileges=yes
RestrictRealtime=yes
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap
SystemCallErrorNumber=EPERM
CapabilityBoundingSet=~CAP_AUDIT_CONTROL CAP_AUDIT_READ CAP_AUDIT_WRITE CAP_BLOCK_SUSPEND CAP_LEASE CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_SYS_BOOT CAP_SYS_PACCT CAP_SYS_TTY_CONFIG CAP_WAKE_ALARM

[Install]
WantedBy=multi-user.target
Also=berth.socket
`,
}

// Units is that in which they are written.
var Units = []string{AppsUnit, SocketUnit, DaemonUnit}

// Unit is the text of a unit on this host, with a first line by which wrote
// knows it again.
func Unit(name string, f UnitFacts) (string, error) {
	var b strings.Builder
	if err := template.Must(template.New(name).Parse(unitTexts[name])).Execute(&b, f); err != nil {
		return "", fmt.Errorf("cannot write %s: %w", name, err)
	}
	// A daemon knows by it whether it was started under this text.
	text := strings.Replace(b.String(), " "+UnitEnv+"=\n", " "+UnitEnv+"="+sumOf(b.String())+"\n", 1)
	return Marked(text), nil
}

// DropIn is what a unit of a package needs besides on this host: the package's unit says
// of, and the host is as f says. It is "" where the unit fits.
func DropIn(name string, f, of UnitFacts) string {
	var lines []string
	add := func(section, line string) {
		if len(lines) == 0 {
			lines = []string{section}
		}
		lines = append(lines, line)
	}
	switch name {
	case SocketUnit:
		if f.Listen != of.Listen {
			add("[Socket]", "ListenStream=\nListenStream="+f.Listen) // the first forgets the unit's
		}
	case DaemonUnit:
		if f.DataDir != of.DataDir {
			add("[Service]", "StateDirectory=\nReadWritePaths="+f.DataDir)
		}
		if f.Home != of.Home {
			add("[Service]", "ProtectHome="+f.Home)
		}
	}
	if lines == nil {
		return ""
	}
	return Marked(strings.Join(lines, "\n") + "\n")
}

// Marked is a text with the line before it by which wrote knows it again.
func Marked(text string) string { return unitMark + sumOf(text) + "\n" + text }

const unitMark = "# Written by berth install. Put changes into a drop-in: systemctl edit UNIT. Sum: "

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Wrote reports whether a unit is as a berth install, of any version, wrote it.
func Wrote(text string) bool {
	first, rest, _ := strings.Cut(text, "\n")
	sum, marked := strings.CutPrefix(first, unitMark)
	return marked && sum == sumOf(rest)
}

// What the units of berth install and the daemon know of each other.
const (
	// HolderEnv names the group of the unit that holds the programs.
	HolderEnv  = "BERTH_HOLDER"
	AppsHolder = "/system.slice/" + AppsUnit
	// UnitEnv is the sum of the text of the daemon's unit, in its own environment.
	UnitEnv = "BERTH_UNIT"
	// APISocket is what the socket unit calls the API's.
	APISocket = "api"
	// LocalSocket is the name by which the manager keeps the local socket over a restart.
	LocalSocket = "local"
	// SitesSocket begins the names by which it keeps those of the sites.
	SitesSocket = "sites/"
)
