package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"berth/cgroup"
	"berth/db"
	"berth/tree"
)

// check says whether this binary could serve here, with the settings that serve
// would read, and changes nothing: a daemon may be serving. A daemon that is to
// be upgraded asks it of the new binary.
func check(ctx context.Context, c *call) error {
	set := c.flags()
	from := addSettingFlags(set)
	asJSON := set.Bool("json", false, "print what was found as JSON")
	if _, err := c.parse(set, 0, 0); err != nil {
		return err
	}
	s, err := from.load(c.getenv)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return &problem{exitPermission, errors.New("cannot check: berth must run as root"), "Hint: sudo berth check"}
	}
	if err := checkStored(ctx, s.DataDir); err != nil {
		return err
	}
	if _, err := cgroup.Detect(); err != nil {
		return err
	}
	if _, _, err := s.tlsFiles(slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	p := proof{Version: buildVersion(), DataDir: s.DataDir, Listen: s.Listen}
	if *asJSON {
		return json.NewEncoder(c.stdout).Encode(p)
	}
	_, err = fmt.Fprintf(c.stdout, "berth %s can serve %s on %s\n", p.Version, p.DataDir, p.Listen)
	return err
}

// checkStored looks at a data directory, which serve would make if there is none.
func checkStored(ctx context.Context, dir string) error {
	if err := tree.Reachable(dir); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot use the data directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("cannot use the data directory %s: it is not a directory", dir)
	}
	return db.Usable(ctx, filepath.Join(dir, databaseName))
}
