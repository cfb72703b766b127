package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"berth/app"
	"berth/host"
	"berth/kube"
	"berth/proc/logs"
)

const (
	// startTime is how long a pod may take until its program runs: its image may have to be fetched.
	startTime = 90 * time.Second
	// roomTime is how long a pod may find no machine with room: one may be about to be given back.
	roomTime = 5 * time.Second
	// againTime is the pause before something is asked of the cluster again that it could not do.
	againTime = time.Second
)

// run is a run of a program in its pod. It implements host.Instance.
type run struct {
	engine  *Engine
	program app.Program
	name    string // of the pod
	uid     string
	out     *logs.Log     // nil of a probe
	changed chan struct{} // holds one: the pod is another than before
	typing  chan struct{} // holds one while a line is on its way to the program
	done    chan struct{} // closed when exit is set, or the run was left
	life    context.Context
	leave   context.CancelFunc // ends what follows the run

	mu      sync.Mutex
	pod     kube.Pod
	gone    bool // the pod was removed
	ram     app.MB
	began   time.Time // when this daemon heard that the program runs
	stopped bool      // it was asked to end
	hurry   bool      // at once
	left    bool
	silent  bool // its machine does not answer; the engine's lock guards it
	exit    app.Exit
}

// Launch starts a program that is not one of files alone, and returns once it runs. It is a host.Launch.
func (e *Engine) Launch(ctx context.Context, p app.Program) (host.Instance, error) {
	kind, name := runKind, e.podName(p.App, p.Run)
	if p.Build {
		kind, name = buildKind, otherName(p.App, buildKind)
	}
	r, err := e.start(ctx, p, kind, name)
	if err != nil {
		return nil, err
	}
	if err := r.out.Take(r.uid, nil, ""); err != nil { // so that it is known that a program ran
		e.Log.Warn("cannot note that a program was started", "pod", r.name, "error", err)
	}
	r.follow()
	return r, nil
}

// start makes a pod and waits until its program runs, or has ended.
func (e *Engine) start(ctx context.Context, p app.Program, kind, name string) (*run, error) {
	out, err := e.Logs.Output(p.App, p.Build)
	if err != nil {
		return nil, err
	}
	spec, err := e.pod(p, kind, name)
	if err != nil {
		return nil, err
	}
	machines, err := e.closed(ctx)
	if err != nil {
		return nil, err
	}
	if machines != nil {
		spec.Spec.Affinity = kube.OnMachines(machines)
	}
	if kind == runKind {
		if err := e.single(ctx, p); err != nil {
			return nil, err
		}
	}
	if p.Gate != nil {
		p.Gate()
	}
	r := e.newRun(p, name, out)
	if err := e.create(ctx, r, spec); err != nil {
		return nil, err
	}
	return r, nil
}

// create makes the pod of a run, and waits until its program runs, or has ended. Of an error nothing stays.
func (e *Engine) create(ctx context.Context, r *run, spec kube.Pod) error {
	// Who calls it off while it is under way would not know what came of it.
	made, err := e.kube.Create(context.WithoutCancel(ctx), spec)
	if err != nil {
		e.drop(r)
		exists := kube.CodeOf(err) == http.StatusConflict
		if errors.Is(err, kube.ErrAway) || exists {
			e.mu.Lock()
			e.doubt[r.name] = true
			e.mu.Unlock()
		}
		if exists {
			return another()
		}
		return refused(app.Textf("start the program"), err)
	}
	r.mu.Lock()
	r.uid = made.Metadata.UID
	if r.pod.Metadata.Name == "" { // nobody has told more of it meanwhile
		r.pod = trimmed(made)
	}
	r.mu.Unlock()
	if err := r.begins(ctx); err != nil {
		e.undo(r)
		return err
	}
	r.mu.Lock()
	r.began = time.Now()
	r.mu.Unlock()
	return nil
}

func (e *Engine) newRun(p app.Program, name string, out *logs.Log) *run {
	r := &run{
		engine: e, program: p, name: name, out: out, ram: p.RAM,
		changed: make(chan struct{}, 1), typing: make(chan struct{}, 1), done: make(chan struct{}),
	}
	r.life, r.leave = context.WithCancel(e.life)
	e.mu.Lock()
	e.runs[name] = r
	e.mu.Unlock()
	return r
}

// drop forgets a run.
func (e *Engine) drop(r *run) {
	e.mu.Lock()
	if e.runs[r.name] == r {
		delete(e.runs, r.name)
	}
	e.mu.Unlock()
	r.leave()
}

// remove removes the pod of a run that was dropped, and asks again while the cluster cannot.
func (e *Engine) remove(r *run) {
	e.work.Go(func() {
		for {
			err := e.kube.Delete(e.life, r.name, r.uid, time.Second)
			if err == nil || e.life.Err() != nil {
				return
			}
			e.Log.Warn("cannot remove a pod; trying again", "pod", r.name, "error", err)
			sleep(e.life, againTime)
		}
	})
}

// undoTime is how long a machine may take to end what is not to go on.
const undoTime = 10 * time.Second

// undo removes the pod of a run that does not begin, and waits until it is gone: its machine may be about to make the directory of
// its files, which the caller is about to remove.
func (e *Engine) undo(r *run) {
	defer e.drop(r)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.life), undoTime)
	defer cancel()
	if err := e.kube.Delete(ctx, r.name, r.uid, time.Second); err != nil {
		e.remove(r)
		return
	}
	for {
		if _, gone := r.now(); gone {
			return
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return
		}
	}
}

// dismiss removes a pod of berth's own, also when the engine closes: no later daemon may look for it.
func (e *Engine) dismiss(r *run) {
	e.drop(r)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.life), 5*time.Second)
	defer cancel()
	if err := e.kube.Delete(ctx, r.name, r.uid, time.Second); err != nil {
		e.remove(r)
	}
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// single refuses a start while another program of the application may run: one that nobody here started, or one of
// which it is not known whether it was made. Nothing starts while the cluster tells nothing.
func (e *Engine) single(ctx context.Context, p app.Program) error {
	e.mu.Lock()
	away := e.away
	var others, doubts []string
	for name, pod := range e.pods {
		mine := e.runs[name] != nil && (p.Beside || e.runs[name].Ended())
		if pod.Metadata.Labels[appLabel] == string(p.App) && pod.Metadata.Labels[kindLabel] == runKind && !over(pod) && !mine {
			others = append(others, name)
		}
	}
	for name := range e.doubt {
		if id, _, _ := strings.Cut(name, "."); id == string(p.App) {
			doubts = append(doubts, name)
		}
	}
	e.mu.Unlock()
	if away != nil {
		return refused(app.Textf("start the program"), fmt.Errorf("%w: %w", kube.ErrAway, away))
	}
	for _, name := range doubts {
		pod, err := e.kube.Get(ctx, name)
		if kube.CodeOf(err) == http.StatusNotFound {
			e.mu.Lock()
			delete(e.doubt, name)
			e.mu.Unlock()
			continue
		}
		if err != nil {
			return refused(app.Textf("start the program"), err)
		}
		others = append(others, pod.Metadata.Name)
	}
	for _, name := range others {
		pod, err := e.kube.Get(ctx, name)
		if err == nil {
			err = e.kube.Delete(ctx, name, pod.Metadata.UID, e.Grace)
		}
		if err != nil && kube.CodeOf(err) != http.StatusNotFound {
			return refused(app.Textf("start the program"), err)
		}
	}
	if len(others) > 0 {
		return another()
	}
	return nil
}

func another() error {
	return app.Errorf(app.Unavailable, "cannot start the program: another one of the application has not ended yet on a machine of the cluster; try again in a minute")
}

// hear takes how the pod is now. It does not block.
func (r *run) hear(p kube.Pod, gone bool) {
	r.mu.Lock()
	if r.uid == "" || p.Metadata.UID == r.uid {
		r.pod, r.gone = p, r.gone || gone
	}
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// now returns the pod as it was heard of last.
func (r *run) now() (p kube.Pod, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pod, r.gone
}

// begins waits until the program runs or has ended, and fails with a sentence when it cannot.
func (r *run) begins(ctx context.Context) error {
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	room := time.NewTimer(roomTime)
	defer room.Stop()
	patient := true
	for {
		p, gone := r.now()
		switch why := unable(p); {
		case gone:
			return app.Errorf(app.Unavailable, "cannot start the program: somebody removed its pod from the cluster")
		case why != nil && (!why.room || !patient):
			return why.err
		case p.Status.Phase == "Running" && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil, ended(p) != nil:
			return nil
		}
		select {
		case <-r.changed:
		case <-room.C:
			patient = false
		case <-limit.C:
			return app.Errorf(app.Unavailable, "cannot start the program: the cluster has not started it for %d seconds; it may still fetch the image; try again in a minute", int(startTime.Seconds()))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// inability is why a pod does not start.
type inability struct {
	room bool // no machine has room for it
	err  error
}

// unable returns why a pod cannot start, nil where nothing is known against it.
func unable(p kube.Pod) *inability {
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" && c.Reason == "Unschedulable" {
			if strings.Contains(c.Message, "Insufficient") {
				return &inability{true, app.Errorf(app.Exhausted, "cannot start the program: no machine of the cluster has room for it: %s", clean(c.Message))}
			}
			return &inability{true, app.Errorf(app.Unavailable, "cannot start the program: no machine of the cluster takes it; ask the owner of this host: %s", clean(c.Message))}
		}
	}
	if over(p) && ended(p) == nil {
		return &inability{false, app.Errorf(app.Unavailable, "cannot start the program: its machine refused it: %s", clean(p.Status.Reason, p.Status.Message))}
	}
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && (t.Reason == "StartError" || t.Reason == "ContainerCannotRun") {
			return &inability{false, app.Errorf(app.Unusable, "cannot start the program: %s", clean(t.Message))}
		}
		if s.State.Waiting == nil {
			continue
		}
		switch w := s.State.Waiting; w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
			return &inability{false, app.Errorf(app.Unavailable, "cannot start the program: a machine of the cluster cannot get its image; ask the owner of this host: %s", clean(w.Reason, w.Message))}
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return &inability{false, app.Errorf(app.Unavailable, "cannot start the program: its machine cannot make its container: %s", clean(w.Reason, w.Message))}
		}
	}
	return nil
}

// clean joins what a cluster says to one line.
func clean(parts ...string) string {
	const most = 300
	text := strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Adopt goes on with a survivor; p is host.Adopt's.
func (e *Engine) Adopt(v Survivor, p app.Program) (host.Instance, error) {
	p.Run = v.Run
	if v.Port > 0 {
		p.Port = v.Port
	}
	out, err := e.Logs.Output(p.App, false)
	if err != nil {
		return nil, err
	}
	r := e.newRun(p, v.pod.Metadata.Name, out)
	r.uid = v.pod.Metadata.UID
	if ram := mebibytes(resourcesOf(v.pod).Limits["memory"]); ram > 0 {
		r.ram = ram
	}
	r.hear(v.pod, false)
	e.mu.Lock()
	if now, there := e.pods[r.name]; there {
		r.hear(now, false)
	} else {
		r.hear(v.pod, true)
	}
	e.mu.Unlock()
	if ended(v.pod) == nil {
		e.work.Go(func() { r.endCommands(r.life, "") }) // of a daemon that was killed
	}
	r.follow()
	return r, nil
}

// follow copies what the program prints, and waits for its end.
func (r *run) follow() {
	r.engine.work.Go(func() {
		defer close(r.done)
		read, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(read)
			r.readLog(ended)
		}()
		r.awaitEnd()
		close(ended)
		<-read
		r.mu.Lock()
		left := r.left
		r.mu.Unlock()
		if left || r.life.Err() != nil {
			return
		}
		p, _ := r.now()
		exit := r.exitOf(p)
		r.mu.Lock()
		r.exit = exit
		asked := r.stopped
		r.mu.Unlock()
		if asked { // nobody has to find it again, and the next daemon must not take it for an end by itself
			r.engine.discard(r)
			return
		}
		r.engine.work.Go(func() {
			sleep(r.engine.life, keepTime)
			if r.engine.life.Err() == nil { // else the next daemon does
				r.engine.discard(r)
			}
		})
	})
}

// awaitEnd waits until nothing of the pod runs, or the run is left.
func (r *run) awaitEnd() {
	for {
		if p, gone := r.now(); gone || over(p) {
			return
		}
		select {
		case <-r.changed:
		case <-r.life.Done():
			return
		}
	}
}

// discard removes the pod of a run whose exit is known. That of one which ended by itself stays for a while: who waits for
// it has to record the exit first, and a daemon that dies before finds it there.
func (e *Engine) discard(r *run) {
	if err := r.out.Forget(r.uid); err != nil {
		e.Log.Warn("cannot forget how far a log was read", "pod", r.name, "error", err)
	}
	err := e.kube.Delete(e.life, r.name, r.uid, time.Second)
	e.drop(r)
	if err != nil {
		e.Log.Warn("cannot remove a pod; trying again", "pod", r.name, "error", err)
		e.remove(r)
	}
}

// exitOf is how a program ended.
func (r *run) exitOf(p kube.Pod) app.Exit {
	r.mu.Lock()
	limit := r.ram
	r.mu.Unlock()
	e := app.Exit{Run: r.program.Run, At: time.Now(), Code: app.UnknownCode, LimitMB: limit}
	t := ended(p)
	if t == nil {
		e.Ran = max(e.At.Sub(startedAt(p)), 0)
		e.HostOOM = evictedForMemory(p)
		e.Disrupted = !e.HostOOM
		return e
	}
	e.Ran, e.Code = max(t.FinishedAt.Sub(t.StartedAt), 0), t.ExitCode
	if !t.FinishedAt.IsZero() {
		e.At = t.FinishedAt
	}
	if r.out != nil {
		// The cluster tells it to the second, and lines to the nanosecond: the last one was printed before the end.
		if line := placeOf(r.out.Taken(r.uid)).At; line.After(e.At) {
			e.At = line
		}
	}
	e.Signal = signalOf(t.ExitCode)
	// A helper's death marks the container, too, on control groups v1, whatever the program does then.
	e.OOM = t.Reason == "OOMKilled" && t.ExitCode == killed
	if t.Reason == "OOMKilled" && !e.OOM && r.out != nil {
		r.out.Note(fmt.Sprintf("a helper process was killed: the application needed more than %d MB of RAM", limit))
	}
	e.HostOOM = !e.OOM && evictedForMemory(p)
	if e.Disrupted = !e.OOM && !e.HostOOM && disrupted(p, t); e.Disrupted && lostStatus(t) {
		e.Code, e.Signal = app.UnknownCode, 0
	}
	return e
}

func evictedForMemory(p kube.Pod) bool {
	return p.Status.Reason == "Evicted" && strings.Contains(p.Status.Message, "memory")
}

// disrupted reports whether a program ended for a reason of its machine or cluster: a reason of the whole pod, such as
// Evicted or Terminated, is never the program's. Finish makes DeadlineExceeded. An eviction by the API, as of kubectl drain,
// deletes the pod and gives no reason.
func disrupted(p kube.Pod, t *kube.Terminated) bool {
	if by := p.Metadata.DeletionTimestamp; by != nil && !t.FinishedAt.Before(by.Add(-time.Duration(p.Metadata.DeletionGrace)*time.Second)) {
		return true
	}
	return lostStatus(t) || p.Status.Reason != "" && p.Status.Reason != "DeadlineExceeded"
}

// lostStatus reports whether nobody knows how a program ended, for its machine started anew: containerd says "Unknown" with
// the code 255, and the kubelet "ContainerStatusUnknown" with 137.
func lostStatus(t *kube.Terminated) bool {
	return t.Reason == "Unknown" || t.Reason == "ContainerStatusUnknown"
}

// signals and the number of a signal is the code of what the signal ended, as containers have it; killed is that of SIGKILL.
const (
	signals = 128
	killed  = signals + 9
)

// signalOf is the signal that a code tells of, 0 for none. Of a program that exits with such a code by itself a cluster
// tells the same.
func signalOf(code int) int {
	if code > signals && code < signals+32 {
		return code - signals
	}
	return 0
}

// Wait implements host.Instance.
func (r *run) Wait() app.Exit {
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exit
}

// Ended implements host.Instance.
func (r *run) Ended() bool {
	p, gone := r.now()
	return gone || over(p) || ended(p) != nil
}

// Leave implements host.Instance.
func (r *run) Leave() bool {
	select {
	case <-r.done:
		return false
	default:
	}
	r.mu.Lock()
	r.left = true
	r.mu.Unlock()
	r.leave()
	<-r.done
	return true
}

// Stop implements host.Instance.
func (r *run) Stop(grace time.Duration) {
	r.mu.Lock()
	again := r.stopped && grace > 0
	r.stopped, r.hurry = true, r.hurry || grace == 0
	r.mu.Unlock()
	if again {
		return
	}
	e := r.engine
	e.work.Go(func() {
		for r.life.Err() == nil && !r.Ended() {
			var err error
			if grace > 0 { // what it prints and how it ends stays to be read
				err = e.kube.Finish(r.life, r.name)
			} else {
				err = e.kube.Delete(r.life, r.name, r.uid, time.Second)
			}
			if err == nil || kube.CodeOf(err) == http.StatusNotFound {
				return
			}
			e.Log.Warn("cannot end a program on the cluster; trying again", "pod", r.name, "error", err)
			sleep(r.life, againTime)
		}
	})
}

// SetMemory implements host.Instance.
func (r *run) SetMemory(ram app.MB) error {
	ctx, cancel := context.WithTimeout(r.life, startTime)
	defer cancel()
	if u, is := r.engine.usedBy(r.name); is && u.Memory > ram.Bytes() {
		return app.Errorf(app.Exhausted, "cannot set the RAM to %d MB: the program uses %d MB now; stop it first, or choose more", ram, app.MB(u.Memory>>20))
	}
	if err := r.engine.kube.Resize(ctx, r.name, box, int64(ram)); err != nil {
		return refused(app.Textf("change the RAM"), err)
	}
	r.mu.Lock()
	r.ram = ram
	r.mu.Unlock()
	return nil
}
