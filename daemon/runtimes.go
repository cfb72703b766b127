package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/daemon/cluster"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/files/bundle"
	"berth/files/depot"
	"berth/host"
	"berth/host/runtimes"
	"berth/proc"
)

// planTools are the commands of the host, and the runtimes that its owner installed. Each
// plan looks anew, so that a daemon sees what was installed since it started.
type planTools struct {
	*proc.Tools
	depot depot.Depot
}

// HostTools returns the commands and installed runtimes with which programs of a data
// directory run; shown are the paths that they see, nil for all.
func HostTools(dataDir string, shown []string) runtimes.Tools {
	tools := proc.FindTools()
	if shown != nil {
		tools.Only(shown)
	}
	return planTools{tools, depot.Of(dataDir)}
}

// Installed implements runtimes.Tools.
func (t planTools) Installed(runtime string) []string { return t.depot.Versions(runtime) }

// With implements runtimes.Tools.
func (t planTools) With(runtime, version string) runtimes.Tools {
	return planTools{t.Before(t.depot.Bin(runtime, version)), t.depot}
}

// Images implements runtimes.Tools.
func (planTools) Images() bool { return false }

// RuntimeVersion asks a command in a directory of the host for its version; it returns ""
// where the command does not run. It runs it as nobody, for seconds at most.
func RuntimeVersion(bin, command string) string {
	tools := proc.FindTools().Before(bin)
	if path, _ := tools.Find(command); path != filepath.Join(bin, command) {
		return ""
	}
	return tools.Version(command)
}

// RuntimeUsers returns the applications that use an installed runtime, by its language and
// version ("node 22.11.0"): those that would start with it now, whose packages were
// installed with it, or of which a process runs it.
func RuntimeUsers(ctx context.Context, d *db.DB, dataDir string, tools runtimes.Tools) (map[string][]app.ID, error) {
	all, err := d.Apps.Apps(ctx)
	if err != nil {
		return nil, err
	}
	installed := depot.Of(dataDir)
	running, err := runningRuntimes(installed, all)
	if err != nil {
		return nil, err
	}
	users := map[string][]app.ID{}
	for _, a := range all {
		use := running[a.UID]
		if language, version, ok := runtimes.Uses(a.Code, tools); ok {
			use = append(use, language+" "+version)
		}
		if language, version, ok := installed.Holds(venvHome(files.AppDir(dataDir, a.ID))); ok {
			use = append(use, language+" "+version)
		}
		slices.Sort(use)
		for _, name := range slices.Compact(use) {
			users[name] = append(users[name], a.ID)
		}
	}
	return users, nil
}

// RuntimesOn returns the runtime ("node 22.11.0") with which each application would start on an engine, as far as that
// chooses one, and why one would not start there. It blocks as runtimes.Plan does for each.
func RuntimesOn(s settings.Settings, engine string, apps []app.App) (with map[app.ID]string, not map[app.ID]error, err error) {
	tools := HostTools(s.DataDir, nil)
	if engine == settings.Kubernetes {
		images, err := cluster.ParseImages(s.KubernetesImages())
		if err != nil {
			return nil, nil, err
		}
		tools = images.Tools()
	}
	trees, err := files.Open(s.DataDir, bundle.Limits{})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, trees.Close()) }()
	with, not = map[app.ID]string{}, map[app.ID]error{}
	for _, a := range apps {
		plan, err := runtimes.Plan(host.ConfigOf(a), true, trees.Files("", a.ID), tools, a.Code.Packages)
		if err != nil {
			not[a.ID] = err
		} else if plan.Runtime != "" {
			with[a.ID] = plan.Runtime
		}
	}
	return with, not, nil
}

// HasEnvironment reports whether the packages of an application belong to one Python: another finds none of them.
func HasEnvironment(dataDir string, id app.ID) bool { return venvHome(files.AppDir(dataDir, id)) != "" }

// venvHome returns where the Python of an application's packages is, "" for none. What
// lies there is a program's: a link that leads out, a FIFO or a large file is none.
func venvHome(dir string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }()
	f, err := root.OpenFile(".venv/pyvenv.cfg", os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	const most = 64 << 10
	text, _ := io.ReadAll(io.LimitReader(f, most))
	return runtimes.Home(string(text))
}

// runningRuntimes returns the installed runtimes that processes of applications run, by
// their users.
func runningRuntimes(installed depot.Depot, all []app.App) (map[int][]string, error) {
	of := make(map[int]bool, len(all))
	for _, a := range all {
		of[a.UID] = true
	}
	list, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list the processes of the host: %w", err)
	}
	users := map[int][]string{}
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			continue // it has ended
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if _, err := strconv.Atoi(e.Name()); err != nil || !ok || !of[int(st.Uid)] {
			continue
		}
		program, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("cannot tell which runtimes programs run: %w", err)
		}
		if language, version, ok := installed.Holds(program); ok {
			users[int(st.Uid)] = append(users[int(st.Uid)], language+" "+version)
		}
	}
	return users, nil
}

// installedRuntimes lists the runtimes of a data directory for people.
func installedRuntimes(dataDir string) []app.Runtime {
	all := depot.Of(dataDir).Runtimes()
	list := make([]app.Runtime, len(all))
	for i, r := range all {
		list[i] = app.Runtime{Title: depot.Title(r.Language), Version: r.Version, At: r.At}
	}
	return list
}
