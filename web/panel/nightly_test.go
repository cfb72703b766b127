package panel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

func (h *apps) Snapshots(_ context.Context, owner app.AccountID, id app.ID) ([]app.BackupSnapshot, error) {
	if _, err := h.App(owner, id); err != nil {
		return nil, err
	}
	return h.nights, h.unread
}

func (h *apps) RestoreSnapshot(ctx context.Context, owner app.AccountID, id app.ID, run string, withVariables bool) (app.Deployed, error) {
	if err := h.on(owner, id, fmt.Sprint("restore snapshot ", run, " ", withVariables)); err != nil {
		return app.Deployed{}, err
	}
	return h.deployed(ctx, run)
}

func (h *apps) CopySnapshot(ctx context.Context, owner app.Account, id app.ID, run string, withVariables bool) (app.Deployed, error) {
	if err := h.on(owner.ID, id, fmt.Sprint("copy snapshot ", run, " ", withVariables, " for ", owner.ID)); err != nil {
		return app.Deployed{}, err
	}
	return h.deployed(ctx, run)
}

// fakeBackups is the backup of a host. What is asked of it is among what was done.
type fakeBackups struct {
	host *apps

	mu     sync.Mutex
	status app.BackupStatus
	fail   error // of StartBackup
}

func (b *fakeBackups) BackupStatus(context.Context) (app.BackupStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status, nil
}

func (b *fakeBackups) SetBackupPolicy(_ context.Context, p app.BackupPolicy) error {
	if _, err := time.Parse("15:04", p.At); err != nil {
		return app.Errorf(app.Invalid, "%.10s is no time of a day", p.At)
	}
	if p.Daily < 0 {
		return app.Errorf(app.Invalid, "backups cannot be kept for %d days", p.Daily)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Policy = p
	return b.host.act(fmt.Sprintf("backups at %s, %d %d %d, %s", p.At, p.Daily, p.Weekly, p.Monthly, p.Rehearse), "host")
}

func (b *fakeBackups) StartBackup(_ context.Context, rehearse bool) error {
	if b.fail != nil {
		return b.fail
	}
	return b.host.act(map[bool]string{true: "start a rehearsal", false: "start a backup"}[rehearse], "host")
}

// set changes how the backup is.
func (b *fakeBackups) set(s app.BackupStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status = s
}

// goodBackups are those of a host that is backed up well.
func goodBackups() app.BackupStatus {
	now := time.Now()
	night := app.BackupRun{ID: 3, Kind: app.BackupMade, Run: app.RunName(now.Add(-5 * time.Hour)), Began: now.Add(-5 * time.Hour), Ended: now.Add(-4 * time.Hour), Apps: 12, Reused: 9, Bytes: 3 << 30, Stored: 40 << 20}
	return app.BackupStatus{
		Repository: "sftp:backup@nas.example.org:/srv/berth", Policy: app.BackupPolicy{At: "03:15", Daily: 7, Weekly: 4, Monthly: 6, Rehearse: 7 * 24 * time.Hour},
		Next: now.Add(19*time.Hour + time.Minute), Last: &night, Good: &night, Since: now.Add(-1000 * time.Hour), KeyShown: true,
		Rehearsed: &app.BackupRun{ID: 2, Kind: app.BackupRehearsed, Began: now.Add(-49 * time.Hour), Ended: now.Add(-48 * time.Hour), Apps: 12},
	}
}

// An administrator reads where backups go, how the last ones were, and what to do.
func TestHostSaysHowItsBackupsAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	failed := func(kind app.BackupKind) *app.BackupRun {
		return &app.BackupRun{Kind: kind, Began: ago(2 * time.Hour), Ended: ago(time.Hour), Error: "cannot reach the repository <nas>: connection refused"}
	}
	warnings := []string{"A backup is missing.", "The last backup failed.", "The last rehearsal failed.", "The backups are not rehearsed.", "The key of the backups was never shown.", "never rehearsed", "under way"}
	for name, tt := range map[string]struct {
		change func(s *app.BackupStatus)
		says   []string // of warnings, first, and others
	}{
		"well": {func(*app.BackupStatus) {}, []string{
			"sftp:backup@nas.example.org:/srv/berth", "in 19 h", "5 h ago", "3 GB", "40 MB new", "<dd>12 <span class=\"faint\">9 unchanged</span>",
			`<span class="tag">can be restored</span>`, "2 days ago", "Back up now", "Rehearse now", `name="at" type="time" value="03:15" required>`, `name="days" type="number" min="0" inputmode="numeric" value="7" required>`,
		}},
		"nothing set up": {func(s *app.BackupStatus) { *s = app.BackupStatus{} }, []string{"Nothing is backed up.", "[backups]\nrepository = "}},
		"the first night is to come": {func(s *app.BackupStatus) { s.Good, s.Last, s.Rehearsed, s.Since = nil, nil, nil, ago(time.Hour) }, []string{
			"never rehearsed", "<dt>Last good backup</dt><dd>none yet</dd>",
		}},
		"never rehearsed":          {func(s *app.BackupStatus) { s.Rehearsed = nil }, []string{"never rehearsed", "The backups are not rehearsed."}},
		"never rehearsed, and new": {func(s *app.BackupStatus) { s.Rehearsed, s.Since = nil, ago(50*time.Hour) }, []string{"never rehearsed"}},
		"rehearsed long ago":       {func(s *app.BackupStatus) { s.Rehearsed.Began = ago(15 * 24 * time.Hour) }, []string{"The backups are not rehearsed.", "can be restored"}},
		"the rehearsal failed": {func(s *app.BackupStatus) { s.Rehearsed = failed(app.BackupRehearsed) }, []string{
			"The last rehearsal failed.", "The backups are not rehearsed.", "repository &lt;nas&gt;: connection refused", `<span class="tag bad">failed</span>`,
		}},
		"the last one failed": {func(s *app.BackupStatus) { s.Last = failed(app.BackupMade) }, []string{"The last backup failed.", "repository &lt;nas&gt;: connection refused", "3 GB"}},
		"missing":             {func(s *app.BackupStatus) { s.Good.Began = ago(37 * time.Hour) }, []string{"A backup is missing.", "for more than 36 hours"}},
		"no key":              {func(s *app.BackupStatus) { s.KeyShown = false }, []string{"The key of the backups was never shown.", "<code>sudo berth backup key</code>"}},
		"files missing":       {func(s *app.BackupStatus) { s.Good.Missing = []app.ID{"shop", "gone"} }, []string{"not in it: The shop, gone<"}},
		"a backup runs": {func(s *app.BackupStatus) {
			s.Running = &app.BackupRun{Kind: app.BackupMade, Began: ago(10 * time.Minute)}
		}, []string{
			"under way", "A backup is under way", "10 min ago",
		}},
		"a rehearsal runs": {func(s *app.BackupStatus) {
			s.Running = &app.BackupRun{Kind: app.BackupRehearsed, Began: ago(10 * time.Minute)}
		}, []string{"under way", "A rehearsal is under way"}},
		"settings of the file": {func(s *app.BackupStatus) {
			s.Fixed, s.Policy.Rehearse = []string{"backups.at", "backups.rehearse"}, 12*time.Hour
		}, []string{
			"The backups are not rehearsed.", "can be restored", `value="0.5" required readonly`,
			`name="at" type="time" value="03:15" required readonly aria-describedby="backup-fixed">`, "berth.toml sets it: <code>backups.at</code> <code>backups.rehearse</code>", `value="4" required>`, ">Save</button></form>\n<p class=\"faint\" id=\"backup-fixed\">",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := goodBackups()
			tt.change(&s)
			w.backups.set(s)
			p := w.as("ana").get("/host")
			p.want(t, name, http.StatusOK, tt.says...)
			for _, warning := range warnings {
				expected := strings.Contains(strings.Join(tt.says, "\n"), warning)
				if strings.Contains(p.body, warning) != expected {
					t.Errorf("the page says %q: %v", warning, !expected)
				}
			}
		})
	}
	must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, "pt-BR"))
	s := goodBackups()
	s.KeyShown, s.Last = false, failed(app.BackupMade)
	w.backups.set(s)
	w.as("ana").get("/host").want(t, "in Portuguese", http.StatusOK, "O último backup falhou.", "em 19 h", "Fazer um backup agora")
}

// What the settings file decides is what it decides, whatever a form says.
func TestFixedPolicyStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	s := goodBackups()
	s.Fixed = []string{"backups.at", "backups.keep_weekly"}
	w.backups.set(s)
	b := w.as("ana")
	next := b.post("/host/backups", "at", "09:00", "daily", "3", "weekly", "0", "monthly", "1", "days", "1").leads(t, "the policy", "/host")
	if got := strings.Join(w.host.done, "|"); got != "backups at 03:15, 3 4 1, 24h0m0s host" {
		t.Errorf("done is %q", got)
	}
	b.get(next).want(t, "the page", http.StatusOK, "When the host is backed up, and what is kept, was changed.")
	s.Fixed = []string{"backups.at", "backups.keep_daily", "backups.keep_weekly", "backups.keep_monthly", "backups.rehearse"}
	w.backups.set(s)
	if p := b.get("/host"); strings.Contains(p.body, "Save</button></form>\n<p class=\"faint\" id=\"backup-fixed\">") {
		t.Error("there is a button where nothing can be saved")
	}
}

// A backup that cannot begin says why, where it was asked for.
func TestBackupCannotBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	w.backups.set(goodBackups())
	b := w.as("ana")
	b.get(b.post("/host/backups/start").leads(t, "a backup", "/host")).want(t, "its page", http.StatusOK, "A backup has begun.")
	b.get(b.post("/host/backups/rehearse").leads(t, "a rehearsal", "/host")).want(t, "its page", http.StatusOK, "A rehearsal has begun.")
	w.backups.fail = app.Errorf(app.Already, "a backup is under way already")
	b.post("/host/backups/start").want(t, "a second one", http.StatusConflict, "A backup is under way already.", `id="backups"`)
	w.backups.fail = app.Errorf(app.Unusable, "no repository is set up")
	b.post("/host/backups/rehearse").want(t, "none set up", http.StatusUnprocessableEntity, "No repository is set up.")
}

// A host that can have no backups shows no part of it, and does nothing of it.
func TestNoBackupsAtAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Snapshots, c.HostBackups = nil, nil })
	seed(w)
	b := w.as("ana")
	for _, path := range []string{"/host", "/apps/shop/backups"} {
		p := b.get(path)
		p.want(t, path, http.StatusOK)
		if strings.Contains(p.body, `id="backups"`) || strings.Contains(p.body, `id="nightly"`) {
			t.Errorf("%s has a part about backups of the host", path)
		}
	}
	for path, form := range map[string][]string{
		"/host/backups": {"at", "03:15"}, "/host/backups/start": nil, "/host/backups/rehearse": nil,
		"/apps/shop/snapshots/20261126T031500Z/restore": {"sure", "true"}, "/apps/shop/snapshots/20261126T031500Z/copy": nil,
	} {
		b.post(path, form...).want(t, path, http.StatusNotFound)
	}
	if len(w.host.done) > 0 {
		t.Errorf("done is %v", w.host.done)
	}
}

// The owner of an application sees its nights, and restores one; nobody else does.
func TestNightlySnapshots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	p := b.get("/apps/bot/backups")
	p.want(t, "the nights", http.StatusOK, "Nightly snapshots", `datetime="2026-11-26T03:15:00Z" data-moment`, "<span>471 KB</span>", `action="/apps/bot/snapshots/20261125T031500Z/restore"`,
		`action="/apps/bot/snapshots/20261126T031500Z/copy"`, "also those that were made since", "a rollback on the page Deploys undoes it")
	if strings.Count(p.body, `<li id="snapshot-`) != 2 {
		t.Error("there are not two nights")
	}
	p = b.get("/apps/shop/backups")
	p.want(t, "a site", http.StatusOK, "A second site needs an address of its own")
	if strings.Contains(p.body, "Z/copy") {
		t.Error("a site can be copied beside itself")
	}
	if p := w.as("bob").get("/apps/shop/backups"); p.StatusCode != http.StatusOK || strings.Contains(p.body, "snapshot") {
		t.Errorf("a member sees the nights: %d", p.StatusCode)
	}
	w.host.nights = nil
	b.get("/apps/bot/backups").want(t, "none", http.StatusOK, "None yet. They come with the backup of the host, which its administrator sets up.")
	w.host.unread = app.Errorf(app.Unavailable, "the backup of this host cannot be read now")
	b.get("/apps/bot/backups").want(t, "unreadable", http.StatusOK, "The backup of this host cannot be read now.", "/d/signed-shop.0123.zip")
	w.host.unread = errors.New("a bug")
	b.get("/apps/bot/backups").want(t, "broken", http.StatusInternalServerError)
}

// A restore goes on without the browser, says how far it is, and what came of it.
func TestRestoreOfASnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	steps, goOn := make(chan struct{}), make(chan struct{})
	w.host.deployed = func(ctx context.Context, _ string) (app.Deployed, error) {
		step := func() { steps <- struct{}{}; <-goOn }
		step()
		app.ProgressOf(ctx)(app.Progress{Phase: app.Checked, App: "new"})
		step()
		app.ProgressOf(ctx)(app.Progress{Phase: app.Launching, App: "new"})
		step()
		return app.Deployed{}, app.Errorf(app.Unusable, "the program <ended> at once")
	}
	done := regexp.MustCompile(`<li class="(\w+)"><span class="state">.*?<span>([^<]+)</span>`)
	at := func(job string) (line string) {
		for _, step := range done.FindAllStringSubmatch(b.get(job).body, -1) {
			line += step[1] + " " + step[2] + ", "
		}
		return line
	}
	for what, form := range map[string][]string{"restore": {"sure", "true"}, "copy": nil} {
		p := b.post("/apps/bot/snapshots/20261126T031500Z/"+what, form...)
		job := p.Header.Get("Location")
		if p.StatusCode != http.StatusSeeOther || !strings.HasPrefix(job, "/uploads/") {
			t.Fatalf("%s: %d to %q", what, p.StatusCode, job)
		}
		for _, want := range []string{"busy Fetching the files, off Checking and unpacking,", "good Fetching the files, busy Checking and unpacking,", "good Building, busy Starting,"} {
			<-steps
			if got := at(job); !strings.Contains(got, want) {
				t.Errorf("%s: it is at %q, want %q", what, got, want)
			}
			goOn <- struct{}{}
		}
		w.work.Wait()
		b.get(job).want(t, what, http.StatusOK, "The program &lt;ended&gt; at once.", `href="/apps/bot/backups"`, "Try again")
		if act := w.acts.last(); act.Operation != "app."+what || act.App != "bot" || act.Status != http.StatusUnprocessableEntity ||
			act.Detail != map[string]string{"restore": "snapshot=20261126T031500Z", "copy": "snapshot=20261126T031500Z from=bot"}[what] {
			t.Errorf("the audit log has %+v", act)
		}
	}
	w.ending = true
	b.post("/apps/bot/snapshots/20261126T031500Z/copy").want(t, "at the end", http.StatusServiceUnavailable, "The server is shutting down; try again in a minute.")
}
