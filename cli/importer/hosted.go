package importer

import (
	"path"
	"strings"

	"berth/app"
)

// Backup reads a backup of the hosted service, or of a berth: a ZIP with an application's files
// and its discloud.config. Up is what is known of the ZIP, which is sent as it is.
func Backup(file string, up app.Unpacked) Candidate {
	c := Candidate{From: file, ZIP: file, Config: up.Config, Stop: "stop it where the backup was made"}
	if up.Config.RAM > 0 {
		c.RAMFrom = "RAM="
	}
	if c.Config.Name == "" && c.Config.Type != app.Site {
		c.Config.Name = nameOf(strings.TrimSuffix(path.Base(strings.ReplaceAll(file, `\`, "/")), ".zip"))
	}
	switch {
	case !up.Found && !up.Hint.IsZero():
		c.note("It has no discloud.config at its top: %s.", up.Hint)
	case !up.Found:
		c.note("It has no discloud.config: berth looks for what to start.")
	}
	for _, sentence := range up.Left {
		if sentence != up.Variables.Left {
			c.Notes = append(c.Notes, sentence)
		}
	}
	switch {
	case up.Variables.Err != nil:
		c.note("Its variables are not taken over: %v.", up.Variables.Err)
	case up.Variables.Found:
		all := map[string]string{}
		for _, v := range up.Variables.All {
			all[v.Name] = v.Value
		}
		c.take(all)
	default:
		c.note("A backup of the hosted service has no variables but those in its files.")
	}
	return c
}
