package cluster

import (
	"slices"

	"berth/app"
	"berth/daemon/settings"
	"berth/host/runtimes"
)

// searchPath is the PATH of programs: where the images of languages have their commands.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/local/go/bin:/usr/local/cargo/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// usual are the commands that images of a runtime have. All have sh.
var usual = map[string][]string{
	"node": {"node", "npm", "npx"}, "python": {"python3", "python", "pip", "pip3"}, "java": {"java"}, "deno": {"deno"}, "bun": {"bun", "bunx"},
}

// Images are what programs run in. They are the runtimes.Tools of a cluster: each image is an installed version of its
// runtime, and the default one is the host. It is safe for concurrent use.
type Images struct {
	all    []settings.Image
	chosen settings.Image // whose commands these are
}

// NewImages are the tools of a table, which has a default image.
func NewImages(all []settings.Image) *Images {
	return choose(all, "")
}

// choose are the tools of the image of an app.Program.Runtime, those of none if the table lacks it.
func choose(all []settings.Image, runtime string) *Images {
	i := &Images{all: all}
	if at := slices.IndexFunc(all, func(m settings.Image) bool { return m.Name() == runtime }); at >= 0 {
		i.chosen = all[at]
	}
	return i
}

// Of returns the image of an app.Program.Runtime. One that was taken out of the table since is refused.
func (i *Images) Of(runtime string) (reference string, err error) {
	for _, m := range i.all {
		if m.Name() == runtime {
			return m.Reference, nil
		}
	}
	return "", app.Errorf(app.Unusable, "this host has no image for %s any more: ask its owner to add one to kubernetes.images", runtime)
}

// Find implements runtimes.Tools. The container finds a command by its name.
func (i *Images) Find(name string) (path, hidden string) {
	if name == "sh" || slices.Contains(usual[i.chosen.Runtime], name) || slices.Contains(i.chosen.Commands, name) {
		return name, ""
	}
	return "", ""
}

// Version implements runtimes.Tools.
func (i *Images) Version(name string) string {
	if i.chosen.Runtime != "" && usual[i.chosen.Runtime][0] == name {
		return i.chosen.Version
	}
	return ""
}

// Lacks implements runtimes.Tools: what is in an image is not known.
func (i *Images) Lacks([]string) (missing []string, known bool) { return nil, false }

// Installed implements runtimes.Tools.
func (i *Images) Installed(runtime string) (versions []string) {
	for _, m := range i.all {
		if m.Runtime == runtime && runtime != "" {
			versions = append(versions, m.Version)
		}
	}
	return versions
}

// With implements runtimes.Tools.
func (i *Images) With(runtime, version string) runtimes.Tools {
	return choose(i.all, runtime+" "+version)
}

// Path implements runtimes.Tools.
func (i *Images) Path() string { return searchPath }
