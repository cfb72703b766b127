package panel

import (
	"context"
	"math"

	"berth/app"
)

// deploysPage is the data of deploys.html.
type deploysPage struct {
	live
	Deploys []deployRow
	Way     string // why there is no list yet
}

// deployRow is one deploy; the first of the list is what the application has now.
type deployRow struct {
	app.Deploy
	Word string
	Who  string
	Here bool
}

// deploys lists what was deployed, newest first.
func (s *server) deploys(c *call) (answer, error) {
	page := deploysPage{live: s.liveOf(c, "")}
	all, err := s.Deployments.Deploys(c.Request.Context(), c.owner, c.app.ID)
	if app.KindOf(err) == app.Conflict { // its first deployment is under way
		_, page.Way = s.explain(c, err)
		return show("deploys", page)
	}
	if err != nil {
		return answer{}, err
	}
	names := s.namer(c)
	for i, d := range all {
		page.Deploys = append(page.Deploys, deployRow{d, deployWord(c.lang, d.Kind), names(d.By), i == 0})
	}
	return show("deploys", page)
}

// rollback brings the code of an earlier deploy back. Once begun it is finished,
// whether the browser waits or not.
func (s *server) rollback(c *call) (answer, error) {
	number := c.number("number")
	if number < 1 || number > math.MaxInt32 {
		return answer{}, app.Errorf(app.NotFound, "there is no such deploy")
	}
	c.audit.Note("deploy=%d", number)
	ctx := app.WithActor(context.WithoutCancel(c.Request.Context()), c.account.ID)
	if _, err := s.Deployments.Rollback(ctx, c.owner, c.app.ID, int(number)); err != nil {
		return answer{}, err
	}
	return done("/apps/"+string(c.app.ID)+"/deploys", c.lang.Say("The code of deploy %d is back.", number))
}
