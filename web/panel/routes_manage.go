package panel

import (
	"net/http"

	"berth/app"
)

// manageRoutes are the pages of one application that change it.
func (s *server) manageRoutes() []route {
	return []route{
		{http.MethodGet, "/apps/{app}/env", signedIn, ownerOnly, s.env, "", nil},
		{http.MethodPost, "/apps/{app}/env", signedIn, ownerOnly, s.setVariables, "env.set", s.env},
		{http.MethodPost, "/apps/{app}/env/reveal", signedIn, ownerOnly, s.revealVariable, "env.reveal", s.env},
		{http.MethodPost, "/apps/{app}/env/remove", signedIn, ownerOnly, s.removeVariable, "env.remove", s.env},

		{http.MethodGet, "/apps/{app}/files", signedIn, app.BackupApp, s.files, "", nil},
		{http.MethodGet, "/apps/{app}/files/view", signedIn, app.BackupApp, s.viewFile, "file.read", nil},
		{http.MethodGet, "/apps/{app}/files/download", signedIn, app.BackupApp, s.downloadFile, "file.read", nil},
		{http.MethodPost, "/apps/{app}/files/write", signedIn, ownerOnly, s.writeFile, "file.write", s.editFile},
		{http.MethodPost, "/apps/{app}/files/upload", signedIn, ownerOnly, s.putFile, "file.write", s.files},

		{http.MethodGet, "/apps/{app}/domains", signedIn, ownerOnly, s.domains, "", nil},
		{http.MethodPost, "/apps/{app}/domains", signedIn, ownerOnly, s.claimDomain, "domain.claim", s.domains},
		{http.MethodPost, "/apps/{app}/domains/{domain}/verify", signedIn, ownerOnly, s.verifyDomain, "domain.verify", s.domains},
		{http.MethodPost, "/apps/{app}/domains/{domain}/remove", signedIn, ownerOnly, s.removeDomain, "domain.remove", s.domains},

		{http.MethodGet, "/apps/{app}/backups", signedIn, app.BackupApp, s.backups, "", nil},
		{http.MethodPost, "/apps/{app}/backups", signedIn, app.BackupApp, s.makeBackup, "app.backup", s.backups},
		{http.MethodPost, "/apps/{app}/restore", signedIn, ownerOnly, s.restore, "app.restore", s.backups},
		{http.MethodPost, "/apps/{app}/restore/zip", signedIn, ownerOnly, s.restoreUploaded, "app.restore", s.backups},

		{http.MethodGet, "/apps/{app}/settings", signedIn, app.EditRAM, s.settings, "", nil},
		{http.MethodPost, "/apps/{app}/ram", signedIn, app.EditRAM, s.setRAM, "app.ram", s.settings},
		{http.MethodPost, "/apps/{app}/profile", signedIn, ownerOnly, s.setProfile, "app.profile", s.settings},
		{http.MethodPost, "/apps/{app}/autorestart", signedIn, ownerOnly, s.setAutoRestart, "app.autorestart", s.settings},
		{http.MethodPost, "/apps/{app}/team", signedIn, ownerOnly, s.addMember, "team.add", s.settings},
		{http.MethodPost, "/apps/{app}/team/{member}", signedIn, ownerOnly, s.setMember, "team.set", s.settings},
		{http.MethodPost, "/apps/{app}/team/{member}/remove", signedIn, ownerOnly, s.removeMember, "team.remove", s.settings},
		{http.MethodPost, "/apps/{app}/delete", signedIn, ownerOnly, s.deleteApp, "app.delete", s.settings},
	}
}

// deployRoutes are those that a ZIP is sent to.
func (s *server) deployRoutes() []route {
	return []route{
		{http.MethodGet, "/upload", signedIn, ownerOnly, s.upload, "", nil},
		{http.MethodPost, "/upload", signedIn, ownerOnly, s.sendUpload, "app.upload", s.upload},
		{http.MethodGet, "/apps/{app}/commit", signedIn, app.CommitApp, s.commit, "", nil},
		{http.MethodPost, "/apps/{app}/commit", signedIn, app.CommitApp, s.sendCommit, "app.commit", s.commit},
		{http.MethodGet, "/uploads/{job}", signedIn, ownerOnly, s.job, "", nil},
	}
}

// hostRoutes are the administrators'.
func (s *server) hostRoutes() []route {
	return []route{
		{http.MethodGet, "/host", admin, ownerOnly, s.host, "", nil},
		{http.MethodPost, "/host/accounts", admin, ownerOnly, s.createAccount, "account.create", s.host},
		{http.MethodPost, "/host/accounts/{account}/ram", admin, ownerOnly, s.setAccountRAM, "account.set", s.host},
		{http.MethodPost, "/host/accounts/{account}/disable", admin, ownerOnly, s.disableAccount, "account.disable", s.host},
		{http.MethodPost, "/host/accounts/{account}/enable", admin, ownerOnly, s.enableAccount, "account.enable", s.host},
		{http.MethodPost, "/host/accounts/{account}/link", admin, ownerOnly, s.linkAccount, "password.link", s.host},
		{http.MethodPost, "/host/doctor", admin, ownerOnly, s.examine, "host.examine", s.host},
		{http.MethodGet, "/host/audit", admin, ownerOnly, s.auditLog, "", nil},
	}
}
