package panel

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"berth/app"
)

// paletteApps is how many applications the palette gets, problems first. The others are found by the
// search of the list, to which it leads.
const paletteApps = 1000

// paletteFrame is what static/palette.js finds things in. Names are put into the page as text alone.
type paletteFrame struct {
	Apps []paletteApp `json:"apps"`
	More bool         `json:"more"` // there are more applications
	// Letters are those of the languages.
	Letters map[string]string `json:"letters"`
	Pages   []paletteItem     `json:"pages"`
	Acts    []paletteItem     `json:"acts"`
	Tabs    []paletteTab      `json:"tabs"` // the pages of an application
	Deeds   []paletteItem     `json:"deeds"`
}

// paletteApp is one application.
type paletteApp struct {
	ID    app.ID `json:"id"`
	Name  string `json:"name"`
	Owner string `json:"owner,omitempty"`
	Class string `json:"class"`
	Word  string `json:"word"`
	Lang  string `json:"lang"`
	Icon  string `json:"icon,omitempty"` // the address of its picture
	Tabs  []int  `json:"tabs"`           // numbers of those of its pages that the person may open
	Deeds []int  `json:"deeds"`          // and of what may be done now
}

// paletteItem is a page, or something that is done. That has Post: a form goes to its address.
type paletteItem struct {
	Word  string `json:"word"`
	URL   string `json:"url"`
	Post  bool   `json:"post,omitempty"`
	Field string `json:"field,omitempty"` // of the form, with Value
	Value string `json:"value,omitempty"`
}

// paletteTab is a page of each application, below its address.
type paletteTab struct {
	Word string `json:"word"`
	URL  string `json:"url"`
	may  func(r appRow) bool
}

// drawn are the letters of languages that have a drawing elsewhere.
var drawn = map[string]string{app.StaticLang: "</>", "shell": ">_"}

// palette answers with what can be found from every page.
func (p *appPages) palette(c *call) (answer, error) {
	rows, err := p.rows(c)
	if err != nil {
		return answer{}, err
	}
	slices.SortStableFunc(rows, listPage{Sort: "state"}.compare)
	if err := p.icons.picture(c, rows[:min(len(rows), paletteApps)]); err != nil {
		return answer{}, err
	}
	frame := paletteFrame{
		Apps: []paletteApp{}, Letters: map[string]string{}, More: len(rows) > paletteApps,
		Pages: palettePages(c), Acts: paletteActs(c), Tabs: paletteTabs(c),
	}
	for _, r := range rows[:min(len(rows), paletteApps)] {
		frame.Letters[r.Code.Lang] = cmp.Or(letters(r.Code.Lang), drawn[r.Code.Lang], "01")
	}
	for _, d := range deeds {
		frame.Deeds = append(frame.Deeds, paletteItem{Word: d.Word(c.lang), URL: "/" + d.name, Post: true})
	}
	for _, r := range rows[:min(len(rows), paletteApps)] {
		a := paletteApp{ID: r.ID, Name: r.Name, Owner: r.Owner, Class: r.Class, Word: r.Word, Lang: r.Code.Lang, Tabs: []int{}, Deeds: []int{}}
		if r.Picture != "" {
			a.Icon = "/apps/" + string(r.ID) + "/picture/" + r.Picture
		}
		for i, tab := range frame.Tabs {
			if tab.may(r) {
				a.Tabs = append(a.Tabs, i)
			}
		}
		for i, d := range deeds {
			if d.may(r.May) {
				a.Deeds = append(a.Deeds, i)
			}
		}
		frame.Apps = append(frame.Apps, a)
	}
	body, err := json.Marshal(frame)
	return answer{stream: func() { c.sendBody(http.StatusOK, "application/json", body) }}, err
}

// palettePages are those that belong to no application.
func palettePages(c *call) []paletteItem {
	l := c.lang
	all := []paletteItem{
		{Word: l.Say("Applications"), URL: "/"},
		{Word: l.Say("Problems"), URL: "/?show=problem"},
		{Word: l.Say("Upload"), URL: "/upload"},
		{Word: l.Say("Account"), URL: "/account"},
		{Word: l.Say("API tokens"), URL: "/account#tokens"},
		{Word: l.Say("Second factor"), URL: "/account/factors"},
		{Word: l.Say("Sessions"), URL: "/account#sessions"},
		{Word: l.Say("Notifications"), URL: "/account/channels"},
		{Word: l.Say("Sign in a program by its code"), URL: "/device"},
		{Word: l.Say("Documentation"), URL: "/docs"},
		{Word: l.Say("First steps"), URL: "/first-steps"},
	}
	if c.account.Admin {
		all = append(all, paletteItem{Word: l.Say("Host"), URL: "/host"}, paletteItem{Word: l.Say("Audit log"), URL: "/host/audit"})
	}
	return all
}

// paletteActs are what can be done from every page.
func paletteActs(c *call) []paletteItem {
	l := c.lang
	colours := func(value, word string) paletteItem {
		return paletteItem{Word: l.Say("Colours") + ": " + word, URL: "/theme", Post: true, Field: "theme", Value: value}
	}
	list := func(value, word string) paletteItem {
		return paletteItem{Word: l.Say("Applications") + ": " + word, URL: "/view", Post: true, Field: "view", Value: value}
	}
	return []paletteItem{
		list("cards", l.Say("Cards")), list("table", l.Say("Table")),
		colours("auto", l.Say("System")), colours("light", l.Say("Light")), colours("dark", l.Say("Dark")),
		{Word: l.Say("Sign out"), URL: "/logout", Post: true},
	}
}

// paletteTabs are the pages of an application, as its bar has them.
func paletteTabs(c *call) []paletteTab {
	l := c.lang
	needs := func(p app.Permission) func(appRow) bool { return func(r appRow) bool { return r.Can.Has(p) } }
	own := func(r appRow) bool { return r.Own }
	return []paletteTab{
		{l.Say("Overview"), "", needs(app.StatusApp)},
		{l.Say("Logs"), "/logs", needs(app.LogsApp)},
		{l.Say("Environment"), "/env", own},
		{l.Say("Files"), "/files", needs(app.BackupApp)},
		{l.Say("Domains"), "/domains", own},
		{l.Say("Backups"), "/backups", needs(app.BackupApp)},
		{l.Say("Deploys"), "/deploys", own},
		{l.Say("Settings"), "/settings", needs(app.EditRAM)},
		{l.Say("New version"), "/commit", needs(app.CommitApp)},
	}
}
