package settings

import (
	"path/filepath"
	"slices"
	"strings"

	"berth/proc/sandbox"
)

// allLayers are the walls that can be required, or done without.
var allLayers = append(slices.Clone(sandbox.Layers), sandbox.Reach, sandbox.Counted)

// layers are names of walls around programs with commas between them, or all.
type layers struct{ to *string }

func (l layers) set(text string) bool {
	if _, ok := parseLayers(text); !ok {
		return false
	}
	*l.to = text
	return true
}

func parseLayers(text string) (list []sandbox.Layer, ok bool) {
	if strings.TrimSpace(text) == "all" {
		return allLayers, true
	}
	for _, name := range split(text) {
		if !slices.Contains(allLayers, sandbox.Layer(name)) {
			return nil, false
		}
		list = append(list, sandbox.Layer(name))
	}
	return list, true
}

func (layers) expects() string {
	var names []string
	for _, l := range allLayers {
		names = append(names, string(l))
	}
	return "all, or some of " + strings.Join(names, ", ") + ", with commas between them"
}

// paths are absolute paths with commas between them, that can be shown to
// programs: none in whose place they have something of their own.
type paths struct{ to *string }

func (p paths) set(text string) bool {
	if _, ok := parsePaths(text); !ok {
		return false
	}
	*p.to = text
	return true
}

func parsePaths(text string) (list []string, ok bool) {
	for _, path := range split(text) {
		path = filepath.Clean(path)
		if !filepath.IsAbs(path) || strings.Contains(path, "\x00") || slices.Contains([]string{"/", "/etc", "/var"}, path) {
			return nil, false
		}
		for _, own := range []string{"/dev", "/proc", "/sys", "/tmp", "/var/tmp", "/usr"} {
			if path == own || strings.HasPrefix(path, own+"/") {
				return nil, false
			}
		}
		list = append(list, path)
	}
	return list, true
}

func (paths) expects() string {
	return `absolute paths such as "/opt,/srv/models", none of them /, /etc, /var or below /dev, /proc, /sys, /tmp, /var/tmp or /usr`
}

// RequiredLayers are the layers that the owner requires.
func (s Settings) RequiredLayers() []sandbox.Layer {
	list, _ := parseLayers(s.Sandbox.Require) // was checked when it was read
	return list
}

// SparedLayers are the layers that the owner does without where they were there
// before.
func (s Settings) SparedLayers() []sandbox.Layer {
	list, _ := parseLayers(s.Sandbox.Without) // was checked when it was read
	return list
}

// ShownPaths are what the owner lets programs see.
func (s Settings) ShownPaths() []string {
	list, _ := parsePaths(s.Sandbox.Paths) // was checked when it was read
	return list
}

// split returns what stands between commas.
func split(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
