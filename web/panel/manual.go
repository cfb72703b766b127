package panel

import (
	"html/template"
	"net/http"

	"berth/app"
	"berth/docs"
)

// docsPath is the address of the documentation; its pages are below it.
const docsPath = "/docs"

// mostHits is how many sections a search in the documentation shows.
const mostHits = 30

// docPages show the documentation of this version.
type docPages struct{}

// docsPage is the data of docs.html.
type docsPage struct {
	Query  string
	Hits   []docs.Hit
	Groups []docGroup
}

// docGroup is pages about one topic.
type docGroup struct {
	Title string
	Pages []docs.Page
}

// docPage is the data of doc.html.
type docPage struct {
	docs.Page
	Body template.HTML
}

// index lists the pages, or the sections that have the words of ?q=.
func (docPages) index(c *call) (answer, error) {
	page := docsPage{Query: c.Request.URL.Query().Get("q")}
	if len(page.Query) > maxQuery {
		return answer{}, app.Errorf(app.Invalid, "search for at most %d bytes", maxQuery)
	}
	if page.Query != "" {
		page.Hits = docs.Search(page.Query, mostHits)
	}
	for _, g := range docs.Groups {
		group := docGroup{Title: g.Title}
		for _, name := range g.Names {
			p, _ := docs.Find(name)
			group.Pages = append(group.Pages, p)
		}
		page.Groups = append(page.Groups, group)
	}
	return show("docs", page), nil
}

func (docPages) page(c *call) (answer, error) {
	p, ok := docs.Find(c.Request.PathValue("page"))
	if !ok {
		return answer{}, app.Errorf(app.NotFound, "there is no such page")
	}
	return show("doc", docPage{p, p.HTML(docsPath + "/")}), nil
}

// docsRoutes are those of the documentation.
func (p *pages) docsRoutes() []route {
	return []route{
		{http.MethodGet, docsPath, signedIn, ownerOnly, p.docs.index, "", nil},
		{http.MethodGet, docsPath + "/{page}", signedIn, ownerOnly, p.docs.page, "", nil},
	}
}

// helps says where the documentation tells of a page of the panel, by the name of its template.
var helps = map[string]string{
	"account":      "panel#passwords",
	"app":          "applications",
	"apps":         "panel#pages",
	"audit":        "panel#audit-log",
	"backups":      "operations#restore-yesterday",
	"channel":      "notifications",
	"channels":     "notifications#set-up-a-channel",
	"commit":       "sites#commits-without-a-pause",
	"deploys":      "deploy#go-back",
	"device":       "panel#pages",
	"domains":      "sites#custom-domains",
	"env":          "panel#environment",
	"factors":      "panel#a-second-factor",
	"file":         "panel#files",
	"files":        "panel#files",
	"host":         "operations",
	"hostsettings": "settings",
	"invitation":   "panel#invitations",
	"job":          "panel#uploads",
	"logs":         "panel#logs",
	"settings":     "panel#members-of-a-team",
	"upload":       "applications",
}
