// Command docs writes the pages of docs that come from tables of the code: the
// commands, the settings and the operations of the API; and the manual pages.
//
//	go run ./test/docs              rewrites docs/commands.md, docs/settings.md, docs/berth.toml.example and the table of docs/api.md
//	go run ./test/docs -man DIR     writes a manual page for each command into DIR
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	man := flag.String("man", "", "write manual pages into `DIR` instead")
	flag.Parse()
	if err := run(".", *man); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run(root, man string) error {
	if man != "" {
		return writeManual(man)
	}
	for name, page := range pages {
		path := filepath.Join(root, "docs", name)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		made, err := page(root, string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := os.WriteFile(path, []byte(made), 0o644); err != nil {
			return err
		}
	}
	return nil
}
