package httpapi

import (
	"time"

	"berth/app"
)

// planEnd is the end of every plan: an account here does not expire, but
// clients need a date, and this one lies within what time.Duration can count.
var planEnd = time.Date(2099, time.December, 31, 23, 59, 59, 0, time.UTC)

type userAnswer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	User    user   `json:"user"`
}

type user struct {
	UserID        string   `json:"userID"`
	TotalRAMMB    app.MB   `json:"totalRamMb"`
	RAMUsedMB     app.MB   `json:"ramUsedMb"`
	Subdomains    []app.ID `json:"subdomains"`
	CustomDomains []string `json:"customdomains"`
	Apps          []app.ID `json:"apps"`
	Plan          string   `json:"plan"`
	Locale        string   `json:"locale"`
	LastDataLeft  timeLeft `json:"lastDataLeft"`
	PlanDataEnd   string   `json:"planDataEnd"`
	Username      string   `json:"username"`
}

type timeLeft struct {
	Days    int64 `json:"days"`
	Hours   int64 `json:"hours"`
	Minutes int64 `json:"minutes"`
	Seconds int64 `json:"seconds"`
}

// appsAnswer carries one object or, for "all", an array.
type appsAnswer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	Apps    any    `json:"apps"`
}

type information struct {
	ID            app.ID   `json:"id"`
	AvatarURL     string   `json:"avatarURL"`
	Name          string   `json:"name"`
	Type          app.Type `json:"type"`
	Online        bool     `json:"online"`
	RAMKilled     bool     `json:"ramKilled"`
	ExitCode      int      `json:"exitCode"`
	RAM           app.MB   `json:"ram"`
	MainFile      string   `json:"mainFile"`
	Lang          string   `json:"lang"`
	Mods          []string `json:"mods"`
	AutoDeployGit string   `json:"autoDeployGit"`
	AutoRestart   bool     `json:"autoRestart"`
	Apts          []string `json:"apts"`

	AddedTimestamp int64 `json:"addedTimestamp"` // milliseconds
}

type status struct {
	ID          app.ID `json:"id"`
	Container   string `json:"container"`
	CPU         string `json:"cpu"`
	Memory      string `json:"memory"`
	SSD         string `json:"ssd"`
	NetIO       netIO  `json:"netIO"`
	LastRestart string `json:"last_restart"`
	StartedAt   string `json:"startedAt"`
}

type netIO struct {
	Down string `json:"down"`
	Up   string `json:"up"`
}

func (s *server) user(c *call) (response, error) {
	names, err := s.Names.Names(c.Request.Context(), c.account.ID)
	if err != nil {
		return response{}, err
	}
	u := s.describeUser(c.account, s.Applications.Apps(c.account.ID), names)
	return ok(userAnswer{statusOK, c.say("The information of your account has been loaded."), u})
}

func (s *server) describeUser(a app.Account, apps []app.Snapshot, names app.NameList) user {
	u := user{
		UserID:        a.ID.String(),
		TotalRAMMB:    a.TotalRAM,
		Subdomains:    []app.ID{},
		CustomDomains: []string{},
		Apps:          []app.ID{},
		Plan:          a.Plan,
		Locale:        a.Locale,
		LastDataLeft:  split(planEnd.Sub(s.Now())),
		PlanDataEnd:   timestamp(planEnd),
		Username:      a.Name,
	}
	for _, snap := range apps {
		u.Apps = append(u.Apps, snap.ID)
		u.RAMUsedMB += snap.RAM
	}
	for _, sub := range names.Subdomains {
		u.Subdomains = append(u.Subdomains, sub.ID)
	}
	for _, d := range names.Domains {
		u.CustomDomains = append(u.CustomDomains, d.Name)
	}
	return u
}

func split(d time.Duration) timeLeft {
	seconds := int64(max(d, 0) / time.Second)
	return timeLeft{
		Days:    seconds / 86400,
		Hours:   seconds / 3600 % 24,
		Minutes: seconds / 60 % 60,
		Seconds: seconds % 60,
	}
}

func (s *server) information(c *call) (response, error) {
	snap, err := s.Applications.App(c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	mods, err := s.mods(c)
	if err != nil {
		return response{}, err
	}
	return ok(appsAnswer{statusOK, c.tell(standing(snap, s.Now())), describe(snap, mods)})
}

func (s *server) informationOfAll(c *call) (response, error) {
	mods, err := s.mods(c)
	if err != nil {
		return response{}, err
	}
	list := []information{}
	for _, snap := range s.Applications.Apps(c.owner()) {
		list = append(list, describe(snap, mods))
	}
	return ok(appsAnswer{statusOK, c.say("The information of your applications has been loaded."), list})
}

func describe(s app.Snapshot, mods map[app.ID][]string) information {
	i := information{
		ID:            s.ID,
		AvatarURL:     s.AvatarURL,
		Name:          s.Name,
		Type:          s.Type,
		Online:        s.Running,
		RAMKilled:     s.RAMKilled(),
		ExitCode:      s.ExitCode(),
		RAM:           s.RAM,
		MainFile:      s.Code.Main,
		Lang:          s.Code.Lang,
		Mods:          []string{},
		AutoDeployGit: "no",
		AutoRestart:   s.AutoRestart,
		Apts:          append([]string{}, s.Apts...), // an empty list, not null

		AddedTimestamp: s.CreatedAt.UnixMilli(),
	}
	i.Mods = append(i.Mods, mods[s.ID]...)
	return i
}

func (s *server) status(c *call) (response, error) {
	st, err := s.Applications.Status(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	return ok(appsAnswer{statusOK, c.say("The status of your application has been loaded."), measure(st, s.Now())})
}

func (s *server) statusOfAll(c *call) (response, error) {
	results := each(c.Request.Context(), s.meant(c), readers, func(snap app.Snapshot) (app.Status, error) {
		return s.Applications.Status(c.Request.Context(), snap.Account, snap.ID)
	})
	list := []status{}
	for _, r := range results {
		if r.err != nil {
			return response{}, r.err
		}
		list = append(list, measure(r.value, s.Now()))
	}
	return ok(appsAnswer{statusOK, c.say("The status of your applications has been loaded."), list})
}

func measure(st app.Status, now time.Time) status {
	limit := st.Usage.LimitBytes
	if limit <= 0 {
		limit = st.RAM.Bytes()
	}
	return status{
		ID:          st.ID,
		Container:   container(st.Snapshot, now),
		CPU:         percent(st.Usage.CPUPercent),
		Memory:      memory(st.Usage.MemoryBytes, limit),
		SSD:         size(st.DiskBytes),
		NetIO:       netIO{Down: size(st.Usage.NetIn), Up: size(st.Usage.NetOut)},
		LastRestart: since(st.StartedAt, now),
		StartedAt:   timestamp(st.StartedAt),
	}
}
