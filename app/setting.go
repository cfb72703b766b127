package app

// HostSetting is a setting of the host that an administrator may change in the panel.
type HostSetting struct {
	Key     string // as in the settings file, such as apps.disk
	Section string // of the key
	Value   string // that holds from the next start or reload of the daemon
	Default string
	Help    string   // what it is, in English
	Expects string   // what a value is, in English
	Words   []string // all values, of a choice
	Toggle  bool     // true or false
	Fixed   string   // what decides it beside the panel, such as a line of the settings file; "" when the panel does
	Waits   bool     // the daemon still runs with another value
}
