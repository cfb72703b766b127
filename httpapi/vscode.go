package httpapi

import "berth/app"

// clusterName is where every application is, for clients that show it.
const clusterName = "berth"

type vscodeAnswer struct {
	Status  string     `json:"status"`
	Message string     `json:"message"`
	User    vscodeUser `json:"user"`
}

// vscodeUser is all that the extension of VS Code shows, in one answer.
type vscodeUser struct {
	user
	Avatar     *string     `json:"avatar"` // accounts have none here
	AppsStatus []vscodeApp `json:"appsStatus"`
	AppsTeam   []app.ID    `json:"appsTeam"`
}

type vscodeApp struct {
	ID          app.ID   `json:"id"`
	Name        string   `json:"name"`
	APTs        []string `json:"apts"`
	AutoRestart bool     `json:"autoRestart"`
	AvatarURL   string   `json:"avatarURL"`
	ClusterName string   `json:"clusterName"`
	ExitCode    int      `json:"exitCode"`
	Lang        string   `json:"lang"`
	MainFile    string   `json:"mainFile"`
	Online      bool     `json:"online"`
	RAM         app.MB   `json:"ram"`
	RAMKilled   bool     `json:"ramKilled"`
	Type        app.Type `json:"type"`
	Version     string   `json:"version"`
}

func (s *server) vscode(c *call) (response, error) {
	teams, err := s.Teams.Memberships(c.Request.Context(), c.account.ID)
	if err != nil {
		return response{}, err
	}
	names, err := s.Names.Names(c.Request.Context(), c.account.ID)
	if err != nil {
		return response{}, err
	}
	apps := s.Applications.Apps(c.account.ID)
	u := vscodeUser{
		user:       s.describeUser(c.account, apps, names),
		AppsStatus: []vscodeApp{},
		AppsTeam:   []app.ID{},
	}
	for _, snap := range apps {
		u.AppsStatus = append(u.AppsStatus, describeForVSCode(snap))
	}
	for _, m := range teams {
		u.AppsTeam = append(u.AppsTeam, m.App)
	}
	return ok(vscodeAnswer{statusOK, c.say("The information of your account has been loaded."), u})
}

func describeForVSCode(s app.Snapshot) vscodeApp {
	return vscodeApp{
		ID:          s.ID,
		Name:        s.Name,
		APTs:        append([]string{}, s.Apts...), // an empty list, not null
		AutoRestart: s.AutoRestart,
		AvatarURL:   s.AvatarURL,
		ClusterName: clusterName,
		ExitCode:    s.ExitCode(),
		Lang:        s.Code.Lang,
		MainFile:    s.Code.Main,
		Online:      s.Running,
		RAM:         s.RAM,
		RAMKilled:   s.RAMKilled(),
		Type:        s.Type,
		Version:     s.Code.Version,
	}
}
