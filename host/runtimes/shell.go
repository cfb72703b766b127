package runtimes

import "bytes"

// shell is a script for /bin/sh, and whatever START alone describes.
var shell = language{
	name:     "shell",
	exts:     []string{".sh"},
	mains:    []string{"start.sh", "run.sh"},
	shebangs: []string{"sh", "dash", "ash", "bash"},
	argv: func(p *project) ([]string, error) {
		if bytes.Contains(p.head, []byte("\r\n")) {
			p.note("%s has the line ends of Windows (CRLF), which the shell takes for a part of the words: save it with those of Linux (LF).", p.main)
		}
		// The execute permission is often lost in a ZIP, so the interpreter is
		// named. A script for bash fails under sh in ways nobody understands.
		if bash, _ := p.tools.Find("bash"); bash != "" && interpreter(p.head) == "bash" {
			return []string{bash, p.argument()}, nil
		}
		return []string{sh, p.argument()}, nil
	},
}
