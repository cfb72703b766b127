package runtimes

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"berth/app"
)

// Tools are the commands of the host, or of the images in which its programs run.
type Tools interface {
	// Find returns the path of a command that every application may run, or in an
	// image its name. When there is none, hidden is where one lies that they may
	// not use.
	Find(name string) (path, hidden string)
	// Version returns what a command says of its version, "20.20.2" for
	// instance, and "" when it does not say. It runs the command.
	Version(name string) string
	// Lacks returns those of the Debian packages that are not installed. It
	// does not know where there is no dpkg.
	Lacks(packages []string) (missing []string, known bool)
	// Installed returns the versions of a runtime ("node") that the owner of the
	// host installed beside the distribution's, or has images of.
	Installed(runtime string) []string
	// With returns the tools of the host behind those of an installed version, or
	// those of its image alone.
	With(runtime, version string) Tools
	// Images reports whether programs run in images. Then every runtime is one
	// that the owner has installed, and nothing of the host's is beside it.
	Images() bool
	// Path is the PATH on which programs find these tools.
	Path() string
}

// program is a command that must be on the host, and where it comes from.
type program struct {
	binary, title string
	apt           string // Debian packages
	site          string // for what Debian does not have
	runtime       string // what berth runtime install calls it; "" for what that cannot
	image         string // what the owner of images calls it, where that is another name
	line          string // of releases to install by that, for what Debian does not have
}

// install says how the owner gets it.
func (c program) install() string {
	switch {
	case c.apt != "":
		return "apt install " + c.apt
	case c.line != "":
		return "berth runtime install " + c.runtime + " " + c.line
	}
	return "install it in /usr/local/bin, from " + c.site
}

// provided is the name under which the owner of the host provides it in several
// versions; "" when he cannot.
func (c program) provided(tools Tools) string {
	if tools.Images() {
		return cmp.Or(c.image, c.runtime)
	}
	return c.runtime
}

// Runtime is a command that some language needs, for the owner of the host.
type Runtime struct {
	Command string
	Title   string
	Name    string // what berth runtime install calls it; "" for what that cannot
	Image   string // what images that have it are called
	Install string // how to get it
}

// Runtimes returns what programs of every language need, in the order of the
// table, without package managers that can be done without.
func Runtimes() []Runtime {
	var list []Runtime
	for _, l := range languages {
		for _, c := range l.programs {
			if r := (Runtime{c.binary, c.title, c.runtime, cmp.Or(c.image, c.runtime), c.install()}); !slices.Contains(list, r) {
				list = append(list, r)
			}
		}
	}
	return list
}

// source is what a project is made of, and the host it is for.
type source struct {
	files app.Files
	tools Tools
}

// need returns the path of a command of the host, which has to have others too.
func (s source) need(c program, others ...program) (string, error) {
	for _, other := range others {
		if _, err := s.need(other); err != nil {
			return "", err
		}
	}
	found, hidden := s.tools.Find(c.binary)
	if found != "" {
		return found, nil
	}
	if s.tools.Images() {
		return "", app.Errorf(app.Unusable, "this host has no image with %s: ask its owner to add one to kubernetes.images", c.title)
	}
	lack := app.Textf("this host has no %s", c.title)
	if hidden != "" {
		lack = app.Textf("this host has %s only where programs cannot use it: %s", c.title, place(hidden))
	}
	if c.site == "" {
		return "", app.Errorf(app.Unusable, "%s: the owner can install it with: %s", lack, c.install())
	}
	return "", app.Errorf(app.Unusable, "%s: the owner can install it in /usr/local/bin, from %s", lack, c.site)
}

// has reports whether programs can use a command of the host.
func (s source) has(c program) bool {
	found, _ := s.tools.Find(c.binary)
	return found != ""
}

// available reports whether programs can use a command of the host, or of a runtime that
// its owner installed.
func (s source) available(c program) bool {
	return s.has(c) || len(s.tools.Installed(c.provided(s.tools))) > 0
}

// place says where a command lies, but not in whose home.
func place(file string) app.Text {
	dir := path.Dir(file)
	if rest, ok := strings.CutPrefix(dir, "/root/"); ok {
		return app.Textf("in a home directory (~/%s)", rest)
	}
	if rest, ok := strings.CutPrefix(dir, "/home/"); ok {
		_, rest, _ = strings.Cut(rest, "/")
		return app.Textf("in a home directory (~/%s)", rest)
	}
	return app.Textf("in %s, which is closed to them, or open to changes by everybody", dir)
}
