package panel

import (
	"net/http"
	"net/url"
	"slices"

	"berth/app"
)

const stepsPath = "/first-steps"

// stepsSuffix makes the name of the cookie of a browser that shows the first steps no more among
// the applications.
const stepsSuffix = "-steps"

// stepPages lead who is new from the password to a host, or an account, that is whole.
type stepPages struct {
	apps    app.Applications
	notices app.Notices
	backups app.HostBackups // nil where the host can have none
	sites   string
}

// step is one of them. What is done is seen, and never stored.
type step struct {
	Name string // as in first-steps.html
	Done bool
}

// stepsPage is the data of steps.html.
type stepsPage struct {
	Steps    []step
	Done     int // of Steps
	Hidden   bool
	Sites    string
	Backed   bool // a repository is set up, and there is no good backup yet
	Restarts bool // every application starts again when it crashes
}

// look sees what is done. Who does not run the host has fewer steps.
func (p *stepPages) look(c *call) (stepsPage, error) {
	channels, err := p.notices.Channels(c.ctx(), c.account.ID)
	if err != nil {
		return stepsPage{}, err
	}
	page := stepsPage{Sites: p.sites, Hidden: c.hidesSteps()}
	if c.account.Admin {
		page.Steps = append(page.Steps, step{"domain", c.encrypted && p.sites != ""})
	}
	apps := p.apps.Apps(c.account.ID)
	page.Restarts = !slices.ContainsFunc(apps, func(s app.Snapshot) bool { return !s.AutoRestart })
	page.Steps = append(page.Steps, step{"app", len(apps) > 0}, step{"channel", len(channels) > 0})
	if c.account.Admin && p.backups != nil {
		s, err := p.backups.BackupStatus(c.ctx())
		if err != nil {
			return stepsPage{}, err
		}
		page.Backed = s.Repository != "" && s.Good == nil
		page.Steps = append(page.Steps, step{"backup", s.Repository != "" && s.Good != nil})
	}
	for _, s := range page.Steps {
		if s.Done {
			page.Done++
		}
	}
	return page, nil
}

// left is look for who has something to do and has not hidden it, nil for others.
func (p *stepPages) left(c *call) (*stepsPage, error) {
	if c.hidesSteps() {
		return nil, nil //nolint:nilnil // nothing to show is no failure
	}
	page, err := p.look(c)
	if err != nil || page.Done == len(page.Steps) {
		return nil, err
	}
	return &page, nil
}

func (p *stepPages) show(c *call) (answer, error) {
	page, err := p.look(c)
	return show("steps", page), err
}

// hide has the browser show the first steps no more among the applications, or again.
func (*stepPages) hide(c *call, f url.Values) (answer, error) {
	if f.Get("hide") == "true" {
		c.setCookie(stepsSuffix, "hidden", choiceTime)
		return leadTo("/"), nil
	}
	c.setCookie(stepsSuffix, "", 0)
	return leadTo(stepsPath), nil
}

// hidesSteps reports whether the browser shows them no more.
func (c *call) hidesSteps() bool {
	cookie, err := c.Request.Cookie(c.cookieName() + stepsSuffix)
	return err == nil && cookie.Value == "hidden"
}

// firstPage is where an account begins that has just got a password: with its first steps as long as it has no
// application.
func firstPage(apps app.Applications, account app.AccountID) string {
	if len(apps.Apps(account)) == 0 {
		return stepsPath
	}
	return "/account"
}

// stepRoutes are those of the first steps.
func (p *pages) stepRoutes() []route {
	return []route{
		{http.MethodGet, stepsPath, signedIn, ownerOnly, p.steps.show, "", nil},
		{http.MethodPost, stepsPath, signedIn, ownerOnly, form(p.steps.hide), "", nil},
	}
}
