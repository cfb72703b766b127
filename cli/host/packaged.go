package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"berth/app/build"
	"berth/app/exit"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/systemd"
)

// A package brings the binary and the units, which are the same on every host. The rest of
// an installation is the host's: install makes it there, and the package calls install.
const (
	packagePrefix = "/usr"
	packageBinary = packagePrefix + "/bin/berth"
	// dropIn is what install writes beside a unit of a package.
	dropIn = "10-berth-install.conf"
)

// packaged reports whether the units of a package are there.
func (i *installer) packaged() bool {
	return !missing(i.root + systemd.VendorDir + "/" + systemd.DaemonUnit)
}

// pack writes what belongs into a package: no settings, which are the host's, and no data,
// or two hosts would have the same.
func (i *installer) pack(s settings.Settings) error {
	facts, err := newUnitFacts(s, packageBinary)
	if err != nil {
		return &exit.Problem{Code: exit.Config, Err: err}
	}
	if err := i.copyBinary(packageBinary); err != nil {
		return err
	}
	for _, name := range systemd.Units {
		text, err := systemd.Unit(name, facts)
		if err != nil {
			return err
		}
		if err := i.write(systemd.VendorDir+"/"+name, text); err != nil {
			return err
		}
	}
	return nil
}

// adapt installs on a host that has the package: it keeps binary and units, and writes
// drop-ins for what is different here. What an earlier install wrote, it replaces.
func (i *installer) adapt(s settings.Settings, from *settings.Flags) error {
	i.terse = true
	if i.root == "" && !sameFile(i.exe, packageBinary) {
		i.printf("keep  %s: it is the package's, and apt upgrades it", packageBinary)
	}
	texts, err := i.dropIns(s)
	if err != nil {
		return err
	}
	if err := i.unused(s.DataDir); err != nil {
		return err
	}
	if i.now { // before anything changes
		if _, err := daemon.Check(i.ctx, s); err != nil {
			return err
		}
	}
	if err := i.makeSettings(from); err != nil {
		return err
	}
	if i.root == "" && booted() { // an image of many hosts brings no data
		if err := i.makeData(s.DataDir); err != nil {
			return err
		}
	}
	for _, name := range systemd.Units {
		if err := i.keepTo(unitDir+"/"+name+".d/"+dropIn, texts[name]); err != nil {
			return err
		}
	}
	if err := i.supersede(); err != nil {
		return err
	}
	if i.root != "" || !booted() {
		return nil
	}
	return i.activatePackage(s)
}

// sameFile reports whether two paths lead to one file.
func sameFile(one, other string) bool {
	a, err := os.Stat(one)
	b, missing := os.Stat(other)
	return err == nil && missing == nil && os.SameFile(a, b)
}

// dropIns are the texts that this host needs beside the units of the package, by unit; "" for none.
func (i *installer) dropIns(s settings.Settings) (map[string]string, error) {
	facts, err := newUnitFacts(s, packageBinary)
	if err != nil {
		return nil, &exit.Problem{Code: exit.Config, Err: err}
	}
	defaults, err := settings.Default()
	if err != nil {
		return nil, err
	}
	of, err := newUnitFacts(defaults, packageBinary)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, name := range systemd.Units {
		texts[name] = systemd.DropIn(name, facts, of)
		path := unitDir + "/" + name + ".d/" + dropIn
		is, err := os.ReadFile(i.root + path)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("cannot read the drop-in: %w", err)
		case err == nil && !systemd.Wrote(string(is)) && string(is) != texts[name] && !i.force:
			return nil, exit.NewProblem(exit.Failure, fmt.Errorf("cannot replace %s: it was changed by hand", path),
				"Hint: put the changes into a drop-in of another name (systemctl edit "+name+") and use --force.")
		}
	}
	return texts, nil
}

// keepTo makes a file of install say this, or removes it for "".
func (i *installer) keepTo(path, text string) error {
	if text != "" {
		return i.write(path, text)
	}
	if missing(i.root + path) {
		return nil
	}
	i.changed[path] = true
	return i.remove(path)
}

// supersede removes what berth install had made before the package came: units in
// unitDir stand before those of the package. A unit that was changed by hand stays, and
// with it the binary that it starts.
func (i *installer) supersede() error {
	binary := i.binary()
	for _, name := range systemd.Units {
		path := unitDir + "/" + name
		is, err := os.ReadFile(i.root + path)
		switch info, errs := os.Lstat(i.root + path); {
		case errors.Is(errs, fs.ErrNotExist) || errs == nil && !info.Mode().IsRegular(): // a link masks the unit
			continue
		case err != nil:
			return fmt.Errorf("cannot read the unit: %w", err)
		case !systemd.Wrote(string(is)) && !i.force:
			if name == systemd.DaemonUnit {
				binary = ""
			}
			i.printf("keep  %s, in place of the package's: it was changed by hand. To use the package's, put the changes into a drop-in "+
				"(systemctl edit %s), remove the file, and run: berth install --now", path, name)
			continue
		}
		if err := i.remove(path); err != nil {
			return err
		}
		i.changed[path] = true
		if err := i.link(name); err != nil {
			return err
		}
	}
	if binary == packageBinary {
		return nil
	}
	return i.removeBinary(binary)
}

// link lets the links by which a unit is enabled lead to the package's.
func (i *installer) link(name string) error {
	links, _ := filepath.Glob(i.root + unitDir + "/*.wants/" + name) // the pattern is well-formed
	for _, path := range links {
		if i.dry {
			continue
		}
		temp := path + ".new"
		_ = os.Remove(temp) // of one that was killed
		if err := errors.Join(os.Symlink(systemd.VendorDir+"/"+name, temp), os.Rename(temp, path)); err != nil {
			return fmt.Errorf("cannot install: %w", err)
		}
	}
	return nil
}

// activatePackage lets systemd know the drop-ins and, with --now, lets the package's binary
// serve. Whether a unit is enabled is between the owner and the package manager.
func (i *installer) activatePackage(s settings.Settings) error {
	if err := i.systemctl("daemon-reload"); err != nil {
		return err
	}
	serves := i.active(systemd.DaemonUnit)
	socket := i.changed[unitDir+"/"+systemd.SocketUnit+".d/"+dropIn] && i.active(systemd.SocketUnit) && !i.listens(s.Listen)
	switch {
	case !i.now && (socket || serves && len(i.changed) > 0):
		i.printf("The service runs as it was until: berth install --now (programs run on)")
		return nil
	case !i.now && !serves:
		i.printf("Start it: systemctl start berth")
		return nil
	case !i.now:
		return nil
	case !serves && !i.enabled():
		i.printf("berth.service is disabled, and stays so. To start it: systemctl enable --now berth")
		return nil
	}
	switch {
	case socket:
		return i.moveSocket()
	case !serves:
		if err := i.systemctl("start", systemd.DaemonUnit); err != nil {
			return err
		}
		i.next("berth")
		return nil
	case len(i.changed) > 0:
		return i.systemctl("restart", systemd.DaemonUnit)
	}
	return i.follow(s, packageBinary, systemd.VendorDir+"/"+systemd.DaemonUnit)
}

// follow lets an installed binary follow the daemon that serves: in place, where that one was
// started as the unit says now; else by a restart. Programs run on in both; in place no
// request waits longer than a moment, sites' ones neither.
func (i *installer) follow(s settings.Settings, binary, unit string) error {
	was, err := readService(i.ctx)
	if err != nil {
		return err
	}
	if was.runs(binary) && was.startedAs(unit) {
		return nil
	}
	if !was.canBecome(binary) || !was.startedAs(unit) {
		return i.systemctl("restart", systemd.DaemonUnit)
	}
	if err := i.systemctl("reload", systemd.DaemonUnit); err != nil || i.dry {
		return err
	}
	ctx, cancel := context.WithTimeout(i.ctx, s.Upgrade.Patience+takeOverTime)
	defer cancel()
	if err := was.replaced(ctx, binary); err != nil {
		return err
	}
	i.printf("berth %s serves; programs run on", strings.TrimPrefix(build.Version(), "v"))
	return nil
}

// listens reports whether the socket of the API, which is active, is at this address already.
func (i *installer) listens(address string) bool {
	out, err := exec.CommandContext(i.ctx, "systemctl", "show", "-p", "Listen", "--value", systemd.SocketUnit).Output()
	if strings.HasPrefix(address, ":") {
		address = "[::]" + address
	}
	return err == nil && strings.TrimSpace(string(out)) == address+" (Stream)"
}

// enabled reports whether the daemon starts with the machine.
func (i *installer) enabled() bool {
	return i.try("--quiet", "is-enabled", systemd.DaemonUnit) == nil
}
