package httpapi

import (
	"slices"
	"time"

	"berth/app"
)

// planEnd is the end of every plan: an account here does not expire, but
// clients need a date, and this one lies within what time.Duration can count.
var planEnd = time.Date(2099, time.December, 31, 23, 59, 59, 0, time.UTC)

// clusterName is where every application is, for clients that show it.
const clusterName = "berth"

// accounts are the routes of the account itself.
type accounts struct {
	app.Accounts
	apps  app.Applications
	names app.Names
	teams app.Teams
}

func (a accounts) user(c *call) (response, error) {
	u, err := a.describe(c)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The information of your account has been loaded."), member{"user", u})
}

// vscode is all that the extension of VS Code shows, in one answer.
func (a accounts) vscode(c *call) (response, error) {
	teams, err := a.teams.Memberships(c.Request.Context(), c.account.ID)
	if err != nil {
		return response{}, err
	}
	u, err := a.describe(c)
	if err != nil {
		return response{}, err
	}
	apps := c.covered(a.apps.Apps(c.account.ID))
	teams = slices.DeleteFunc(teams, func(m app.Membership) bool { return !c.token.Bounds.Covers(m.App) })
	u = append(u, object{
		{"appsStatus", convert(apps, describeForVSCode)},
		{"appsTeam", convert(teams, func(m app.Membership) app.ID { return m.App })},
	}...)
	return ok(c.say("The information of your account has been loaded."), member{"user", u})
}

// describe shows the account that asks. Within bounds the lists hold what is within them;
// the sums are the account's.
func (a accounts) describe(c *call) (object, error) {
	names, err := a.names.Names(c.Request.Context(), c.account.ID)
	if err != nil {
		return nil, err
	}
	apps, used := a.apps.Apps(c.account.ID), app.MB(0)
	for _, snap := range apps {
		used += snap.Charged()
	}
	apps = c.covered(apps)
	names.Subdomains = slices.DeleteFunc(names.Subdomains, func(s app.Subdomain) bool { return !c.token.Bounds.Covers(s.ID) })
	names.Domains = slices.DeleteFunc(names.Domains, func(d app.Domain) bool { return !c.token.Bounds.Covers(d.App) })
	user := object{
		{"userID", c.account.ID.String()},
		{"totalRamMb", c.account.TotalRAM},
		{"ramUsedMb", used},
		{"subdomains", convert(names.Subdomains, func(s app.Subdomain) app.ID { return s.ID })},
		{"customdomains", convert(names.Domains, func(d app.Domain) string { return d.Name })},
		{"apps", convert(apps, func(s app.Snapshot) app.ID { return s.ID })},
		{"plan", c.account.Plan},
		{"locale", app.ClientLocale(c.account.Locale)},
		{"lastDataLeft", split(planEnd.Sub(c.now()))},
		{"planDataEnd", timestamp(planEnd)},
		{"username", c.account.Name},
		{"avatar", nil}, // accounts have none; official clients read it
		{"language", c.account.Locale},
	}
	if c.account.Limits != (app.Limits{}) { // clients that know no such field print it for people
		user = append(user, member{"limits", describeLimits(c.account.Limits)})
	}
	return user, nil
}

// describeLimits shows what an account may have beside its RAM; null is no limit.
func describeLimits(l app.Limits) object {
	number := func(n int64) any {
		if n == 0 {
			return nil
		}
		return n
	}
	return object{
		{"diskMb", number(int64(l.Disk))},
		{"applications", number(int64(l.Apps))},
		{"cpuPercent", number(int64(l.CPU))},
		{"builds", number(int64(l.Builds))},
		{"backups", number(int64(l.Backups))},
	}
}

func split(d time.Duration) object {
	seconds := int64(max(d, 0) / time.Second)
	return object{
		{"days", seconds / 86400}, {"hours", seconds / 3600 % 24}, {"minutes", seconds / 60 % 60}, {"seconds", seconds % 60},
	}
}

func describeForVSCode(s app.Snapshot) object {
	return object{
		{"id", s.ID},
		{"name", s.Name},
		{"apts", append([]string{}, s.Apts...)}, // an empty list, not null
		{"autoRestart", s.AutoRestart},
		{"avatarURL", s.AvatarURL},
		{"clusterName", clusterName},
		{"exitCode", s.ExitCode()},
		{"lang", s.Code.Lang},
		{"mainFile", s.Code.Main},
		{"online", s.Running},
		{"ram", s.RAM},
		{"ramKilled", s.RAMKilled()},
		{"type", s.Type},
		{"version", s.Code.Version},
	}
}

func (a accounts) setLocale(c *call) (response, error) {
	locale := c.params.ByName("locale")
	c.audit.Note("locale=%s", locale)
	err := a.SetLocale(c.Request.Context(), c.account.ID, locale)
	if app.KindOf(err) == app.NotFound {
		resp := c.failure(err)
		resp.body.(*errorBody).LocaleList = app.Locales
		return resp, nil
	}
	if err != nil {
		return response{}, err
	}
	c.locale = locale // in which the answer is the first
	return ok(c.say("Your locale was set to %s.", locale), member{"locale", locale})
}
