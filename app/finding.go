package app

// Finding is one row of the examination of the host (berth doctor).
type Finding struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // ok, none, warn or FAIL
	Text    string `json:"text"`
	Fix     string `json:"fix,omitempty"` // the command or setting that mends it
}
