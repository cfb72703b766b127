package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// App is an application as lists show it.
type App struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`                  // its owner's words
	Type        int      `json:"type"`                  // 0 a bot, 1 a site
	Lang        string   `json:"lang"`                  // such as "js"
	MainFile    string   `json:"mainFile"`              // "" for one of a team
	RAM         int64    `json:"ram"`                   // MB that it may use
	Online      bool     `json:"online"`                // its program runs
	RAMKilled   bool     `json:"ramKilled"`             // its last end was for lack of RAM
	ExitCode    int      `json:"exitCode"`              // of its last end
	AutoRestart bool     `json:"autoRestart"`           // false for one of a team, which does not say
	Owner       string   `json:"owner,omitempty"`       // name of the other account; "" for an own application
	Permissions []string `json:"permissions,omitempty"` // what the account may do with one of a team
}

// Path is the address of an operation on the application: that of members for one of a
// team.
func (a App) Path(operation string) string {
	base := "/v2/app/"
	if a.Owner != "" {
		base = "/v2/team/"
	}
	return strings.TrimRight(base+url.PathEscape(a.ID)+"/"+operation, "/")
}

// ErrOwnersOnly means that an operation is the owner's alone, and the application one of a
// team.
var ErrOwnersOnly = errors.New("its owner alone can do this")

// ownPath is Path for what a member of a team cannot do.
func (a App) ownPath(operation string) (string, error) {
	if a.Owner != "" {
		return "", failed(ErrOwnersOnly, nil, "cannot do this with %s: it belongs to the account %q, and its owner alone can", a.ID, a.Owner)
	}
	return a.Path(operation), nil
}

// Apps lists the applications of the account, and behind them those of its teams.
func (c *Client) Apps(ctx context.Context) ([]App, error) {
	var own struct{ Apps []App }
	if err := c.Call(ctx, http.MethodGet, "/v2/app/all", nil, &own); err != nil {
		return nil, err
	}
	var teams struct {
		Apps []struct {
			App
			Owner struct{ Name string } `json:"owner"`
			Perms []string              `json:"perms"`
		}
	}
	err := c.Call(ctx, http.MethodGet, "/v2/team", nil, &teams)
	if s := StatusOf(err); s == http.StatusForbidden || s == http.StatusNotFound { // a token with bounds; a server without teams
		err = nil
	}
	for _, t := range teams.Apps {
		t.App.Owner, t.Permissions = t.Owner.Name, t.Perms
		own.Apps = append(own.Apps, t.App)
	}
	return own.Apps, err
}

// ErrNoApp means that the account has no application of an id or a name.
var ErrNoApp = errors.New("no such application")

// AmbiguousError is a name that several applications have.
type AmbiguousError struct {
	Name string
	Apps []App
}

// Error lists the ids.
func (e *AmbiguousError) Error() string {
	ids := make([]string, len(e.Apps))
	for i, a := range e.Apps {
		ids[i] = a.ID
	}
	return fmt.Sprintf("%d applications are named %q: %s", len(e.Apps), e.Name, strings.Join(ids, ", "))
}

// Choose returns the application that a person means by its id or else its name. The error
// is ErrNoApp or an *AmbiguousError.
func Choose(all []App, idOrName string) (App, error) {
	if i := slices.IndexFunc(all, func(a App) bool { return a.ID == idOrName }); i >= 0 {
		return all[i], nil
	}
	named := slices.DeleteFunc(slices.Clone(all), func(a App) bool { return a.Name != idOrName })
	switch len(named) {
	case 0:
		return App{}, failed(ErrNoApp, nil, "there is no application %q", idOrName)
	case 1:
		return named[0], nil
	}
	return App{}, &AmbiguousError{idOrName, named}
}

// Status is what an application uses at this moment, in the server's texts.
type Status struct {
	ID          string `json:"id"`
	Container   string `json:"container"` // such as "Online"
	CPU         string `json:"cpu"`       // such as "0.5%"
	Memory      string `json:"memory"`    // such as "20MB/100MB"
	SSD         string `json:"ssd"`       // disk
	NetIO       NetIO  `json:"netIO"`     // since the start
	LastRestart string `json:"last_restart"`
	StartedAt   string `json:"startedAt"` // RFC 3339; "" if it does not run
}

// NetIO is traffic, in the server's texts.
type NetIO struct {
	Down string `json:"down"`
	Up   string `json:"up"`
}

// Status measures one application.
func (c *Client) Status(ctx context.Context, a App) (Status, error) {
	var answer struct{ Apps Status }
	err := c.Call(ctx, http.MethodGet, a.Path("status"), nil, &answer)
	return answer.Apps, err
}

// Statuses measures all applications of the account; those of teams are not among them.
func (c *Client) Statuses(ctx context.Context) ([]Status, error) {
	var answer struct{ Apps []Status }
	err := c.Call(ctx, http.MethodGet, "/v2/app/all/status", nil, &answer)
	return answer.Apps, err
}

// Outcome is what came of a change: the server's sentence, and, where it says so, whether
// the program runs.
type Outcome struct {
	Message   string     `json:"message"`
	AppStatus *AppStatus `json:"appStatus"` // nil where the answer does not say
}

// AppStatus is how a program does that was started.
type AppStatus struct {
	Online    bool `json:"online"`
	RAMKilled bool `json:"ramKilled"`
	ExitCode  int  `json:"exitCode"`
}

// outcome is Call for a change.
func (c *Client) outcome(ctx context.Context, method, path string, send any) (o Outcome, err error) {
	err = c.Call(ctx, method, path, send, &o)
	return o, err
}

// Start starts the program, and blocks until it is online or has ended. An *Error with the
// status 200 means that it is online already.
func (c *Client) Start(ctx context.Context, a App) (Outcome, error) {
	return c.outcome(ctx, http.MethodPut, a.Path("start"), nil)
}

// Stop ends the program; see Start.
func (c *Client) Stop(ctx context.Context, a App) (Outcome, error) {
	return c.outcome(ctx, http.MethodPut, a.Path("stop"), nil)
}

// StopAll ends the programs of all applications of the account. It returns the server's sentence,
// and how many could not be stopped.
func (c *Client) StopAll(ctx context.Context) (message string, failed int, err error) {
	var answer struct {
		Message string
		Apps    struct{ Failed []string }
	}
	err = c.Call(ctx, http.MethodPut, "/v2/app/all/stop", nil, &answer)
	return answer.Message, len(answer.Apps.Failed), err
}

// Restart ends the program and starts it again; see Start.
func (c *Client) Restart(ctx context.Context, a App) (Outcome, error) {
	return c.outcome(ctx, http.MethodPut, a.Path("restart"), nil)
}

// SetRAM sets how much RAM in MB the application may use.
func (c *Client) SetRAM(ctx context.Context, a App, mb app.MB) (Outcome, error) {
	return c.outcome(ctx, http.MethodPut, a.Path("ram"), map[string]int64{"ramMB": int64(mb)})
}

// SendLine sends a line to the input of the program, which reads lines (STDIN=true).
func (c *Client) SendLine(ctx context.Context, a App, line string) (Outcome, error) {
	path, err := a.ownPath("input")
	if err != nil {
		return Outcome{}, err
	}
	return c.outcome(ctx, http.MethodPost, path, map[string]string{"line": line})
}

// RightSize is which RAM fits an application.
type RightSize struct {
	ID       string `json:"id"`       // of the application
	Verdict  string `json:"verdict"`  // right, less, more, grows, unknown or none
	RAM      int64  `json:"ramMB"`    // that it has
	Fit      int64  `json:"fitMB"`    // that it should have; ramMB unless the verdict is less or more
	Days     int    `json:"days"`     // of the last 30, on which it was measured
	Peak     int64  `json:"peak"`     // bytes, the highest sample
	RAMKills int    `json:"ramKills"` // how often it was killed for its RAM, with ramMB or more
	KillDays int    `json:"killDays"` // in so many days, 7 or 30; 0 without kills
	Message  string `json:"message"`  // the same in the server's words
}

// RightSize asks which RAM fits an application, by what it used.
func (c *Client) RightSize(ctx context.Context, a App) (RightSize, error) {
	var answer struct{ Apps RightSize }
	err := c.Call(ctx, http.MethodGet, a.Path("ram"), nil, &answer)
	return answer.Apps, err
}

// RightSizes is RightSize of all applications of the account; those of teams are not among
// them.
func (c *Client) RightSizes(ctx context.Context) ([]RightSize, error) {
	var answer struct{ Apps []RightSize }
	err := c.Call(ctx, http.MethodGet, "/v2/app/all/ram", nil, &answer)
	return answer.Apps, err
}

// Delete removes the application, its files and its backups for ever.
func (c *Client) Delete(ctx context.Context, a App) (Outcome, error) {
	path, err := a.ownPath("delete")
	if err != nil {
		return Outcome{}, err
	}
	return c.outcome(ctx, http.MethodDelete, path, nil)
}

// LastWords returns the last lines that the program printed, others' bytes.
func (c *Client) LastWords(ctx context.Context, a App) (string, error) {
	var answer struct {
		Apps struct {
			Terminal struct{ Small string }
		}
	}
	err := c.Call(ctx, http.MethodGet, a.Path("logs"), nil, &answer)
	return answer.Apps.Terminal.Small, err
}

// Site is where visitors find an application that is a site.
type Site struct {
	ID        string   `json:"id"`
	Addresses []string `json:"addresses"`
	Listening string   `json:"listening"` // whether its program takes visitors, in the words of the API
	Message   string   `json:"message"`   // why visitors do not find it; "" if they do
}

// Site returns where visitors find an application; its ID is "" for a bot.
func (c *Client) Site(ctx context.Context, a App) (Site, error) {
	path, err := a.ownPath("")
	if err != nil {
		return Site{}, err
	}
	var answer struct{ Site Site }
	err = c.Call(ctx, http.MethodGet, path, nil, &answer)
	return answer.Site, err
}

// Variables lists the environment variables, with masked values: the API tells no other.
func (c *Client) Variables(ctx context.Context, a App) ([]app.Variable, error) {
	path, err := a.ownPath("env")
	if err != nil {
		return nil, err
	}
	var answer struct{ Env []app.Variable }
	err = c.Call(ctx, http.MethodGet, path, nil, &answer)
	return answer.Env, err
}

// Values lists the environment variables with their values, which the server's audit log
// remembers.
func (c *Client) Values(ctx context.Context, a App) ([]app.Variable, error) {
	path, err := a.ownPath("env/values")
	if err != nil {
		return nil, err
	}
	var answer struct{ Env []app.Variable }
	err = c.Call(ctx, http.MethodGet, path, nil, &answer)
	return answer.Env, err
}

// ChangeVariables sets the variables that have a value, and removes those whose value is
// nil: all of them or none.
func (c *Client) ChangeVariables(ctx context.Context, a App, change map[string]*string) (Outcome, error) {
	path, err := a.ownPath("env")
	if err != nil {
		return Outcome{}, err
	}
	return c.outcome(ctx, http.MethodPut, path, map[string]any{"env": change})
}

// Deploy is one deploy of an application.
type Deploy struct {
	Number   int       `json:"number"`
	Date     time.Time `json:"date"`
	By       string    `json:"by"` // number of the account
	Kind     string    `json:"kind"`
	Size     int64     `json:"size"` // bytes
	MainFile string    `json:"mainFile"`
	Lang     string    `json:"lang"`
	Version  string    `json:"version"`
	Note     string    `json:"note"`
	Current  bool      `json:"current"`
	Rollback bool      `json:"rollback"` // its code can come back
}

// Deploys lists the latest deploys, newest first.
func (c *Client) Deploys(ctx context.Context, a App) ([]Deploy, error) {
	path, err := a.ownPath("deploys")
	if err != nil {
		return nil, err
	}
	var answer struct{ Deploys []Deploy }
	err = c.Call(ctx, http.MethodGet, path, nil, &answer)
	return answer.Deploys, err
}

// Deploying returns the number of the newest deploy, 0 for none, and whether another one is
// under way. A server that does not say so is taken to be at one.
func (c *Client) Deploying(ctx context.Context, a App) (newest int, underway bool, err error) {
	path, err := a.ownPath("deploys")
	if err != nil {
		return 0, false, err
	}
	var answer struct {
		Deploys   []Deploy
		Deploying *bool
	}
	err = c.Call(ctx, http.MethodGet, path, nil, &answer)
	if len(answer.Deploys) > 0 {
		newest = answer.Deploys[0].Number
	}
	return newest, answer.Deploying == nil || *answer.Deploying, err
}

// Rollback brings the code of an earlier deploy back, that before the last one for 0. It
// blocks until the program has started.
func (c *Client) Rollback(ctx context.Context, a App, number int) (Outcome, error) {
	path, err := a.ownPath("rollback")
	if err != nil {
		return Outcome{}, err
	}
	var send any
	if number != 0 {
		send = map[string]int{"deploy": number}
	}
	return c.outcome(ctx, http.MethodPost, path, send)
}

// Happening is one entry of an application's history.
type Happening struct {
	Number int64          `json:"number"`
	Date   time.Time      `json:"date"`
	Kind   string         `json:"kind"`
	Text   string         `json:"text"`
	Exit   *Exit          `json:"exit"`
	Deploy string         `json:"deploy"` // kind of the deploy; "" for other entries
	By     string         `json:"by"`     // number of the account; "" for other entries
	Memory *MemoryWarning `json:"memory"`
}

// MemoryWarning is that a program needs nearly all of its RAM. Amounts are in bytes.
type MemoryWarning struct {
	Level  int   `json:"level"` // percent
	Held   int64 `json:"held"`  // that the kernel cannot take back
	Limit  int64 `json:"limit"`
	FullIn int64 `json:"fullIn"` // seconds until it needs all; 0 where it did not grow steadily
	// MemorySignal is the signal that the program asks for and that was due then, and Sent
	// whether it got that.
	MemorySignal string `json:"memorySignal"`
	Sent         bool   `json:"sent"`
}

// Exit is how a program ended.
type Exit struct {
	ExitCode  int  `json:"exitCode"`
	Signal    int  `json:"signal"`
	RAMKilled bool `json:"ramKilled"`
	Asked     bool `json:"asked"` // somebody stopped it
	// HostRAMKilled is that the host ran short of memory; the program's own RAM was not the reason.
	HostRAMKilled bool    `json:"hostRamKilled"`
	HeapFull      string  `json:"heapFull"` // such as "JavaScript": the heap that was full; "" for none
	HeapMB        int64   `json:"heapMb"`   // that it had; 0 when it is not known
	Peak          int64   `json:"peak"`     // bytes; 0 where the kernel does not say
	LimitMB       int64   `json:"limitMb"`
	Ran           float64 `json:"ran"` // seconds
}

// History lists the latest entries, newest first.
func (c *Client) History(ctx context.Context, a App) ([]Happening, error) {
	path, err := a.ownPath("events")
	if err != nil {
		return nil, err
	}
	var answer struct{ Events []Happening }
	err = c.Call(ctx, http.MethodGet, path, nil, &answer)
	return answer.Events, err
}
