package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/app/exit"
	"berth/cgroup"
	"berth/daemon/settings"
	"berth/files/depot"
	"berth/host"
	"berth/proc"
	"berth/proc/sandbox"
)

// openWalls finds out which walls programs can have, and what counts them. From here on
// they have all of these or do not start. earlier are the groups of programs that run.
func openWalls(
	ctx context.Context, s settings.Settings, groups *cgroup.Tree, earlier []string, undo *closers, log *slog.Logger,
) (*proc.Launcher, error) {
	l := &proc.Launcher{Tree: groups, Log: log}
	uncounted, unnetworked, err := loadPrograms(ctx, s, l, earlier, undo)
	if err != nil {
		return nil, err
	}
	if err := enoughFiles(log); err != nil {
		return nil, err
	}
	given, err := proc.FindConnectionPorts()
	if n := given.Among(s.Apps.PortFirst, s.Apps.PortLast); err == nil && n > 0 {
		log.Warn("the kernel may give ports of applications to connections; doctor tells what to do", "ports", n)
	}
	l.Walls = proc.Walls{Data: s.DataDir, Paths: s.ShownPaths(), Runtimes: filepath.Join(s.DataDir, depot.Dir)}
	trial := proc.Launcher{Tree: groups, Log: log, Walls: l.Walls}
	verdicts, err := trial.Try(ctx, proc.TryPatience)
	if err != nil {
		return nil, untried(err)
	}
	all := append(slices.Clone(verdicts),
		sandbox.Verdict{Layer: sandbox.Reach, Err: unnetworked},
		sandbox.Verdict{Layer: sandbox.Counted, Err: uncounted})
	if err := demand(all, s.RequiredLayers()); err != nil {
		return nil, err
	}
	had, err := RememberedWalls(s.DataDir)
	if err != nil {
		return nil, err
	}
	if err := refuseFewer(LostWalls(all, had, s.SparedLayers())); err != nil {
		return nil, err
	}
	for _, v := range verdicts {
		if v.Err != nil {
			log.Warn("programs run without a wall; doctor tells what to do", "wall", v.Layer, "error", v.Err)
		}
	}
	l.Walls.Layers = sandbox.Available(verdicts)
	if err := rememberWalls(s.DataDir, had, all); err != nil {
		log.Warn("cannot remember the walls that programs have: a start without them will not be refused", "error", err)
	}
	return l, nil
}

// loadPrograms loads what counts the programs' traffic and sockets, and their network
// policy, where the kernel lets somebody: uncounted and unnetworked say why not. Doctor
// tells why traffic is not counted.
func loadPrograms(
	ctx context.Context, s settings.Settings, l *proc.Launcher, earlier []string, undo *closers,
) (uncounted, unnetworked, err error) {
	load := func(cannot, without string, open func() error) (missing, err error) {
		err = insist(ctx, cannot, l.Log, open)
		if _, is := errors.AsType[*sandbox.Missing](err); is {
			l.Log.Warn(without, "error", err)
			return err, nil
		}
		return nil, err
	}
	_, err = load("cannot count the programs' traffic yet", "netIO will not be counted", func() (err error) {
		if l.Meter, err = sandbox.NewMeter(); err == nil {
			undo.add(l.Meter.Close)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	bounds := SocketBounds(l.Log)
	uncounted, err = load("cannot count the programs' sockets yet", "a program can take every port that this host gives to connections", func() (err error) {
		if l.Sockets, err = sandbox.NewSockets(bounds, earlier...); err == nil {
			undo.add(l.Sockets.Close)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	unnetworked, err = load("cannot load the network policy yet", "programs reach everything that the host reaches, and their ports are open to all: only PORT is theirs", func() (err error) {
		if l.Network, err = sandbox.NewNetwork(s.NetworkRules()); err == nil {
			undo.add(l.Network.Close)
		}
		return err
	})
	if l.Network != nil {
		undo.add(keepNetwork(l.Network, l.Log))
	}
	return uncounted, unnetworked, err
}

// insist tries what may fail for a moment, and says so once.
func insist(ctx context.Context, cannot string, log *slog.Logger, try func() error) error {
	told := func(err error) { log.Warn(cannot+", trying again", "error", err) }
	err := sandbox.Insist(ctx, proc.TryPatience, told, try)
	if _, missing := errors.AsType[*sandbox.Missing](err); err == nil || missing {
		return err
	}
	return untried(err)
}

// SocketBounds is how many sockets programs may have on this host.
func SocketBounds(log *slog.Logger) sandbox.SocketBounds {
	ports, err := proc.FindConnectionPorts()
	if err != nil {
		ports = proc.ConnectionPorts{First: 32768, Last: 60999}
		log.Warn("cannot read which ports this host gives to connections, and takes the usual range", "error", err)
	}
	program, account, all := host.SocketBounds(ports.Len())
	return sandbox.SocketBounds{Program: int32(program), Account: int32(account), All: int32(all)}
}

// refreshEvery is how often the host's addresses and name servers are looked at
// for programs that run already.
const refreshEvery = 5 * time.Minute

// keepNetwork keeps the network policy true until stop is called.
func keepNetwork(network *sandbox.Network, log *slog.Logger) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		repeat(ctx, refreshEvery, func() {
			if err := network.Refresh(); err != nil {
				log.Error("cannot keep the network policy true", "error", err)
			}
		})
	}()
	return func() error { cancel(); <-done; return nil }
}

// enoughFiles warns of a limit that the daemon meets before programs meet the one
// they are promised, and raises it. Where that cannot be done no program could start.
func enoughFiles(log *slog.Logger) error {
	most, err := proc.MostFiles()
	if err != nil || most >= proc.OpenFiles {
		return err
	}
	log.Warn("berth may open fewer files than each program is promised; doctor tells what to do", "limit", most, "promised", proc.OpenFiles)
	if err := proc.RaiseFiles(); err != nil {
		return exit.NewProblem(exit.Config,
			fmt.Errorf("cannot serve: each program is promised %d open files, and berth may have %d: %w", proc.OpenFiles, most, err),
			"Hint: set LimitNOFILE=524288 in berth's unit (systemctl edit berth), or ulimit -Hn 524288 where you start it.")
	}
	return nil
}

// untried is the end of a start that could not find out about the walls. It is no
// reason to run programs without them.
func untried(err error) error {
	return exit.NewProblem(exit.Failure, fmt.Errorf("cannot serve: %w", err),
		"Hint: programs that run go on; look whether the service may have more processes (TasksMax), open files (LimitNOFILE) and memory. As a service berth tries again until it works.")
}

// demand refuses to serve without a layer that the owner requires: waiting does
// not mend it, so the unit is not to try again.
func demand(verdicts []sandbox.Verdict, layers []sandbox.Layer) error {
	refused := LostWalls(verdicts, layers, nil)
	if len(refused) == 0 {
		return nil
	}
	return exit.NewProblem(exit.Config,
		fmt.Errorf("cannot serve: sandbox.require names walls that this host does not give: %s", reasons(refused)),
		"Hint: berth doctor tells what each of them needs; or take them out of sandbox.require.")
}

// reasons says why walls are missing.
func reasons(missing []sandbox.Verdict) string {
	var why []string
	for _, v := range missing {
		why = append(why, fmt.Sprintf("%s (%v)", v.Layer, v.Err))
	}
	return strings.Join(why, "; ")
}

// wallsName is the file in the data directory that names the walls which programs
// had when the daemon started last. It is the host's, not the data's: no backup
// has it.
const wallsName = "walls"

// RememberedWalls returns the walls that programs of a data directory had when
// their daemon started last, nil before the first start.
func RememberedWalls(dir string) ([]sandbox.Layer, error) {
	text, err := os.ReadFile(filepath.Join(dir, wallsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read which walls programs had: %w", err)
	}
	var had []sandbox.Layer
	for _, name := range strings.Fields(string(text)) { // a newer berth's, too
		had = append(had, sandbox.Layer(name))
	}
	return had, nil
}

// rememberWalls writes down for the next start what there is, unless that is what
// there was.
func rememberWalls(dir string, had []sandbox.Layer, verdicts []sandbox.Verdict) error {
	var has []sandbox.Layer
	text := ""
	for _, v := range verdicts {
		if v.Err == nil {
			has = append(has, v.Layer)
			text += string(v.Layer) + "\n"
		}
	}
	if had != nil && slices.Equal(had, has) {
		return nil
	}
	path := filepath.Join(dir, wallsName)
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}

// LostWalls returns what programs had and cannot have now, but for what the owner
// does without.
func LostWalls(verdicts []sandbox.Verdict, had, spared []sandbox.Layer) []sandbox.Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), func(v sandbox.Verdict) bool {
		return v.Err == nil || !slices.Contains(had, v.Layer) || slices.Contains(spared, v.Layer)
	})
}

// refuseFewer refuses to serve with fewer walls than last time: nobody who uses
// this host has been told that they are gone. Waiting does not mend it.
func refuseFewer(lost []sandbox.Verdict) error {
	if len(lost) == 0 {
		return nil
	}
	var names []string
	for _, v := range lost {
		names = append(names, string(v.Layer))
	}
	return exit.NewProblem(exit.Config,
		fmt.Errorf("cannot serve: programs had walls at the last start that this host does not give now: %s", reasons(lost)),
		`Hint: berth doctor tells what each of them needs: boot the kernel of before, or give berth its rights again. To let programs run without, set sandbox.without to "`+strings.Join(names, ",")+`", for one start or for good.`)
}
