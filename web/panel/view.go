package panel

import (
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/app"
	"berth/app/text"
)

// view is what every template has. What belongs to one page is Page.
type view struct {
	Account app.Account // zero: nobody is signed in
	Path    string      // of the address, for what leads back here
	Own     string      // the page's own address, where it is shown at that of a form; else ""
	Here    string      // the name of the page, for the navigation
	Theme   string
	Lang    string
	Flash   *flash
	News    []news     // of which the account has to know
	Keys    string     // one of switches; "" where there is no palette
	Held    string     // why the host holds its programs, for administrators
	Problem string     // why the form was refused
	Typed   url.Values // the fields of a form that was refused
	Version string
	Help    string  // the address where the documentation tells of the page; "" for nowhere
	Bar     *appRow // the application that the page is about, nil for none
	Page    any
}

// sets are the templates of one language, by page.
type sets map[string]*template.Template

// templates are parsed when the first page is requested in a language.
var templates = func() map[string]func() sets {
	all := map[string]func() sets{}
	for _, locale := range app.Locales {
		all[locale] = sync.OnceValue(func() sets {
			pages, err := parsePages(files, text.In(locale))
			if err != nil {
				panic(err) // a mistake in a template, which its tests find
			}
			return pages
		})
	}
	return all
}()

// parsePages makes the pages of a language: each is layout.html, parts.html and a file
// of its own.
func parsePages(files fs.FS, l text.Language) (sets, error) {
	names, err := fs.Glob(files, "template/*.html")
	if err != nil {
		return nil, err
	}
	shared, err := template.New("layout.html").Funcs(functions(l)).ParseFS(files, "template/layout.html", "template/parts.html")
	if err != nil {
		return nil, err
	}
	pages := sets{}
	for _, name := range names {
		page := strings.TrimSuffix(path.Base(name), ".html")
		if page == "layout" || page == "parts" {
			continue
		}
		own, err := shared.Clone()
		if err == nil {
			own, err = own.ParseFS(files, name)
		}
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", page, err)
		}
		pages[page] = own
	}
	return pages, nil
}

// functions are what templates can call, in a language.
func functions(l text.Language) template.FuncMap {
	return template.FuncMap{
		"t":           l.Say,
		"sentence":    func(t app.Text) string { return sentence(l.SayPhrase(t)) },
		"headline":    func(t app.Text) string { return strings.TrimSuffix(sentence(l.SayPhrase(t)), ".") },
		"count":       l.Count,
		"number":      l.Number,
		"grouped":     func(n uint64) string { return grouped(l, n) },
		"asset":       assetURL,
		"icon":        icon,
		"letters":     letters,
		"glyph":       glyph,
		"locales":     func() []string { return app.Locales },
		"ago":         func(t time.Time) string { return ago(l, time.Since(t)) },
		"since":       func(t time.Time) string { return span(l, time.Since(t)) },
		"unused":      func(t app.Token) bool { return t.Unused(time.Now()) },
		"left":        func(t time.Time) string { return span(l, time.Until(t)) },
		"iso":         func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"minute":      func(t time.Time) string { return l.Time(t.UTC()) + " UTC" },
		"date":        func(t time.Time) string { return l.Date(t.UTC()) + " UTC" },
		"size":        func(bytes int64) string { return size(l, bytes) },
		"bytes":       func(bytes float64) string { return size(l, int64(bytes)) },
		"clock":       func(t time.Time) string { return clock(l, t, time.Since(t)) },
		"stamp":       func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") },
		"deploy":      func(k app.DeployKind) string { return deployWord(l, k) },
		"may":         may,
		"permissions": app.AllPermissions.Names,
		"permission":  func(name string) string { return permissionWord(l, name) },
		"granted":     granted,
		"chosen":      func(all []string, id app.ID) bool { return slices.Contains(all, string(id)) },
		"names":       names,
		"roomWord":    func(v app.RAMVerdict) string { return roomWord(l, v) },
		"factor":      func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }, // as the setting is written
		"share":       share,
		"browser":     func(ua string) string { return browserWord(l, ua) },
		"list":        func(items ...any) []any { return items },
		"service":     func(s app.ChannelService) string { return serviceWord(l, s) },
		"kind":        func(k app.NoticeKind) string { return kindWord(l, k) },
		"severity":    func(s app.Severity) string { return severityWord(l, s) },
		"severities":  func() []app.Severity { return []app.Severity{app.Info, app.Warning, app.Failure} },
		"locale":      localeWord,
		"level":       func(of level) string { return levelWord(l, of) },
		"has":         func(all []app.ID, id app.ID) bool { return slices.Contains(all, id) },
		"hasKind":     func(all []app.NoticeKind, k app.NoticeKind) bool { return slices.Contains(all, k) },
	}
}

// may reports whether a permission, by its name, is one of those.
func may(can app.Permissions, name string) bool {
	p, known := app.ParsePermission(name)
	if !known {
		panic("panel: no permission " + name) // a mistake in a template, which its tests find
	}
	return can.Has(p)
}

// granted is the set of permissions of a form that is shown again.
func granted(names []string) app.Permissions {
	set, _ := app.ParsePermissions(names) // what is wrong was said
	return set
}

// names are applications, as people know them.
func names(ids []app.ID, all []app.Snapshot) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
		if at := slices.IndexFunc(all, func(s app.Snapshot) bool { return s.ID == id }); at >= 0 {
			texts[i] = all[at].Name
		}
	}
	return strings.Join(texts, ", ")
}

// share is how full something is, from 0 to 100.
func share(part, whole int64) int {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return int(min(100, 100*float64(part)/float64(whole)))
}
