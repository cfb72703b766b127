package main

import (
	"path/filepath"
	"slices"
	"strings"

	"berth/sandbox"
)

// layers are names of walls around programs with commas between them, or all.
type layers struct{ to *[]sandbox.Layer }

func (l layers) set(text string) bool {
	if strings.TrimSpace(text) == "all" {
		*l.to = sandbox.Layers
		return true
	}
	var list []sandbox.Layer
	for _, name := range split(text) {
		if !slices.Contains(sandbox.Layers, sandbox.Layer(name)) {
			return false
		}
		list = append(list, sandbox.Layer(name))
	}
	*l.to = list
	return true
}

func (layers) expects() string {
	var names []string
	for _, l := range sandbox.Layers {
		names = append(names, string(l))
	}
	return "all, or some of " + strings.Join(names, ", ") + ", with commas between them"
}

// paths are absolute paths with commas between them, that can be shown to
// programs: none in whose place they have something of their own.
type paths struct{ to *[]string }

func (p paths) set(text string) bool {
	var list []string
	for _, path := range split(text) {
		path = filepath.Clean(path)
		if !filepath.IsAbs(path) || strings.Contains(path, "\x00") || slices.Contains([]string{"/", "/etc", "/var"}, path) {
			return false
		}
		for _, own := range []string{"/dev", "/proc", "/sys", "/tmp", "/usr"} {
			if path == own || strings.HasPrefix(path, own+"/") {
				return false
			}
		}
		list = append(list, path)
	}
	*p.to = list
	return true
}

func (paths) expects() string {
	return `absolute paths such as "/opt,/srv/models", none of them /, /etc, /var or below /dev, /proc, /sys, /tmp or /usr`
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
