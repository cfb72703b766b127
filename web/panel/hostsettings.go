package panel

import (
	"net/http"
	"net/url"

	"berth/app"
)

// hostSettingPages are where an administrator changes settings of the host.
type hostSettingPages struct{ settings app.HostSettings }

// hostSettingsPage is the data of hostsettings.html.
type hostSettingsPage struct {
	Sections []settingSection
	Waits    bool // something holds only from the next start or reload of the daemon
	Free     bool // something can be changed
}

// settingSection is the settings of one section of the settings file.
type settingSection struct {
	Name string // "" for the settings without one
	Rows []app.HostSetting
}

func (p *hostSettingPages) show(c *call) (answer, error) {
	all, err := p.settings.HostSettings(c.ctx())
	var page hostSettingsPage
	for _, h := range all {
		page.Waits, page.Free = page.Waits || h.Waits, page.Free || h.Fixed == ""
		if typed := c.Request.PostForm; c.problem != "" && typed.Has(h.Key) {
			h.Value = typed.Get(h.Key)
		}
		if n := len(page.Sections); n == 0 || page.Sections[n-1].Name != h.Section {
			page.Sections = append(page.Sections, settingSection{Name: h.Section})
		}
		last := &page.Sections[len(page.Sections)-1]
		last.Rows = append(last.Rows, h)
	}
	return show("hostsettings", page), err
}

// set stores what was typed; what the form does not have stays.
func (p *hostSettingPages) set(c *call, f url.Values) (answer, error) {
	all, err := p.settings.HostSettings(c.ctx())
	if err != nil {
		return answer{}, err
	}
	values := map[string]string{}
	for _, h := range all {
		if f.Has(h.Key) {
			values[h.Key] = f.Get(h.Key)
		}
	}
	changed, err := p.settings.SetHostSettings(c.ctx(), values)
	if err != nil {
		return answer{}, err
	}
	if len(changed) == 0 {
		return done(hostSettingsPath, c.lang.Say("Nothing was changed.")), nil
	}
	for _, h := range changed {
		c.audit.Note("%s=%q was=%q", h.Key, h.Value, h.Default)
	}
	return done(hostSettingsPath, c.lang.Say("The settings are stored. They hold once the daemon has read them.")), nil
}

const hostSettingsPath = "/host/settings"

// settingRoutes are those of the host's settings.
func (p *pages) settingRoutes() []route {
	return []route{
		{http.MethodGet, hostSettingsPath, admin, ownerOnly, p.hostConfig.show, "", nil},
		{http.MethodPost, hostSettingsPath, admin | again, ownerOnly, form(p.hostConfig.set), "host.settings", p.hostConfig.show},
	}
}
