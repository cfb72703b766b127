package runtimes

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"berth/app"
)

// detect decides the language: by content where it is beyond doubt, then by
// extension, then by the interpreter that the file itself names. With START
// an unknown main file is no obstacle.
func (p *project) detect() error {
	if p.main == "" {
		p.lang = p.byEvidence()
		return nil
	}
	exists := p.files.Exists(p.main) // else BUILD makes it
	if exists {
		head, err := p.files.Read(p.main, headSize)
		if err != nil {
			return fmt.Errorf("cannot read MAIN: %w", err)
		}
		p.head = head
	}
	p.lang = p.ofAnother(byContent(p.main, p.head))
	if p.lang == &static && p.start != "" { // a program serves the page
		p.lang = nil
	}
	switch {
	case p.lang != nil:
	case p.start != "":
		p.lang = p.byEvidence()
	case !exists && path.Ext(p.main) == "":
		p.lang = &prebuilt // what compilers make
	default:
		return p.unknown()
	}
	if p.lang == &static {
		if p.static = true; p.cfg.Build != "" {
			p.lang = p.byEvidence()
		}
		if p.cfg.Type != app.Site {
			return app.Errorf(app.Unusable, "MAIN=%s is a page, which only a site can show: write TYPE=site and ID= into discloud.config, or name the program of the bot in MAIN", p.main)
		}
		return nil
	}
	if exists && p.start == "" && p.lang.check != nil {
		return p.lang.check(p)
	}
	return nil
}

// first returns the first language of which something is so, nil for none.
func first(is func(l *language) bool) *language {
	if i := slices.IndexFunc(languages, is); i >= 0 {
		return languages[i]
	}
	return nil
}

// byContent returns the language of a file, nil if it is of none.
func byContent(name string, head []byte) *language {
	if l := first(func(l *language) bool { return l.claims != nil && l.claims(head) }); l != nil {
		return l
	}
	ext := strings.ToLower(path.Ext(name))
	l := first(func(l *language) bool {
		// A compiled project may also be named by its manifest.
		return slices.Contains(l.exts, ext) || l.compile != nil && slices.Contains(l.evidence, name)
	})
	if l != nil || ext != "" {
		return l
	}
	return first(func(l *language) bool { return slices.Contains(l.shebangs, interpreter(head)) })
}

// byEvidence returns the language whose packages a START command will want.
func (p *project) byEvidence() *language {
	l := first(func(l *language) bool { return slices.ContainsFunc(l.evidence, p.files.Exists) })
	if l == nil {
		return &shell // which is what runs START
	}
	return p.ofAnother(l)
}

// interpreter returns the name of the program after "#!", "" if there is none.
func interpreter(head []byte) string {
	line, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	for _, word := range strings.Fields(string(line)) {
		// "#!/usr/bin/env -S node --flag" names node.
		if name := path.Base(word); name != "env" && !strings.HasPrefix(word, "-") {
			return name
		}
	}
	return ""
}

// unknown explains why MAIN cannot be started as it is.
func (p *project) unknown() error {
	switch path.Ext(p.main) {
	case ".java":
		return app.Errorf(app.Unusable, "MAIN=%s is source code: berth starts Java programs that are built; upload the .jar and set MAIN to it", p.main)
	case ".class":
		return app.Errorf(app.Unusable, "MAIN=%s is one class of a Java program: pack the program as a jar, upload that and set MAIN to it, or set START=java with the name of the class", p.main)
	}
	var exts []string
	for _, l := range languages {
		exts = append(exts, l.exts...)
	}
	what := app.Textf("berth does not know how to start MAIN=%s", p.main)
	if name := interpreter(p.head); name != "" {
		what = app.Textf("berth does not know how to start MAIN=%s (a script for %s)", p.main, name)
	}
	return app.Errorf(app.Unusable,
		"%s: it starts %s files and programs built for Linux; for anything else set START to the command that does",
		what, strings.Join(exts, " "))
}

// ofAnother returns the language that a project of JavaScript or TypeScript
// belongs to: that of Deno or Bun, if it holds a file of theirs. Where the host
// lacks them Node.js stands in, if it can.
func (p *project) ofAnother(l *language) *language {
	if l != &javascript && l != &typescript {
		return l
	}
	pkg, err := readPackage(p.source)
	able := err == nil && p.files.Exists("package.json") && (l == &javascript || pkg.runner() != "")
	for _, other := range []*language{&deno, &bun} {
		i := slices.IndexFunc(other.evidence, p.files.Exists)
		if i < 0 {
			continue
		}
		if able && !p.available(other.programs[0]) {
			p.note("%s asks for %s, which this host does not have; Node.js runs the program.", other.evidence[i], other.title)
			continue
		}
		return other
	}
	return l
}
