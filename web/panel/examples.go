package panel

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"

	"berth/app"
	"berth/app/text"
	"berth/examples"
	"berth/web"
)

// example is a program that is deployed with one click.
type example struct {
	ID, Name, Icon, Text string
}

// examplesIn are those of the binary, in a language.
func examplesIn(l text.Language) []example {
	says := map[string]example{
		"node-bot":     {"", l.Say("Node.js bot"), "box", l.Say("Prints a line every five seconds, and ends cleanly.")},
		"python-clock": {"", l.Say("Python bot"), "clock", l.Say("Greets a name from its variables, and says the time.")},
		"static-site":  {"", l.Say("Static site"), "file", l.Say("A page and its style: files alone, without a program.")},
		"node-site":    {"", l.Say("Node.js site"), "globe", l.Say("Counts its visits in a file, and answers with JSON.")},
		"python-site":  {"", l.Say("Python site"), "lines", l.Say("A guestbook, with its entries in SQLite.")},
		"php-site":     {"", l.Say("PHP site"), "globe", l.Say("One page on PHP's own server.")},
	}
	all := make([]example, len(examples.Names))
	for i, name := range examples.Names {
		all[i] = says[name]
		all[i].ID = name
	}
	return all
}

// siteSuffix is how many characters make the subdomain of an example another one each time.
const siteSuffix = 5

// sendExample deploys one of the examples.
func (p *uploadPages) sendExample(c *call, f url.Values) (answer, error) {
	name := f.Get("example")
	c.audit.Note("example=%.40q", name)
	set := map[string]string{}
	if examples.Site(name) {
		set["ID"] = name + "-" + strings.ToLower(rand.Text()[:siteSuffix])
	}
	data, err := examples.ZIP(name, set)
	if err != nil {
		return answer{}, app.Errorf(app.NotFound, "there is no such example")
	}
	return p.sendOwn(c, data, app.WantOnline, "")
}

// sendEmpty deploys a bot that does nothing yet, and opens its main file. It is not started:
// it has no token.
func (p *uploadPages) sendEmpty(c *call, f url.Values) (answer, error) {
	name := strings.TrimSpace(f.Get("name"))
	if !app.ValidName(name) || strings.ContainsAny(name, "#") {
		return answer{}, app.Errorf(app.Invalid, "the name must have 1 to 30 characters, and no # or control characters")
	}
	which, main := examples.EmptyNode, "index.js"
	if f.Get("language") == "python" {
		which, main = examples.EmptyPython, "main.py"
	}
	c.audit.Note("empty=%s", which)
	data, err := examples.ZIP(which, map[string]string{"NAME": name})
	if err != nil {
		return answer{}, err
	}
	return p.sendOwn(c, data, app.WantStopped, main)
}

// sendOwn deploys a ZIP of the binary's, as a job, and opens a file of it in the end unless that
// is "". What the host or the account lacks for it is an error at once.
func (p *uploadPages) sendOwn(c *call, data []byte, wanted app.Wanted, opens string) (answer, error) {
	j, file, err := p.take(c, jobUpload, func(c *call, _ *web.Upload) (string, error) {
		return p.spooled(c.ctx(), data)
	})
	if err != nil {
		return answer{}, err
	}
	found, err := p.deployments.Draft(context.WithoutCancel(c.ctx()), c.account, file, nil)
	if err == nil && len(found.Problems) > 0 {
		err = &app.Error{Kind: app.Unusable, Message: found.Problems[0].Text}
	}
	if err != nil {
		p.deployments.DropSpool(file)
		p.jobs.forget(j)
		return answer{}, err
	}
	j.change(func(at *jobFacts) { at.Opens = opens })
	return p.launchNew(c, j, file, app.First{}, wanted)
}
