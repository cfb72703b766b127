package cluster

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"berth/app"
	"berth/host/runtimes"
)

// plain is the name of the image for programs that need no runtime: those that were compiled before, and what START
// runs by a shell.
const plain = "default"

// commands are those in the images that the makers of each runtime publish: first the one whose version is the image's.
var commands = map[string][]string{
	"bun":    {"bun"},
	"deno":   {"deno"},
	"go":     {"go"},
	"java":   {"java"},
	"node":   {"node", "npm", "npx"},
	"php":    {"php"},
	"python": {"python3", "python", "pip", "pip3"},
	"ruby":   {"ruby", "gem", "bundle"},
	"rust":   {"rustc", "cargo"},
	plain:    nil,
}

const (
	yarn = "yarn"
	// yarnVersion is that of the one in the images of Node.js before 26, which was the last of its line.
	yarnVersion = "1.22.22"
	withoutYarn = 26
)

// searchPath is the PATH of the images: Debian's, with the places where those of Go, Rust and Java have their commands.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/local/go/bin:/usr/local/cargo/bin:/opt/java/openjdk/bin:" +
	"/usr/sbin:/usr/bin:/sbin:/bin"

// image is one of the table.
type image struct {
	name     string // app.Program.Runtime; default
	runtime  string
	version  string // "" of the default one
	ref      string
	commands []string // that programs find in it
}

// Images are the images that programs run in, by runtime and version. They do not change; they are safe for
// concurrent use.
type Images struct{ all map[string]image }

var (
	// exact is a whole version: a range of VERSION must know on which side of its ends it is.
	exact = regexp.MustCompile(`^\d{1,9}(\.\d{1,9}){1,3}$`)
	// reference is where an image is: that of a registry, a path, a tag, a digest. The cluster knows the rest.
	reference   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[A-Za-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@[a-z0-9]+:[a-f0-9]{32,})?$`)
	commandName = regexp.MustCompile(`^\+[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// maxReference bounds a reference, in bytes: the longest name, tag and digest that registries take.
const maxReference = 512

// ParseImages reads the table of images, one in each entry:
//
//	node 22.11.0 docker.io/library/node:22.11.0-bookworm-slim
//	python 3.12.8 registry.example.org/python:3.12.8 +git +ffmpeg
//	default docker.io/library/debian:bookworm-slim
//
// A name with + is a command that the image has beyond those of its runtime and a shell. An error names the entry and
// what is wrong with it. It pulls nothing and asks nobody.
func ParseImages(entries []string) (*Images, error) {
	list := &Images{all: map[string]image{}}
	for _, entry := range entries {
		i, err := parseImage(strings.Fields(entry))
		if err == nil && list.all[i.name].ref != "" {
			err = fmt.Errorf("there are two images of %s", i.name)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot use the image %q: %w", entry, err)
		}
		list.all[i.name] = i
	}
	return list, nil
}

// parseImage reads the words of an entry.
func parseImage(words []string) (image, error) {
	if len(words) == 0 {
		return image{}, errors.New("it is empty")
	}
	i := image{name: words[0], runtime: words[0]}
	usual, known := commands[i.runtime]
	if !known {
		return image{}, fmt.Errorf("it must begin with one of %s", strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
	}
	rest := words[1:]
	if i.runtime != plain {
		if len(rest) == 0 || !exact.MatchString(rest[0]) {
			return image{}, fmt.Errorf("behind %s there must be its whole version, such as 22.11.0", i.runtime)
		}
		i.version, i.name, rest = rest[0], i.runtime+" "+rest[0], rest[1:]
	}
	if len(rest) == 0 || len(rest[0]) > maxReference || !reference.MatchString(rest[0]) {
		return image{}, fmt.Errorf("behind %s there must be where the image is, such as docker.io/library/debian:bookworm-slim", i.name)
	}
	i.ref, i.commands = rest[0], append([]string{"sh"}, usual...)
	if i.hasYarn() {
		i.commands = append(i.commands, yarn)
	}
	for _, word := range rest[1:] {
		if !commandName.MatchString(word) {
			return image{}, fmt.Errorf("%q must be a command that the image has, such as +git", word)
		}
		i.commands = append(i.commands, word[1:])
	}
	return i, nil
}

// hasYarn reports whether the usual image has Yarn.
func (i image) hasYarn() bool {
	major, _, _ := strings.Cut(i.version, ".")
	n, err := strconv.Atoi(major)
	return i.runtime == "node" && err == nil && n < withoutYarn
}

// Of returns the image of an app.Program.Runtime, for "" the default one. It fails with app.Unusable where the table
// has none.
func (i *Images) Of(runtime string) (ref string, err error) {
	found, ok := i.all[runtime]
	switch {
	case runtime == "":
		found, ok = i.all[plain]
		if !ok {
			return "", app.Errorf(app.Unusable, "this host has no image for programs without a runtime: ask its owner to add the image default to kubernetes.images")
		}
	case !ok:
		return "", app.Errorf(app.Unusable, "this host has no image with %s: ask its owner to add one to kubernetes.images", runtime)
	}
	return found.ref, nil
}

// Tools are the commands of the default image, if there is one. The others are those of its With.
func (i *Images) Tools() runtimes.Tools { return tools{i, i.all[plain]} }

// tools are the commands of one image; those of the zero image are none.
type tools struct {
	table *Images
	image image
}

// Find implements runtimes.Tools: a name is found on the PATH of the container.
func (t tools) Find(name string) (path, hidden string) {
	if slices.Contains(t.image.commands, name) {
		return name, ""
	}
	return "", ""
}

// Version implements runtimes.Tools. It knows what the table says, and runs nothing.
func (t tools) Version(name string) string {
	usual := commands[t.image.runtime]
	switch {
	case len(usual) > 0 && name == usual[0]:
		return t.image.version
	case name == yarn && t.image.hasYarn():
		return yarnVersion
	}
	return ""
}

// Lacks implements runtimes.Tools: which packages an image has is not known.
func (t tools) Lacks(packages []string) (missing []string, known bool) {
	return nil, len(packages) == 0
}

// Installed implements runtimes.Tools.
func (t tools) Installed(runtime string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(t.table.all)) {
		if i := t.table.all[name]; i.runtime == runtime && i.version != "" {
			list = append(list, i.version)
		}
	}
	return list
}

// With implements runtimes.Tools.
func (t tools) With(runtime, version string) runtimes.Tools {
	return tools{t.table, t.table.all[runtime+" "+version]}
}

// Images implements runtimes.Tools.
func (tools) Images() bool { return true }

// Path implements runtimes.Tools.
func (tools) Path() string { return searchPath }
