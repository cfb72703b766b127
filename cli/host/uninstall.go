package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"berth/daemon/settings"
	"berth/systemd"
)

// uninstall is the command. What the owner or the applications made stays.
func uninstall(c *Caller) *cobra.Command {
	cmd := command("uninstall [--dry-run] [--force]", "stop all programs, remove the service and the binary, and keep the data", 0, 0)
	i := &installer{out: c.Stdout, changed: map[string]bool{}}
	settings.AddToggle(cmd.Flags(), &i.dry, "dry-run", "print what berth would remove and call, and change nothing")
	settings.AddToggle(cmd.Flags(), &i.force, "force", "remove units even if you changed them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		i.ctx = cmd.Context()
		if err := i.may("uninstall"); err != nil {
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
	there := i.installed()
	if len(there) == 0 {
		i.tell("The service is not installed.")
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
	if binary != "" && !missing(i.root+binary) {
		if err := i.remove(binary); err != nil {
			return err
		}
	}
	if err := i.systemctl("daemon-reload"); err != nil {
		return err
	}
	dropIns, _ := filepath.Glob(i.root + unitDir + "/berth*.d") // the pattern is well-formed
	kept := append([]string{dataDir, i.root + settings.DefaultFile}, dropIns...)
	i.tell("Kept: %s. What the applications are is in %s; to remove everything for good:", strings.Join(kept, ", "), dataDir)
	i.tell("  rm -rf %s %s", strings.Join(append([]string{dataDir, i.root + filepath.Dir(settings.DefaultFile)}, dropIns...), " "),
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
func (i *installer) binary() string {
	text, err := os.ReadFile(i.root + unitDir + "/" + systemd.DaemonUnit)
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

func (i *installer) remove(path string) error {
	i.tell("remove %s", i.root+path)
	if i.dry {
		return nil
	}
	if err := os.Remove(i.root + path); err != nil {
		return fmt.Errorf("cannot uninstall: %w", err)
	}
	return nil
}
