package browser

import (
	"strings"
	"testing"

	"berth/test/harness"
)

// An administrator invites; somebody makes an account by the link and is in the team, and another
// account joins by the link of a team. The pages fit a phone and a desk, in the light and the dark.
func TestPanelInvitation(t *testing.T) {
	t.Parallel()
	harness.Ready(t, unready)
	axe := axe(t)
	d, p, id := furnish(t)
	p.open(d.Base+"/host", 200)
	p.fill("#for", "carla")
	p.fill("#invite-ram", "64")
	p.fill("#invite-disk", "1024")
	p.press("#invitations summary", "With your applications")
	p.press("#invitations label", "Greeter")
	p.press("#invitations label", "read the log")
	p.follow(func() { p.press("#invitations button", "Create a link") })
	p.says("The invitation was created")
	link := eval[string](p, `document.querySelector("#secret").value`)
	if !strings.HasPrefix(link, d.Base+"/invitation/") {
		t.Fatalf("the link is %q", link)
	}
	p.says("Nobody can open it on another computer")
	p.says("carla")
	p.looked(axe, "host-invitations")
	p.open(d.Base+"/host", 200)
	if strings.Contains(eval[string](p, `document.documentElement.outerHTML`), strings.TrimPrefix(link, d.Base)) {
		t.Error("the page shows the link again")
	}

	guest := p.another()
	guest.watch()
	guest.open(link, 200)
	guest.says("ana invites you.")
	guest.looked(axe, "invitation")
	guest.open(link, 200) // to look at it has not used it up
	if name := eval[string](guest, `document.querySelector("#name").value`); name != "carla" {
		t.Errorf("the name is %q", name)
	}
	guest.fill("#password", secret)
	guest.fill("#again", secret+"!")
	guest.follow(func() { guest.press("main button", "Create the account") })
	guest.says("passwords differ")
	guest.fill("#password", secret)
	guest.fill("#again", secret)
	guest.follow(func() { guest.press("main button", "Create the account") })
	guest.until(`location.pathname == "/"`)
	guest.says("Greeter")
	guest.open(d.Base+"/apps/"+id+"/logs", 200)
	guest.sound()
	guest.open(link, 404)
	guest.says("was used or revoked, or has expired")

	p.open(d.Base+"/apps/"+id+"/settings", 200)
	p.press(`form[action$="/invitations"] label`, "stop")
	p.follow(func() { p.press(`form[action$="/invitations"] button`, "Create a link") })
	p.says("The invitation was created")
	team := eval[string](p, `document.querySelector("#secret").value`)
	p.looked(axe, "settings-invitations")
	d.run("account", "create", "bob", "--ram", "64")
	d.runWith(secret+"\n", "account", "password", "bob")
	member := p.another()
	member.watch()
	member.open(team, 200)
	member.follow(func() { member.press("main a", "Accept with an account that exists") })
	member.fill("#name", "bob")
	member.fill("#password", secret)
	member.follow(func() { member.press("main button", "Sign in") })
	member.until(`location.pathname.startsWith("/invitation/")`)
	member.looked(axe, "invitation-join")
	member.follow(func() { member.press("main button", "Accept as bob") })
	member.says("You accepted the invitation.")
	member.says("Greeter")
	member.sound()

	p.open(d.Base+"/apps/"+id+"/settings", 200)
	d.run("account", "create", "dora", "--ram", "64")
	p.fill("#account", "dora")
	p.press(`form[action$="/team"] label`, "stop")
	p.follow(func() { p.press(`form[action$="/team"] button`, "Add") })
	p.says("dora is in the team now.")
	p.sound()
}
