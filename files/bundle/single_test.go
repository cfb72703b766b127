package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/app"
)

// aJar is what is in a program of Java.
var aJar = []raw{{name: "META-INF/MANIFEST.MF", data: "Main-Class: Bot\n"}, {name: "Bot.class", data: "\xca\xfe\xba\xbe"}, {name: "a/b.properties", data: "x=y"}}

// A jar that is sent in place of a ZIP becomes the main file, and is not unpacked.
func TestAJarInPlaceOfAZIP(t *testing.T) {
	jar := rawZIP(t, aJar...)
	boot := append([]byte("#!/bin/bash\nexec java -jar \"$0\"\n"), jar...) // as Spring Boot makes them
	for name, tt := range map[string]struct {
		sent []byte
		main string
		mode os.FileMode
	}{
		"at the top":       {jar, "bot.jar", 0o644},
		"in a directory":   {jar, "build/libs/Bot.JAR", 0o644},
		"that runs itself": {boot, "bot.jar", 0o755},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := Open(file(t, tt.sent), Limits{}, &app.Code{Main: tt.main})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if _, found := a.Config, a.Found; found || !a.Single || a.Bytes != int64(len(tt.sent)) || len(a.Left) != 1 || !strings.Contains(a.Left[0], "MAIN="+tt.main) {
				t.Errorf("single %v, of %d bytes, found %v: %q", a.Single, a.Bytes, found, a.Left)
			}
			dir, err := extractInto(t, a)
			if err != nil {
				t.Fatal(err)
			}
			if got := filesIn(t, dir); len(got) != 1 || got[0] != tt.main {
				t.Errorf("there are %q", got)
			}
			text, err := os.ReadFile(filepath.Join(dir, tt.main))
			if err != nil || string(text) != string(tt.sent) {
				t.Errorf("it is another: %v", err)
			}
			if info, err := os.Stat(filepath.Join(dir, tt.main)); err != nil || info.Mode() != tt.mode {
				t.Errorf("its mode: %v, %v", info.Mode(), err)
			}
		})
	}
}

// Any other program in place of a ZIP is refused with a sentence: it would change nothing
// that runs.
func TestAProgramInPlaceOfAZIP(t *testing.T) {
	jar := rawZIP(t, aJar...)
	for name, tt := range map[string]struct {
		sent []byte
		lim  Limits
		over *app.Code
		kind app.Kind
		says string
	}{
		"a jar as a new application": {jar, Limits{}, nil, app.Unusable, "the file is a Java program (.jar): put it into a ZIP"},
		"a jar over START alone":     {jar, Limits{}, &app.Code{Start: "java Bot"}, app.Unusable, "the file is a Java program (.jar): put it into a ZIP"},
		"a jar over JavaScript":      {jar, Limits{}, &app.Code{Main: "index.js"}, app.Unusable, "and MAIN=index.js is none: put it into a ZIP"},
		"a jar that is too large":    {jar, Limits{MaxUnpacked: 9}, &app.Code{Main: "bot.jar"}, app.TooLarge, "it unpacks to more than 9 bytes"},
		"a program of Python":        {append([]byte("#!/usr/bin/env python3\n"), rawZIP(t, raw{name: "__main__.py"})...), Limits{}, &app.Code{Main: "main.py"}, app.Unusable, "the file is one program"},
		"a program of the machine":   {append([]byte("\x7fELF\x02\x01\x01"), rawZIP(t, raw{name: "assets/x"})...), Limits{}, nil, app.Unusable, "the file is one program"},
	} {
		a, err := Open(file(t, tt.sent), tt.lim, tt.over)
		if err == nil {
			a.Close()
		}
		if app.KindOf(err) != tt.kind || !strings.Contains(text(err), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What only looks like a jar is a ZIP of files.
func TestAZIPThatLooksLikeAJar(t *testing.T) {
	for name, tt := range map[string]struct {
		also []raw
		from int // of aJar
		over *app.Code
	}{
		"with the main file":         {[]raw{{name: "Bot.jar"}}, 0, &app.Code{Main: "Bot.jar"}},
		"with loose classes as MAIN": {nil, 0, &app.Code{Main: "Bot.class", Start: "java Bot"}},
		"with a config":              {[]raw{{name: ConfigName, data: "MAIN=Bot.class\nSTART=java Bot"}}, 0, nil},
		"without a manifest":         {nil, 1, &app.Code{Main: "bot.jar"}},
		"of sources":                 {[]raw{{name: "META-INF/MANIFEST.MF"}, {name: "src/Bot.java"}}, 2, &app.Code{Main: "bot.jar"}},
	} {
		a, err := Open(file(t, rawZIP(t, append(aJar[tt.from:len(aJar):len(aJar)], tt.also...)...)), Limits{}, tt.over)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a.Single || len(a.entries) != len(aJar)-tt.from+len(tt.also) {
			t.Errorf("%s: single %v, %d entries", name, a.Single, len(a.entries))
		}
		a.Close()
	}
}
