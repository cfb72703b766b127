package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/files"
	"berth/systemd"
)

// unitDir is where the owner's units are (systemd.unit(5)).
const unitDir = "/etc/systemd/system"

// managedDir holds settings that berth writes itself. The daemon's unit names it, and it must be
// there when the daemon starts.
var managedDir = filepath.Dir(settings.ManagedFile(settings.DefaultFile))

// installer makes berth a service of a machine, or undoes that. Every step may
// be repeated; those that change nothing say so.
type installer struct {
	ctx    context.Context // of the one command that it is
	out    io.Writer
	root   string // before every path; "" for this machine
	exe    string // the binary that runs
	prefix string
	dry    bool
	force  bool
	now    bool
	terse  bool // says nothing of what stays

	changed map[string]bool // the files that were written
}

// install is the command.
func install(c *caller) *cobra.Command {
	cmd := command.New("install [--now] [--dry-run] [--force] [--prefix DIR] [--root DIR] [--data-dir DIR] [--listen HOST:PORT]", "install berth as a systemd service", 0, 0)
	set := cmd.Flags()
	i := &installer{out: c.Stdout, exe: "/proc/self/exe", changed: map[string]bool{}}
	command.AddToggle(set, &i.now, "now", "start the service, or restart it if something changed; programs run on")
	command.AddToggle(set, &i.dry, "dry-run", "print what berth would write and call, and change nothing")
	command.AddToggle(set, &i.force, "force", "replace units even if you changed them")
	set.StringVar(&i.prefix, "prefix", "/usr/local", "`DIR` below which berth installs its binary, as bin/berth")
	set.StringVar(&i.root, "root", "", "write below `DIR` and call no systemctl, to build a package; with --prefix /usr only what belongs into one")
	from := settings.AddFlags(set, "data_dir", "listen")
	set.Lookup("config").Usage = "refused: the service always reads the default `FILE`"
	command.Directories(cmd, "prefix", "root", "data-dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		i.ctx = cmd.Context()
		if from.Named() {
			return exit.Misused("the service reads %s; --config is of no use", settings.DefaultFile)
		}
		if !filepath.IsAbs(i.prefix) || i.root != "" && !filepath.IsAbs(i.root) {
			return exit.Misused("--prefix and --root need an absolute path")
		}
		if i.root != "" && i.now {
			return exit.Misused("--now and --root exclude each other: nothing is called below --root")
		}
		i.prefix = filepath.Clean(i.prefix)
		building := i.root != "" && i.prefix == packagePrefix
		if i.prefix == packagePrefix && !building {
			return exit.Misused("--prefix /usr is for packages, and needs --root: install below /usr/local, or the package")
		}
		packaged := !building && i.packaged()
		if packaged && set.Changed("prefix") {
			return exit.Misused("berth is installed as a package, in /usr/bin: --prefix is of no use")
		}
		from.Fallback = i.root + settings.DefaultFile
		s, err := from.Load(func(string) string { return "" }) // the service will not have this environment
		if err != nil {
			return err
		}
		if err := i.may("install", packaged); err != nil {
			return err
		}
		if err := i.agrees(from); err != nil {
			return err
		}
		switch {
		case building:
			return i.pack(s)
		case packaged:
			return i.adapt(s, from)
		}
		return i.install(s, from)
	}
	return cmd
}

// may refuses where there is nothing to install into. A package may be installed into the
// root directory of a machine that does not run yet.
func (i *installer) may(what string, packaged bool) error {
	if i.root != "" || i.dry {
		return nil
	}
	if os.Geteuid() != 0 {
		return exit.NewProblem(exit.Permission, fmt.Errorf("cannot %s: only root may change the services of this machine", what), "Hint: sudo berth "+what)
	}
	if !packaged && !booted() {
		return exit.NewProblem(exit.Failure, fmt.Errorf("cannot %s: this machine does not run systemd", what), "Hint: let its own service manager run berth serve as root.")
	}
	return nil
}

// booted is sd_booted(3).
func booted() bool { return !missing("/run/systemd/system") }

// agrees refuses flags that the settings file contradicts: the service has no
// flags, so they would be forgotten.
func (i *installer) agrees(from *settings.Flags) error {
	path := i.root + settings.DefaultFile
	if missing(path) {
		return nil
	}
	return from.Contradicts(path)
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func (i *installer) install(s settings.Settings, from *settings.Flags) error {
	binary := i.prefix + "/bin/berth"
	facts, err := newUnitFacts(s, binary)
	if err != nil {
		return &exit.Problem{Code: exit.Config, Err: err}
	}
	if err := i.unused(s.DataDir); err != nil {
		return err
	}
	texts := map[string]string{}
	for _, name := range systemd.Units {
		if texts[name], err = systemd.Unit(name, facts); err != nil {
			return err
		}
		if err := i.untouched(name, texts[name]); err != nil {
			return err
		}
	}
	if err := i.copyBinary(binary); err != nil {
		return err
	}
	if err := i.makeSettings(from); err != nil {
		return err
	}
	if err := i.makeData(s.DataDir); err != nil {
		return err
	}
	for _, name := range systemd.Units {
		if err := i.write(unitDir+"/"+name, texts[name]); err != nil {
			return err
		}
	}
	if i.root != "" {
		return nil
	}
	return i.activate(s, binary)
}

// activate lets systemd know the units.
func (i *installer) activate(s settings.Settings, binary string) error {
	if err := i.systemctl("daemon-reload"); err != nil {
		return err
	}
	if err := i.systemctl("enable", "--quiet", systemd.DaemonUnit, systemd.SocketUnit); err != nil {
		return err
	}
	serves := i.active(systemd.DaemonUnit)
	switch {
	case !i.now && serves:
		i.printf("The service runs as it was until: systemctl restart berth (programs run on)")
	case !i.now:
		i.printf("Start it: systemctl start berth")
	case i.changed[unitDir+"/"+systemd.SocketUnit] && i.active(systemd.SocketUnit):
		if err := i.moveSocket(); err != nil {
			return err
		}
	case !serves:
		if err := i.systemctl("start", systemd.DaemonUnit); err != nil {
			return err
		}
	case len(i.changed) > 0:
		if err := i.follow(s, binary, unitDir+"/"+systemd.DaemonUnit); err != nil {
			return err
		}
	}
	if i.changed[unitDir+"/"+systemd.AppsUnit] && serves {
		i.printf("A change of %s takes effect with: systemctl restart berth-apps (programs start anew)", systemd.AppsUnit)
	}
	i.next(binary)
	return nil
}

// next is what the owner does after an installation.
func (i *installer) next(binary string) {
	i.printf("See how it is: systemctl status berth; berth doctor. Next, the first account and the panel: %s setup", binary)
}

// moveSocket starts the daemon at another address: a socket cannot be replaced under a daemon
// that has it. It is one call, so that systemd keeps what it keeps over a restart: the sites'
// sockets, in which visitors wait.
func (i *installer) moveSocket() error {
	return i.systemctl("restart", systemd.SocketUnit, systemd.DaemonUnit)
}

// unused refuses a data directory from which a daemon serves that somebody
// started by hand: the service could not.
func (i *installer) unused(dir string) error {
	if i.root != "" || i.dry || i.active(systemd.DaemonUnit) || missing(filepath.Join(dir, "lock")) {
		return nil
	}
	lock, err := files.Lock(dir)
	if err != nil {
		return exit.NewProblem(exit.Failure, fmt.Errorf("cannot install: %w, and it is not the service", err), "Hint: stop the one that was started by hand; its programs start again with the service.")
	}
	return lock.Close()
}

// untouched refuses to replace a unit that somebody changed.
func (i *installer) untouched(name, text string) error {
	path := unitDir + "/" + name
	is, err := os.ReadFile(i.root + path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot read the unit: %w", err)
	case systemd.Wrote(string(is)) || string(is) == text || i.force:
		return nil
	}
	return exit.NewProblem(exit.Failure, fmt.Errorf("cannot replace %s: it was changed by hand", path), "Hint: put the changes into a drop-in (systemctl edit "+name+") and use --force.")
}

// copyBinary puts the binary that runs where the unit expects it. One that is
// running from there keeps its old file.
func (i *installer) copyBinary(to string) error {
	content, err := os.ReadFile(i.exe)
	if err != nil {
		return fmt.Errorf("cannot copy berth: %w", err)
	}
	if is, err := os.ReadFile(i.root + to); err == nil && bytes.Equal(is, content) {
		i.step("keep", to)
		return nil
	}
	return i.replace(to, content, 0o755)
}

// write writes a file of text, unless it is so already.
func (i *installer) write(path, text string) error {
	if is, err := os.ReadFile(i.root + path); err == nil && string(is) == text {
		i.step("keep", path)
		return nil
	}
	if err := i.replace(path, []byte(text), 0o644); err != nil || !i.dry {
		return err
	}
	i.printf("%s", "    "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    "))
	return nil
}

// replace makes a file anew, all or nothing.
func (i *installer) replace(path string, content []byte, mode fs.FileMode) error {
	i.step("write", path)
	i.changed[path] = true
	if i.dry {
		return nil
	}
	path = i.root + path
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot install: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".berth-*")
	if err != nil {
		return fmt.Errorf("cannot install: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }() // fails once it has its name
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot install: %w", err)
	}
	return nil
}

// makeSettings makes the settings file, and the directory of what berth setup and the panel
// write.
func (i *installer) makeSettings(from *settings.Flags) error {
	if missing(i.root + settings.DefaultFile) {
		if err := i.write(settings.DefaultFile, from.NewFile()); err != nil {
			return err
		}
	} else {
		i.step("keep", settings.DefaultFile)
	}
	if i.dry {
		return nil
	}
	if err := os.MkdirAll(i.root+managedDir, 0o755); err != nil {
		return fmt.Errorf("cannot install: %w", err)
	}
	return nil
}

// makeData makes the data directory with its database, so that accounts can be made
// before the first start. A package brings none, or two hosts would have the same.
func (i *installer) makeData(dir string) error {
	if !missing(i.root + dir) {
		i.step("keep", dir)
		return nil
	}
	i.step("make", dir)
	if i.dry {
		return nil
	}
	if i.root != "" {
		return daemon.MakeDataDir(i.root + dir)
	}
	d, err := daemon.MakeDatabase(i.ctx, dir)
	if err != nil {
		return err
	}
	return d.Close()
}

// step prints what is done to a file, printf a line.
func (i *installer) step(verb, what string) {
	if verb == "keep" && i.terse {
		return
	}
	i.printf("%-6s%s", verb, i.root+what)
}

func (i *installer) printf(format string, args ...any) {
	fmt.Fprintln(i.out, screen.Escape(fmt.Sprintf(format, args...), false))
}

// systemctl calls it, and says so.
func (i *installer) systemctl(args ...string) error {
	i.printf("call  systemctl %s", strings.Join(args, " "))
	if i.dry {
		return nil
	}
	return systemctl(i.ctx, args...)
}

// active reports whether a unit is, as far as systemd answers.
func (i *installer) active(unit string) bool {
	return i.root == "" && i.try("--quiet", "is-active", unit) == nil
}

// try calls systemctl for its exit status.
func (i *installer) try(args ...string) error {
	return exec.CommandContext(i.ctx, "systemctl", args...).Run()
}

// newUnitFacts says of the settings what units need, or why units cannot.
func newUnitFacts(s settings.Settings, binary string) (systemd.UnitFacts, error) {
	f := systemd.UnitFacts{Berth: binary, DataDir: s.DataDir, State: s.DataDir == "/var/lib/berth", Home: "yes"}
	var err error
	if f.Listen, err = listenStream(s.Listen); err != nil {
		return f, err
	}
	for _, path := range []string{binary, s.DataDir} {
		// A unit would need quotes and escapes for these, differently in each line.
		if strings.ContainsAny(path, " \t\n\"'\\%$:;") {
			return f, fmt.Errorf("cannot install: a unit cannot name %q: give it a path of letters, digits and -_./", path)
		}
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if within(s.DataDir, dir) {
			return f, fmt.Errorf("cannot install: the data directory %s is below %s, which is emptied, and which the service has for its own", s.DataDir, dir)
		}
	}
	for _, dir := range append(strings.Split(s.Sandbox.Paths, ","), s.DataDir, binary) {
		for _, home := range []string{"/home", "/root", "/run/user"} {
			if within(strings.TrimSpace(dir), home) {
				f.Home = "read-only"
			}
		}
	}
	return f, nil
}

// within reports whether path is dir or below it. Both are clean.
func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// listenStream is the setting listen as ListenStream= has it.
func listenStream(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot install: listen is %q: %w", listen, err)
	case port == "0":
		return "", fmt.Errorf("cannot install: listen is %q: a socket unit needs a port", listen)
	case host == "":
		return port, nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return "", fmt.Errorf("cannot install: listen is %q: a socket unit needs an IP address, not a name", listen)
	}
	return net.JoinHostPort(host, port), nil
}

// uninstall is the command. What the owner or the applications made stays.
func uninstall(c *caller) *cobra.Command {
	cmd := command.New("uninstall [--dry-run] [--force]", "stop all programs, remove the service and the binary, and keep the data", 0, 0)
	i := &installer{out: c.Stdout, changed: map[string]bool{}}
	command.AddToggle(cmd.Flags(), &i.dry, "dry-run", "print what berth would remove and call, and change nothing")
	command.AddToggle(cmd.Flags(), &i.force, "force", "remove units even if you changed them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		i.ctx = cmd.Context()
		if err := i.may("uninstall", false); err != nil {
			return err
		}
		dataDir := "the data directory"
		if s, err := settings.Load(func(string) string { return "" }); err == nil { // a broken file stays
			dataDir = s.DataDir
		}
		return i.uninstall(dataDir)
	}
	return cmd
}

func (i *installer) uninstall(dataDir string) error {
	if i.packaged() {
		return exit.NewProblem(exit.Failure, errors.New("cannot uninstall: berth is installed as a package"), "Hint: apt remove berth")
	}
	there := i.installed()
	if len(there) == 0 {
		i.printf("The service is not installed.")
		return nil
	}
	for _, name := range there {
		if err := i.untouched(name, ""); err != nil {
			return err
		}
	}
	binary := i.binary()
	// One call: the daemon learns that the programs are to end, ends them itself
	// and has their last words.
	if err := i.systemctl(append([]string{"disable", "--now", "--quiet"}, there...)...); err != nil {
		return err
	}
	for _, name := range there {
		if err := i.remove(unitDir + "/" + name); err != nil {
			return err
		}
	}
	if err := i.removeBinary(binary); err != nil {
		return err
	}
	if err := i.systemctl("daemon-reload"); err != nil {
		return err
	}
	dropIns, _ := filepath.Glob(i.root + unitDir + "/berth*.d") // the pattern is well-formed
	kept := append([]string{dataDir, i.root + settings.DefaultFile}, dropIns...)
	i.printf("Kept: %s. What the applications are is in %s; to remove everything for good:", strings.Join(kept, ", "), dataDir)
	i.printf("  rm -rf %s %s", strings.Join(append([]string{dataDir, i.root + filepath.Dir(settings.DefaultFile)}, dropIns...), " "),
		"# there is no way back")
	return nil
}

// installed are the units that are there, the daemon's first.
func (i *installer) installed() (names []string) {
	for n := len(systemd.Units) - 1; n >= 0; n-- {
		if !missing(i.root + unitDir + "/" + systemd.Units[n]) {
			names = append(names, systemd.Units[n])
		}
	}
	return names
}

// binary is what the unit starts, if berth install put it there.
func (i *installer) binary() string { return started(i.root + unitDir + "/" + systemd.DaemonUnit) }

// started is the berth that a unit starts, "" if it starts none or is not there.
func started(unit string) string {
	text, err := os.ReadFile(unit)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if start, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); ok {
			path, _, _ := strings.Cut(start, " ")
			if filepath.Base(path) == "berth" && filepath.IsAbs(path) {
				return path
			}
		}
	}
	return ""
}

// removeBinary removes what berth install has put there, and what berth upgrade keeps beside it.
func (i *installer) removeBinary(binary string) error {
	for _, path := range []string{binary, binary + ".old"} {
		if binary == "" || missing(i.root+path) {
			continue
		}
		if err := i.remove(path); err != nil {
			return err
		}
	}
	return nil
}

func (i *installer) remove(path string) error {
	i.printf("remove %s", i.root+path)
	if i.dry {
		return nil
	}
	if err := os.Remove(i.root + path); err != nil {
		return fmt.Errorf("cannot uninstall: %w", err)
	}
	return nil
}
