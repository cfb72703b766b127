package httpapi

import (
	"context"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// applications are the routes that read, start and stop applications.
type applications struct {
	app.Applications
	line    func(ctx context.Context, owner app.AccountID, id app.ID, line string) error // app.Services.Type
	teams   app.Teams
	address func(app.ID) app.SiteAddress
}

func (a applications) information(c *call) (response, error) {
	snap, err := a.App(c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	mods, err := a.mods(c)
	if err != nil {
		return response{}, err
	}
	return ok(c.translate(standing(snap, c.now())), append([]member{{"apps", information(snap, mods)}}, c.site(snap, a.address)...)...)
}

func (a applications) informationOfAll(c *call) (response, error) {
	mods, err := a.mods(c)
	if err != nil {
		return response{}, err
	}
	list := convert(c.all, func(s app.Snapshot) object { return information(s, mods) })
	return ok(c.say("The information of your applications has been loaded."), member{"apps", list}, c.sites(c.all, a.address))
}

// mods are the members of each application of the account. A token with bounds sees none.
func (a applications) mods(c *call) (map[app.ID][]string, error) {
	if c.token.Bounds != nil {
		return nil, nil
	}
	all, err := a.teams.Members(c.Request.Context(), c.owner())
	mods := map[app.ID][]string{}
	for _, m := range all {
		mods[m.App] = append(mods[m.App], m.Account.String())
	}
	return mods, err
}

func information(s app.Snapshot, mods map[app.ID][]string) object {
	o := object{
		{"id", s.ID},
		{"avatarURL", s.AvatarURL},
		{"name", s.Name},
		{"type", s.Type},
		{"online", s.Running},
		{"ramKilled", s.RAMKilled()},
		{"exitCode", s.ExitCode()},
		{"ram", s.RAM},
		{"mainFile", s.Code.Main},
		{"lang", s.Code.Lang},
		{"mods", append([]string{}, mods[s.ID]...)}, // an empty list, not null
		{"autoDeployGit", "no"},
		{"autoRestart", s.AutoRestart},
		{"apts", append([]string{}, s.Apts...)}, // likewise
		{"addedTimestamp", s.CreatedAt.UnixMilli()},
	}
	if !s.Stale.IsZero() {
		o = append(o, member{"stale", true})
	}
	return o
}

// site is what an answer about a site has beside what public clients know: nothing for a
// bot. They know nothing of it, and show nothing else than before.
func (c *call) site(s app.Snapshot, address func(app.ID) app.SiteAddress) []member {
	if site := c.describeSite(s, address); site != nil {
		return []member{{"site", site}}
	}
	return nil
}

// sites is the same for an answer about several applications.
func (c *call) sites(all []app.Snapshot, address func(app.ID) app.SiteAddress) member {
	list := []object{}
	for _, s := range all {
		if site := c.describeSite(s, address); site != nil {
			list = append(list, site)
		}
	}
	return member{"sites", list}
}

// describeSite shows a site, nil for a bot.
func (c *call) describeSite(s app.Snapshot, address func(app.ID) app.SiteAddress) object {
	if s.Type != app.Site {
		return nil
	}
	at := address(s.ID)
	var why []string
	for _, text := range []app.Text{at.Why, s.Why} {
		if !text.IsZero() {
			why = append(why, sentence(c.translate(text)))
		}
	}
	return object{
		{"id", s.ID},
		{"addresses", append([]string{}, at.URLs...)}, // an empty list, not null
		{"listening", s.Reachable()},
		{"port", s.Elsewhere},               // 0 for its own
		{"message", strings.Join(why, " ")}, // "" when visitors find it
	}
}

func (a applications) status(c *call) (response, error) {
	st, err := a.Status(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The status of your application has been loaded."),
		append([]member{{"apps", measure(st, c.now())}, {"autoStarts", st.StartsByItself(c.now())}}, c.site(st.Snapshot, a.address)...)...)
}

func (a applications) statusOfAll(c *call) (response, error) {
	list, err := values(each(c.Request.Context(), c.all, readers, func(snap app.Snapshot) (app.Status, error) {
		return a.Status(c.Request.Context(), snap.Account, snap.ID) // and no more: the stacks of so many goroutines are small
	}))
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The status of your applications has been loaded."),
		member{"apps", convert(list, func(st app.Status) measured { return measure(st, c.now()) })}, c.sites(c.all, a.address))
}

// measured is the status of an application. It is a type, where other answers are an object,
// because tools ask for the status of all again and again: it is encoded in half the time.
type measured struct {
	ID          app.ID  `json:"id"`
	Container   string  `json:"container"`
	CPU         string  `json:"cpu"`
	Memory      string  `json:"memory"`
	SSD         string  `json:"ssd"`
	NetIO       traffic `json:"netIO"`
	LastRestart string  `json:"last_restart"`
	StartedAt   string  `json:"startedAt"`
	Stale       bool    `json:"stale,omitempty"`
}

type traffic struct {
	Down string `json:"down"`
	Up   string `json:"up"`
}

func measure(st app.Status, now time.Time) measured {
	limit := st.Usage.LimitBytes
	if limit <= 0 {
		limit = st.RAM.Bytes()
	}
	return measured{
		ID:          st.ID,
		Container:   container(st.Snapshot, now),
		CPU:         percent(st.Usage.CPUPercent),
		Memory:      memory(st.Usage.MemoryBytes, limit),
		SSD:         size(st.DiskBytes),
		NetIO:       traffic{Down: size(st.Usage.NetIn), Up: size(st.Usage.NetOut)},
		LastRestart: since(st.StartedAt, now),
		StartedAt:   timestamp(st.StartedAt),
		Stale:       !st.Stale.IsZero(),
	}
}

func (a applications) start(c *call) (response, error) {
	snap, err := a.Start(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	if now, err := a.Outcome(c.Request.Context(), c.owner(), c.id); err == nil { // else it is gone: it was started
		snap = now
	}
	return ok(c.outcome(app.Textf("Your application was started"), app.Deployed{Snapshot: snap}), runState(snap))
}

func (a applications) restart(c *call) (response, error) {
	if err := a.Restart(c.Request.Context(), c.owner(), c.id); err != nil {
		return response{}, err
	}
	done := app.Textf("Your application was restarted")
	if snap, err := a.Outcome(c.Request.Context(), c.owner(), c.id); err == nil {
		return ok(c.outcome(done, app.Deployed{Snapshot: snap}))
	}
	return ok(c.say("%v.", done)) // it is gone: it was restarted
}

func (a applications) stop(c *call) (response, error) {
	if err := a.Stop(c.Request.Context(), c.owner(), c.id); err != nil {
		return response{}, err
	}
	return ok(c.say("Your application was stopped."))
}

func (a applications) startAll(c *call) (response, error) {
	t := a.actAndWatch(c, func(ctx context.Context, owner app.AccountID, id app.ID) error {
		_, err := a.Start(ctx, owner, id)
		return err
	})
	now := slices.Clone(c.all)
	for i, was := range now {
		if is, err := a.App(was.Account, was.ID); err == nil {
			now[i] = is
		}
	}
	return t.answer(c, object{{"started", t.done}, {"alreadyOnline", t.already}, {"alreadyInProcess", t.busy}},
		counted(len(t.done), "%d application was started", "%d applications were started"),
		counted(len(t.already), "%d was online already", "%d were online already"), runState(now...))
}

// runState is the run state (2.7) of applications as one: online if all of them are, killed for its
// RAM if one was, and the exit code of the first that ended.
func runState(all ...app.Snapshot) member {
	online, killed, code := len(all) > 0, false, 0
	for _, s := range all {
		online, killed = online && s.Running, killed || s.RAMKilled()
		if code == 0 {
			code = s.ExitCode()
		}
	}
	return member{"appStatus", object{{"online", online}, {"ramKilled", killed}, {"exitCode", code}}}
}

func (a applications) restartAll(c *call) (response, error) {
	t := a.actAndWatch(c, a.Restart)
	return t.answer(c, object{{"restarted", t.done}, {"alreadyOffline", t.already}, {"alreadyInProcess", t.busy}},
		counted(len(t.done), "%d application was restarted", "%d applications were restarted"),
		counted(len(t.already), "%d was offline", "%d were offline"))
}

func (a applications) stopAll(c *call) (response, error) {
	t := act(c, a.Stop)
	return t.answer(c, object{
		{"stoped", t.done}, // the hosted service's spelling, which most clients read
		{"stopped", t.done}, {"alreadyOffline", t.already}, {"alreadyInProcess", t.busy},
	},
		counted(len(t.done), "%d application was stopped", "%d applications were stopped"),
		counted(len(t.already), "%d was offline already", "%d were offline already"))
}

const (
	// watchAll bounds the answer of a start or restart of all, and watchLast is how
	// long at least the last program is watched where the starts alone took as long.
	watchAll  = 2800 * time.Millisecond
	watchLast = 1200 * time.Millisecond
)

// actAndWatch is act for starts: programs that have ended once they have been
// watched are among those that failed.
func (a applications) actAndWatch(c *call, do action) tally {
	begun := time.Now()
	t := act(c, do)
	ctx, cancel := context.WithTimeout(c.Request.Context(), max(watchAll-time.Since(begun), watchLast))
	defer cancel()
	started := slices.DeleteFunc(slices.Clone(c.all), func(s app.Snapshot) bool { return !slices.Contains(t.done, s.ID) })
	results := each(ctx, started, len(started), func(snap app.Snapshot) (app.Snapshot, error) {
		return a.Outcome(ctx, snap.Account, snap.ID)
	})
	t.watched = len(started) > 0
	for _, r := range results {
		now := r.value
		if r.err != nil || now.Running || now.LastExit == nil || now.LastExit.Asked {
			continue
		}
		t.done = slices.DeleteFunc(t.done, func(id app.ID) bool { return id == r.of.ID })
		t.failed = append(t.failed, r.of.ID)
		t.reasons = append(t.reasons, c.say("%s failed: it %v", r.of.ID, now.LastExit.Ending()))
	}
	return t
}

// action is a change of one application.
type action = func(ctx context.Context, owner app.AccountID, id app.ID) error

// tally sorts applications by what came of an action.
type tally struct {
	done, already, busy, failed []app.ID
	reasons                     []string // why each of failed failed
	first                       error    // of the failures, in the order of the applications
	watched                     bool     // something was started, whatever has become of it
}

// act runs one action on every application that is meant.
func act(c *call, do action) tally {
	ctx := c.Request.Context()
	results := each(ctx, c.all, actors, func(snap app.Snapshot) (struct{}, error) {
		return struct{}{}, do(ctx, snap.Account, snap.ID)
	})
	keepParts(&c.audit, results)
	t := tally{done: []app.ID{}, already: []app.ID{}, busy: []app.ID{}} // clients need every list
	for _, r := range results {
		switch id := r.of.ID; {
		case r.err == nil:
			t.done = append(t.done, id)
		case app.KindOf(r.err) == app.Already:
			t.already = append(t.already, id)
		case app.KindOf(r.err) == app.Conflict:
			t.busy = append(t.busy, id)
		default:
			_, message, _ := c.explain(r.err)
			t.failed = append(t.failed, id)
			t.reasons = append(t.reasons, c.say("%s failed: %s", id, message))
			if t.first == nil {
				t.first = r.err
			}
		}
	}
	return t
}

// answer is the answer of an action on every application, with its lists, and more beside
// them: "2 applications were started, 1 was offline. x failed: ...". It fails only as a whole.
func (t tally) answer(c *call, lists object, done, already app.Text, more ...member) (response, error) {
	if len(t.done) == 0 && !t.watched && t.first != nil {
		return response{}, t.first
	}
	if len(t.failed) > 0 {
		lists = append(lists, member{"failed", t.failed}) // ours, which no client needs
	}
	if len(t.done)+len(t.already)+len(t.busy)+len(t.failed) == 0 {
		return ok(c.say(noApplications), append([]member{{"apps", lists}}, more...)...)
	}
	parts := []string{c.translate(done)}
	if len(t.already) > 0 {
		parts = append(parts, c.translate(already))
	}
	if n := len(t.busy); n > 0 {
		parts = append(parts, c.translate(counted(n, "%d was busy with another operation", "%d were busy with another operation")))
	}
	message := strings.Join(parts, ", ") + "."
	for _, reason := range t.reasons {
		message += " " + sentence(reason)
	}
	return ok(message, append([]member{{"apps", lists}}, more...)...)
}
