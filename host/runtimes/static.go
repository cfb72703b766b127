package runtimes

import "berth/app"

// static is a site of files, which berth serves itself. There is no program,
// and no step but BUILD, with the packages of the language that its files show.
var static = language{
	name:  app.StaticLang,
	exts:  []string{".html", ".htm"},
	mains: []string{"index.html"},
}

// forSites refuses a page where nobody could visit it.
func forSites(p *project) error {
	if p.cfg.Type != app.Site {
		return app.Errorf(app.Unusable, "MAIN=%s is a page, which only a site can show: write TYPE=site and ID= into discloud.config, or name the program of the bot in MAIN", p.main)
	}
	return nil
}
