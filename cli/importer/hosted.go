package importer

import "berth/app"

// Backup reads a backup of the hosted service, or of a berth: a ZIP with an application's files
// and its discloud.config. Up is what is known of the ZIP, which is sent as it is.
func Backup(file string, up app.Unpacked) Candidate {
	c := Candidate{From: file, ZIP: file, Config: up.Config, Stop: "stop it where the backup was made"}
	if up.Config.RAM > 0 {
		c.RAMFrom = "RAM="
	}
	switch {
	case !up.Found && !up.Hint.IsZero():
		c.refuse("it has no discloud.config at its top: %s", up.Hint)
	case !up.Found:
		c.refuse("it has no discloud.config, so it is no backup of an application: berth deploy sends any ZIP")
	case up.Config.Name == "" && up.Config.Type != app.Site:
		c.refuse("its discloud.config has no NAME=, by which berth finds the application again: add one, or send it with berth deploy")
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
