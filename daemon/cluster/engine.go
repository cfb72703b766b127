package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"berth/app"
	"berth/kube"
	"berth/proc/logs"
)

// The labels and annotations of berth's pods.
const (
	hostLabel = "berth/host" // whose pod it is
	appLabel  = "berth/app"
	runLabel  = "berth/run"  // the run's number
	kindLabel = "berth/kind" // one of the kinds

	portNote    = "berth/port"
	journalNote = "berth/journal" // of the deployment that started it
)

// The kinds of pods.
const (
	runKind     = "run"
	buildKind   = "build"
	consoleKind = "console" // of a command in the place of a program
	probeKind   = "probe"   // of berth itself
)

// box is the name of the one container in each pod.
const box = "program"

const (
	// hearTime is how long Open waits until it knows every pod.
	hearTime = 30 * time.Second
	// pollTime is the pause between two looks at the machines and what is used there.
	pollTime = 10 * time.Second
	// keepTime is how long the pod of a run that has ended stays: until its exit is recorded, which is asked for when
	// Wait returns.
	keepTime = 15 * time.Second
)

// Config says where programs run and what they get there.
type Config struct {
	Server       string // of the API
	Doors        Doors  // what programs must not reach
	Host         string // tells the pods of this berth from those of others in the namespace
	DataDir      string // on this machine; the claim has its parts that programs see, by the same names
	Claim        string
	Images       *Images
	NodeSelector map[string]string
	RuntimeClass string
	Trusted      bool                                                  // programs start where they could reach each other's files
	Grace        time.Duration                                         // between SIGTERM and SIGKILL
	CPU          int                                                   // percent of one processor that a program may have; 0: no limit
	Env          func(p app.Program, path, home, temp string) []string // of a program
	BuildDir     func(app.Stage) string                                // where a stage is while it is built
	Home         func(app.ID) string                                   // of an application's tree
	Logs         *logs.Book
	Log          *slog.Logger
}

// Engine runs programs as pods. It is safe for concurrent use.
type Engine struct {
	Config
	kube *kube.Client
	life context.Context // until Close
	end  context.CancelFunc
	work sync.WaitGroup
	all  chan struct{} // closed when every pod is known

	mu    sync.Mutex
	known bool
	away  error               // why nothing is heard; nil while it is
	quiet bool                // a run is silent
	pods  map[string]kube.Pod // as they were heard of last
	runs  map[string]*run     // that somebody waits for, by their pods
	doubt map[string]bool     // pods of which it is not known whether they were made
	nodes []kube.Node
	used  map[string]used // by pod

	reach reach
}

// Open listens to the cluster, and returns once it knows every pod of this berth. It fails where the cluster does not
// answer, or refuses.
func Open(ctx context.Context, client *kube.Client, c Config) (*Engine, error) {
	e := &Engine{
		Config: c, kube: client, all: make(chan struct{}),
		pods: map[string]kube.Pod{}, runs: map[string]*run{}, doubt: map[string]bool{}, used: map[string]used{},
	}
	e.reach.changed = make(chan struct{})
	e.life, e.end = context.WithCancel(context.WithoutCancel(ctx))
	e.work.Go(func() {
		_ = e.kube.Watch(e.life, kube.Watcher{ // it ends with Close
			Selector: hostLabel + "=" + c.Host, All: e.heardAll, Changed: e.heard, Gone: e.gone, Lost: e.lost, Back: e.back,
		})
	})
	nodes, err := e.kube.Nodes(ctx, selector(c.NodeSelector))
	if err == nil {
		e.nodes = nodes
		timer := time.NewTimer(hearTime)
		defer timer.Stop()
		select {
		case <-e.all:
		case <-ctx.Done():
			err = ctx.Err()
		case <-timer.C:
			e.mu.Lock()
			err = e.away
			e.mu.Unlock()
			if err == nil {
				err = kube.ErrAway
			}
		}
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("cannot use the cluster: %w", err)
	}
	if err := e.endHelpers(ctx); err != nil {
		e.Close()
		return nil, err
	}
	e.work.Go(e.poll)
	if !c.Trusted {
		e.work.Go(e.watchReach)
	}
	return e, nil
}

// Close stops listening. What runs goes on.
func (e *Engine) Close() {
	e.end()
	e.work.Wait()
	e.kube.Close()
}

// selector writes labels as the API reads them.
func selector(labels map[string]string) string {
	text := ""
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if text != "" {
			text += ","
		}
		text += key + "=" + labels[key]
	}
	return text
}

func (e *Engine) heardAll(pods []kube.Pod) {
	e.mu.Lock()
	before := e.pods
	e.pods = make(map[string]kube.Pod, len(pods))
	for _, p := range pods {
		e.pods[p.Metadata.Name] = trimmed(p)
	}
	for name, p := range e.pods {
		e.tell(name, p, false)
		e.settle(p)
	}
	for name, p := range before {
		if _, there := e.pods[name]; !there {
			e.tell(name, p, true)
		}
	}
	first := !e.known
	e.known = true
	e.mu.Unlock()
	if first {
		close(e.all)
	}
}

func (e *Engine) heard(p kube.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pods[p.Metadata.Name] = trimmed(p)
	e.tell(p.Metadata.Name, p, false)
	e.settle(p)
}

// settle removes a pod that was made by a request of which nobody knew what came of it. The caller holds mu.
func (e *Engine) settle(p kube.Pod) {
	name := p.Metadata.Name
	if !e.doubt[name] || e.runs[name] != nil {
		return
	}
	delete(e.doubt, name)
	e.remove(&run{name: name, uid: p.Metadata.UID})
}

func (e *Engine) gone(p kube.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pods, p.Metadata.Name)
	delete(e.used, p.Metadata.Name)
	e.tell(p.Metadata.Name, p, true)
}

// tell tells the run of a pod how that is. The caller holds mu.
func (e *Engine) tell(name string, p kube.Pod, gone bool) {
	if r := e.runs[name]; r != nil {
		r.hear(trimmed(p), gone)
	}
}

// trimmed is a pod without what nobody here asks for: there may be thousands.
func trimmed(p kube.Pod) kube.Pod {
	p.Spec = kube.PodSpec{NodeName: p.Spec.NodeName, Containers: []kube.Container{{Resources: resourcesOf(p)}}}
	return p
}

func resourcesOf(p kube.Pod) (r kube.Resources) {
	if len(p.Spec.Containers) > 0 {
		r = p.Spec.Containers[0].Resources
	}
	return r
}

func (e *Engine) lost(err error) {
	e.mu.Lock()
	first := e.away == nil
	e.away = err
	e.mu.Unlock()
	if first {
		e.Log.Warn("the cluster does not tell what runs; programs go on, and what is shown is old", "error", err)
	}
}

func (e *Engine) back() {
	e.mu.Lock()
	e.away = nil
	e.mu.Unlock()
	e.Log.Info("the cluster tells again what runs")
}

// Away is why nothing is heard of the cluster, nil while it is.
func (e *Engine) Away() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.away
}

// Stale implements host.Config.Stale.
func (e *Engine) Stale(id app.ID) app.Text {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away != nil {
		return app.Textf("the cluster of this host does not answer")
	}
	if e.quiet {
		for _, r := range e.runs {
			if r.silent && r.program.App == id {
				return app.Textf("its machine does not answer")
			}
		}
	}
	return app.Text{}
}

// RAM is what the machines of the cluster have for programs together, of those that are there and take new ones.
func (e *Engine) RAM() app.MB {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all app.MB
	for _, n := range e.nodes {
		if n.Ready() && !n.Spec.Unschedulable {
			all += mebibytes(n.Status.Allocatable["memory"])
		}
	}
	return all
}

// LimitCPU implements host.Config.LimitCPU: a limit is in force from the next start on.
func (e *Engine) LimitCPU(app.ID, int) error { return nil }

// refused is the error of a change that the cluster did not take, with a sentence for who asked for it.
func refused(what app.Text, err error) error {
	said, is := errors.AsType[*kube.Error](err)
	switch {
	case errors.Is(err, kube.ErrAway):
		return &app.Error{Kind: app.Unavailable, Err: err, Message: app.Textf("cannot %s: the cluster of this host does not answer; what runs goes on; try again in a minute", what)}
	case is && said.Code == 403 && said.Reason == "Forbidden":
		return &app.Error{Kind: app.Unavailable, Err: err, Message: app.Textf("cannot %s: the cluster of this host refuses it; ask the owner of this host", what)}
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}

// Survivor is a pod of a run that an earlier daemon started.
type Survivor struct {
	Run       int
	StartedAt time.Time
	Port      int
	Journal   string // of the deployment that started it, "" for none
	pod       kube.Pod
}

// Survivors returns the runs of an application that are there and nobody waits for: they run, or have ended.
func (e *Engine) Survivors(id app.ID) (all []Survivor) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, p := range e.pods {
		m := p.Metadata
		if m.Labels[appLabel] != string(id) || m.Labels[kindLabel] != runKind || e.runs[name] != nil {
			continue
		}
		number, err := strconv.Atoi(m.Labels[runLabel])
		if err != nil {
			continue // somebody has changed it; it is ended as a stranger
		}
		port, _ := strconv.Atoi(m.Annotations[portNote]) // 0: the application's
		all = append(all, Survivor{Run: number, StartedAt: startedAt(p), Port: port, Journal: m.Annotations[journalNote], pod: p})
	}
	return all
}

// endHelpers ends the builds and console commands of the daemon before, and waits until they have ended: they write to what
// the next steps remove.
func (e *Engine) endHelpers(ctx context.Context) error {
	for until := time.Now().Add(hearTime); ; sleep(ctx, againTime/10) {
		e.mu.Lock()
		var left []kube.Pod
		for _, p := range e.pods {
			if p.Metadata.Labels[kindLabel] != runKind {
				left = append(left, p)
			}
		}
		e.mu.Unlock()
		switch {
		case len(left) == 0 || ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(until): // such as on a machine that is silent: it keeps nobody from starting
			e.Log.Error("cannot end the builds and commands that an earlier daemon left on the cluster", "pods", len(left))
			return nil
		}
		for _, p := range left {
			if p.Metadata.DeletionTimestamp != nil {
				continue
			}
			if err := e.kube.Delete(ctx, p.Metadata.Name, p.Metadata.UID, time.Second); err != nil {
				return refused(app.Textf("end what an earlier berth left"), err)
			}
		}
	}
}

// EndOthers ends every pod of this berth that nobody waits for: builds, console commands and programs of an earlier
// daemon that were not adopted. It does not wait for their ends.
func (e *Engine) EndOthers(ctx context.Context) {
	e.mu.Lock()
	var others []kube.Pod
	for name, p := range e.pods {
		if e.runs[name] == nil {
			others = append(others, p)
		}
	}
	e.mu.Unlock()
	for _, p := range others {
		if p.Metadata.Labels[kindLabel] == runKind && !over(p) {
			e.Log.Warn("ended a program on the cluster that nobody waits for", "pod", p.Metadata.Name)
		}
		if err := e.kube.Delete(ctx, p.Metadata.Name, p.Metadata.UID, e.Grace); err != nil {
			e.Log.Error("cannot end a pod that nobody waits for", "pod", p.Metadata.Name, "error", err)
		}
	}
}
