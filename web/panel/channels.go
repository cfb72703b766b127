package panel

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"berth/app"
	"berth/app/text"
)

// channelPages are where an account hears what goes wrong: its channels, and what was sent there.
// What a receiver has answered is on none of them.
type channelPages struct {
	notices app.Notices
	apps    app.Applications
}

const channelsPath = "/account/channels"

// channelRow is a channel in a list.
type channelRow struct {
	app.Channel
	standing
	Title string // of its service
	Apps  string // that it is about, by name; "" for all
}

// channelsPage is the data of channels.html.
type channelsPage struct {
	Rows     []channelRow
	Services []app.ChannelService
	New      *channelForm // nil until a service was chosen
}

// channelPage is the data of channel.html.
type channelPage struct {
	channelRow
	Form       channelForm
	Deliveries []deliveryRow
}

type deliveryRow struct {
	app.Delivery
	standing
}

// channelForm is what the form of a channel shows.
type channelForm struct {
	app.Channel // as it is, or as it was typed; the target only as it was typed
	New         bool
	Action      string
	All         []app.Snapshot
	Offered     []app.NoticeKind
}

func (p channelPages) list(c *call) (answer, error) {
	all, err := p.notices.Channels(c.ctx(), c.account.ID)
	page := channelsPage{Services: app.ChannelServices}
	for _, ch := range all {
		page.Rows = append(page.Rows, p.row(c, ch))
	}
	service := app.ChannelService(c.Request.URL.Query().Get("service"))
	if c.problem != "" && c.Request.PostForm.Has("service") {
		service = app.ChannelService(c.Request.PostForm.Get("service"))
	}
	if slices.Contains(app.ChannelServices, service) {
		page.New = new(p.form(c, app.Channel{Service: service, Lang: c.account.Locale}, channelsPath))
		page.New.New = true
	}
	return show("channels", page), err
}

func (p channelPages) row(c *call, ch app.Channel) channelRow {
	about := names(ch.Apps, p.apps.Apps(c.account.ID))
	return channelRow{ch, channelStanding(c.lang, ch), serviceWord(c.lang, ch.Service), about}
}

// form is the form of a channel: with what was typed, when that was refused.
func (p channelPages) form(c *call, ch app.Channel, action string) channelForm {
	ch.Target = ""
	if c.problem != "" && c.Request.PostForm.Has("target") {
		apply(&ch, c.Request.PostForm)
	}
	offered := slices.Clone(app.NoticeKinds)
	if !c.account.Admin {
		offered = slices.DeleteFunc(offered, func(k app.NoticeKind) bool { return slices.Contains(ofHost, k) })
	}
	return channelForm{Channel: ch, Action: action, All: p.apps.Apps(c.account.ID), Offered: offered}
}

// ofHost are the kinds that only those hear of who look after the host.
var ofHost = []app.NoticeKind{
	app.NoticeHostDisk, app.NoticeHostMemory, app.NoticeCertificate, app.NoticeBackupFailed, app.NoticeBackupIncomplete,
	app.NoticeBackupMissing, app.NoticeBackupUnrehearsed, app.NoticeBackupKey, app.NoticeUpgraded, app.NoticeRestarted, app.NoticeRebooted,
}

// apply sets what a form says of a channel.
func apply(ch *app.Channel, f url.Values) {
	ch.Name, ch.Target, ch.Recipient = strings.TrimSpace(f.Get("name")), strings.TrimSpace(f.Get("target")), strings.TrimSpace(f.Get("recipient"))
	ch.Least, _ = app.ParseSeverity(f.Get("least")) // the first, for what is none
	ch.Lang, ch.Apps, ch.Kinds, ch.Secrets = f.Get("lang"), nil, nil, nil
	for _, id := range f["app"] {
		ch.Apps = append(ch.Apps, app.ID(id))
	}
	for _, kind := range f["kind"] {
		ch.Kinds = append(ch.Kinds, app.NoticeKind(kind))
	}
	if token := strings.TrimSpace(f.Get("token")); token != "" && ch.Service == app.Ntfy {
		ch.Secrets = []string{token}
	}
}

func (p channelPages) add(c *call, f url.Values) (answer, error) {
	ch := app.Channel{Account: c.account.ID, Owner: c.account.Admin, Service: app.ChannelService(f.Get("service")), On: true}
	apply(&ch, f)
	c.audit.Note("service=%.20q name=%.100q", ch.Service, ch.Name)
	made, err := p.notices.AddChannel(c.ctx(), ch)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("channel=%d", made.ID)
	said := flash{Text: c.lang.Say("The channel was created. Test it now.")}
	switch {
	case made.Service == app.Email && !made.Confirmed:
		said.Text = c.lang.Say("The channel was created. berth has sent a link to the address, and sends nothing else before somebody follows it.")
	case made.Service == app.Webhook:
		said = p.secret(c, made, said.Text)
	}
	return answer{to: channelsPath, flash: &said}, nil
}

// secret is what shows a new secret, once.
func (channelPages) secret(c *call, ch app.Channel, said string) flash {
	f := flash{Text: said, Word: c.lang.Say("Secret of the channel")}
	if len(ch.Secrets) > 0 {
		f.Secret = ch.Secrets[0]
	}
	return f
}

// channelAt is the page of the channel of the path.
func channelAt(c *call) string { return fmt.Sprintf("%s/%d", channelsPath, c.number("channel")) }

// backOf is the page that a button was on: of the channel, or of all.
func backOf(c *call) string {
	if here := channelAt(c); c.back() == here {
		return here
	}
	return channelsPath
}

// origin shows again the page that a button was on.
func (p channelPages) origin(c *call) (answer, error) {
	if backOf(c) == channelsPath {
		return p.list(c)
	}
	return p.show(c)
}

func (p channelPages) show(c *call) (answer, error) {
	ch, err := p.notices.Channel(c.ctx(), c.account.ID, c.number("channel"))
	if err != nil {
		return answer{}, err
	}
	page := channelPage{channelRow: p.row(c, ch), Form: p.form(c, ch, channelAt(c))}
	all, err := p.notices.Deliveries(c.ctx(), c.account.ID, ch.ID)
	for _, d := range all {
		page.Deliveries = append(page.Deliveries, deliveryRow{d, deliveryStanding(c.lang, d)})
	}
	return show("channel", page), err
}

// set changes what the form shows. An empty target stays as it is.
func (p channelPages) set(c *call, f url.Values) (answer, error) {
	return p.change(c, channelAt(c), c.lang.Say("The channel was changed."), func(ch *app.Channel) { apply(ch, f) })
}

// turn switches a channel on or off.
func (p channelPages) turn(c *call, f url.Values) (answer, error) {
	on, said := f.Get("on") == "true", c.lang.Say("The channel was switched off.")
	if on {
		said = c.lang.Say("The channel was switched on.")
	}
	return p.change(c, backOf(c), said, func(ch *app.Channel) { ch.On = on })
}

func (p channelPages) change(c *call, to, said string, change func(*app.Channel)) (answer, error) {
	id := c.number("channel")
	c.audit.Note("channel=%d", id)
	ch, err := p.notices.Channel(c.ctx(), c.account.ID, id)
	if err != nil {
		return answer{}, err
	}
	ch.Target, ch.Secrets = "", nil // they stay
	change(&ch)
	c.audit.Note("name=%.100q on=%t target=%t", ch.Name, ch.On, ch.Target != "")
	_, err = p.notices.SetChannel(c.ctx(), ch)
	return done(to, said), err
}

func (p channelPages) remove(c *call) (answer, error) {
	id := c.number("channel")
	c.audit.Note("channel=%d", id)
	return done(channelsPath, c.lang.Say("The channel was removed.")), p.notices.RemoveChannel(c.ctx(), c.account.ID, id)
}

func (p channelPages) test(c *call) (answer, error) {
	id := c.number("channel")
	c.audit.Note("channel=%d", id)
	ch, err := p.notices.Channel(c.ctx(), c.account.ID, id)
	if err == nil {
		err = p.notices.TestChannel(c.ctx(), c.account.ID, id)
	}
	said := c.lang.Say("The message has arrived.")
	if ch.Service == app.Email && !ch.Confirmed {
		said = c.lang.Say("The link was sent to the address again.")
	}
	return done(backOf(c), said), err
}

func (p channelPages) turnSecret(c *call) (answer, error) {
	id := c.number("channel")
	c.audit.Note("channel=%d", id)
	ch, err := p.notices.TurnSecret(c.ctx(), c.account.ID, id)
	said := p.secret(c, ch, c.lang.Say("The channel has a new secret. Messages are signed with the old one too, until you end that."))
	return answer{to: channelAt(c), flash: &said}, err
}

func (p channelPages) endSecret(c *call) (answer, error) {
	id := c.number("channel")
	c.audit.Note("channel=%d", id)
	return done(channelAt(c), c.lang.Say("The old secret was ended.")), p.notices.EndSecret(c.ctx(), c.account.ID, id)
}

func (p channelPages) sendAgain(c *call) (answer, error) {
	id := c.number("delivery")
	c.audit.Note("delivery=%d", id)
	return done(channelAt(c), c.lang.Say("berth sends the message again.")), p.notices.SendAgain(c.ctx(), c.account.ID, id)
}

// mailPage is the data of mail.html: a link of a mail was opened, or its button pressed.
type mailPage struct {
	Title, Text string
	Button      string // "" where there is nothing more to do
}

// confirm shows the button behind the link of a mail. To open the link changes nothing: programs
// that look for viruses do it, too.
func (channelPages) confirm(c *call) (answer, error) {
	return show("mail", mailPage{
		c.lang.Say("Get mail from this host?"),
		c.lang.Say("Somebody wants berth to write to this address when one of their applications crashes, or something else goes wrong. If that was not you, close this page: nothing more will come."),
		c.lang.Say("Yes, write to me"),
	}), nil
}

func (p channelPages) confirmed(c *call) (answer, error) {
	c.audit.stranger = true
	ch, err := p.notices.Confirm(c.ctx(), c.Request.PathValue("token"))
	c.audit.Note("channel=%d", ch.ID)
	return show("mail", mailPage{c.lang.Say("Confirmed"), c.lang.Say("berth writes to this address from now on. Each mail has a link that ends it."), ""}), linkOver(err)
}

func (channelPages) leave(c *call) (answer, error) {
	return show("mail", mailPage{
		c.lang.Say("No more mail from this host?"), c.lang.Say("berth then stops writing to this address, unless somebody confirms it again."), c.lang.Say("Stop the e-mails"),
	}), nil
}

// left ends mail to an address. Programs for mail send the form too, by one click (RFC 8058), and
// follow no redirect.
func (p channelPages) left(c *call) (answer, error) {
	c.audit.stranger = true
	ch, err := p.notices.Leave(c.ctx(), c.Request.PathValue("token"))
	c.audit.Note("channel=%d", ch.ID)
	return show("mail", mailPage{c.lang.Say("Done"), c.lang.Say("berth no longer writes to this address."), ""}), linkOver(err)
}

func linkOver(err error) error {
	if app.KindOf(err) == app.NotFound {
		return app.Errorf(app.NotFound, "this link no longer works")
	}
	return err
}

// channelStanding is whether a channel is sent to.
func channelStanding(l text.Language, ch app.Channel) standing {
	switch {
	case ch.Stopped != "":
		return standing{"bad", "warning", l.Say("Sending stopped"), sentence(ch.Stopped)}
	case !ch.On:
		return standing{"off", "pause", l.Say("Off"), ""}
	case ch.Service == app.Email && !ch.Confirmed:
		return standing{"busy", "clock", l.Say("To be confirmed"), l.Say("Somebody must follow the link that berth has sent to the address.")}
	}
	return standing{"good", "check", l.Say("On"), ""}
}

// deliveryStanding is what became of a message.
func deliveryStanding(l text.Language, d app.Delivery) standing {
	why := ""
	if d.Why != "" {
		why = sentence(d.Why)
	}
	switch d.State {
	case app.DeliverySent:
		return standing{"good", "check", l.Say("Sent"), ""}
	case app.DeliveryFailed:
		return standing{"bad", "cross", l.Say("Failed"), why}
	case app.DeliveryWaiting:
	}
	return standing{"busy", "clock", l.Say("Waiting"), why}
}

// serviceWord is what a service calls itself.
func serviceWord(l text.Language, s app.ChannelService) string {
	switch s {
	case app.Discord:
		return "Discord"
	case app.Slack:
		return "Slack"
	case app.Telegram:
		return "Telegram"
	case app.Ntfy:
		return "ntfy"
	case app.Email:
		return l.Say("E-mail")
	case app.Webhook:
		return l.Say("Webhook of your own")
	}
	return string(s)
}

// kindWord is what a notice is about.
func kindWord(l text.Language, k app.NoticeKind) string {
	switch k {
	case app.NoticeCrashed:
		return l.Say("it crashed")
	case app.NoticeOutOfMemory:
		return l.Say("it ran out of memory")
	case app.NoticeMemoryHigh:
		return l.Say("its RAM is nearly full")
	case app.NoticeStartFailed:
		return l.Say("it could not be started")
	case app.NoticeStartsSpent:
		return l.Say("berth does not start it again for now")
	case app.NoticeBackOnline:
		return l.Say("it is back online")
	case app.NoticeDeployed:
		return l.Say("new code was deployed")
	case app.NoticeDeployFailed:
		return l.Say("new code could not be deployed")
	case app.NoticeNotListening:
		return l.Say("a site takes no connections")
	case app.NoticeNotAnswering:
		return l.Say("a site does not answer")
	case app.NoticeDisk:
		return l.Say("its disk space is used up")
	case app.NoticeHostDisk:
		return l.Say("the host's disk is nearly full")
	case app.NoticeHostMemory:
		return l.Say("the host is short of memory")
	case app.NoticeCertificate:
		return l.Say("a certificate was not renewed")
	case app.NoticeBackupFailed:
		return l.Say("a backup failed")
	case app.NoticeBackupIncomplete:
		return l.Say("a backup lacks some applications")
	case app.NoticeBackupMissing:
		return l.Say("there is no new backup")
	case app.NoticeBackupUnrehearsed:
		return l.Say("the backup was not rehearsed")
	case app.NoticeBackupKey:
		return l.Say("nobody was shown the key of the backups")
	case app.NoticeSignIn:
		return l.Say("somebody signed in with a new browser")
	case app.NoticeToken:
		return l.Say("a token was created")
	case app.NoticeUpgraded:
		return l.Say("berth was upgraded")
	case app.NoticeRestarted:
		return l.Say("berth ended unexpectedly and runs again")
	case app.NoticeRebooted:
		return l.Say("the host was started again")
	case app.NoticeTest:
		return l.Say("a test")
	}
	return string(k)
}

// severityWord is what is sent, from a severity on.
func severityWord(l text.Language, s app.Severity) string {
	switch s {
	case app.Warning:
		return l.Say("warnings and failures")
	case app.Failure:
		return l.Say("failures only")
	case app.Info:
	}
	return l.Say("everything")
}

// channelRoutes are those of channels, and of the links in mail.
func (p *pages) channelRoutes() []route {
	const one = channelsPath + "/{channel}"
	return []route{
		{http.MethodGet, channelsPath, signedIn, ownerOnly, p.channels.list, "", nil},
		{http.MethodPost, channelsPath, signedIn | again, ownerOnly, form(p.channels.add), "channel.add", p.channels.list},
		{http.MethodGet, one, signedIn, ownerOnly, p.channels.show, "", nil},
		{http.MethodPost, one, signedIn | again, ownerOnly, form(p.channels.set), "channel.set", p.channels.show},
		{http.MethodPost, one + "/test", signedIn, ownerOnly, p.channels.test, "channel.test", p.channels.origin},
		{http.MethodPost, one + "/switch", signedIn, ownerOnly, form(p.channels.turn), "channel.set", p.channels.origin},
		{http.MethodPost, one + "/remove", signedIn, ownerOnly, p.channels.remove, "channel.remove", p.channels.origin},
		{http.MethodPost, one + "/secret", signedIn | again, ownerOnly, p.channels.turnSecret, "channel.turnSecret", p.channels.show},
		{http.MethodPost, one + "/secret/end", signedIn, ownerOnly, p.channels.endSecret, "channel.endSecret", p.channels.show},
		{http.MethodPost, one + "/deliveries/{delivery}/again", signedIn, ownerOnly, p.channels.sendAgain, "delivery.again", p.channels.show},

		{http.MethodGet, app.ConfirmPath + "{token}", public, ownerOnly, p.channels.confirm, "", nil},
		{http.MethodPost, app.ConfirmPath + "{token}", public, ownerOnly, p.channels.confirmed, "channel.confirm", nil},
		{http.MethodGet, app.LeavePath + "{token}", public, ownerOnly, p.channels.leave, "", nil},
		{http.MethodPost, app.LeavePath + "{token}", public, ownerOnly, p.channels.left, "channel.leave", nil},
	}
}
