package panel

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/app"
)

const (
	// pageRows is how many applications a page of the list has at most.
	pageRows = 200
	// measurers is how many applications are measured at once.
	measurers = 8
	// measuredRows is up to how many that run are measured for a list: each can take a tenth of a
	// second. Of more the list shows what was kept of the last minutes, until the stream tells more.
	measuredRows = 16
	// keptFor is for how long what was kept is shown as what is used now.
	keptFor = 3 * time.Minute
	// crashesRead is of how many applications of a page the last lines are read.
	crashesRead = 50
)

// listPage is the data of apps.html.
type listPage struct {
	live
	Apps             []appRow // of this page
	All, Found       int      // how many there are, and how many of them the query selects
	Show, Query      string   // of the address: "online", "problem" or "", and a part of a name
	Sort             string   // a column; with "-" before it the largest first
	Page, Pages      int      // from 1
	Table            bool     // rows of a table, not cards
	Online, Problems int
	Assigned, Total  int64 // bytes of the account
	InUse            int64
	Steps            *stepsPage // nil where nothing is left to do
	Choosable        bool       // something can be done to one of the page
}

// Unassigned is what the account can still give, in bytes.
func (p listPage) Unassigned() int64 { return max(0, p.Total-p.Assigned) }

// list shows what the account has and helps with, problems first.
func (p *appPages) list(c *call) (answer, error) {
	q := c.Request.URL.Query()
	page := listPage{
		live: liveOf(p.feed, "figures", ""), Total: c.account.TotalRAM.Bytes(), Table: c.choice(viewSuffix, views) == views[1],
		Show: q.Get("show"), Query: strings.TrimSpace(q.Get("q")), Sort: sortOf(q.Get("sort")),
	}
	rows, err := p.rows(c)
	if err != nil {
		return answer{}, err
	}
	p.measure(c.ctx(), rows)
	for i := range rows {
		r := &rows[i]
		if r.Own {
			page.Assigned += r.Charged().Bytes()
			page.InUse += r.Used
		}
		switch r.Class {
		case "good":
			page.Online++
		case "bad":
			page.Problems++
		}
	}
	page.All = len(rows)
	rows = slices.DeleteFunc(rows, func(r appRow) bool { return !page.shows(r) })
	page.Found = len(rows)
	if page.column() == "address" {
		p.locate(rows)
	}
	slices.SortStableFunc(rows, page.compare)
	page.Pages = max(1, (page.Found+pageRows-1)/pageRows)
	page.Page = min(max(int(whole(q.Get("page"))), 1), page.Pages)
	page.Apps = rows[(page.Page-1)*pageRows : min(page.Page*pageRows, page.Found)]
	if err := p.fill(c, &page); err != nil {
		return answer{}, err
	}
	page.Steps, err = p.steps.left(c)
	return show("apps", page), err
}

// fill adds to the rows of a page what the others need not have.
func (p *appPages) fill(c *call, page *listPage) error {
	p.locate(page.Apps)
	if err := p.icons.picture(c, page.Apps); err != nil {
		return err
	}
	read := 0
	for i := range page.Apps {
		r := &page.Apps[i]
		page.Choosable = page.Choosable || r.Choosable()
		if page.Table {
			r.Spark = p.charts.sparks(*r)
		} else if read < crashesRead && hasCrashed(r.Snapshot) {
			r.Crash = crashOf(c.lang, p.logs, r.Snapshot, r.Can, r.Own)
			read++
		}
	}
	if page.All > pageRows { // of fewer everything is news
		page.Stream += "&" + query("shown", shownOf(page.Apps))
	}
	return nil
}

// rows are all applications that the account has and helps with. Sites have no address yet.
func (p *appPages) rows(c *call) ([]appRow, error) {
	var rows []appRow
	for _, snap := range p.apps.Apps(c.account.ID) {
		rows = append(rows, rowOf(c, snap, app.AllPermissions, ""))
	}
	helps, err := p.teams.Memberships(c.ctx(), c.account.ID)
	if err != nil {
		return nil, err
	}
	for _, m := range helps {
		snap, err := p.apps.App(m.Owner.ID, m.App)
		if app.KindOf(err) == app.NotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		if m.Owner.Closed() != nil {
			m.Permissions = 0
		}
		rows = append(rows, rowOf(c, snap, m.Permissions, m.Owner.Name))
	}
	return rows, nil
}

// locate gives sites their addresses.
func (p *appPages) locate(rows []appRow) {
	for i := range rows {
		if r := &rows[i]; r.Type == app.Site {
			r.Address = p.address(r.ID)
		}
	}
}

// shows reports whether the query selects a row.
func (p listPage) shows(r appRow) bool {
	if p.Show == "online" && r.Class != "good" || p.Show == "problem" && r.Class != "bad" {
		return false
	}
	return strings.Contains(strings.ToLower(r.Name+" "+string(r.ID)+" "+r.Owner), strings.ToLower(p.Query))
}

// columns are those by which a list can be sorted. Of the figures the largest come first.
var columns = map[string]bool{ // whether the largest come first
	"name": false, "state": false, "cpu": true, "ram": true, "restarts": true, "uptime": true, "address": false,
}

// sortOf is what an address asks for; "state" is the default.
func sortOf(s string) string {
	if _, known := columns[strings.TrimPrefix(s, "-")]; !known {
		return "state"
	}
	return s
}

// column is the one that the page is sorted by.
func (p listPage) column() string { return strings.TrimPrefix(p.Sort, "-") }

// Sorted is the value of aria-sort of a column.
func (p listPage) Sorted(column string) string {
	switch {
	case p.column() != column:
		return "none"
	case p.Sort == column:
		return "ascending"
	}
	return "descending"
}

// By is the address of the same list sorted by a column: turned around, if it is sorted by that
// already.
func (p listPage) By(column string) string {
	to := column
	if columns[column] {
		to = "-" + column
	}
	if p.Sort != to {
		return p.With("sort", to)
	}
	if up, down := strings.CutPrefix(to, "-"); down {
		return p.With("sort", up)
	}
	return p.With("sort", "-"+to)
}

// With is the address of this list with another value of one parameter. Only "page" keeps the page.
func (p listPage) With(name, value string) string {
	all := map[string]string{"show": p.Show, "q": p.Query, "sort": p.Sort}
	all[name] = value
	if all["sort"] == "state" {
		all["sort"] = ""
	}
	if all["page"] == "1" {
		all["page"] = ""
	}
	q := url.Values{}
	for name, value := range all {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return "/"
	}
	return "/?" + q.Encode()
}

// At is the address of another page of the list.
func (p listPage) At(page int) string { return p.With("page", strconv.Itoa(page)) }

// Here is the address of this page.
func (p listPage) Here() string { return p.At(p.Page) }

// First and Last number the applications of this page.
func (p listPage) First() int { return (p.Page-1)*pageRows + 1 }

// Last is the number of the last one.
func (p listPage) Last() int { return (p.Page-1)*pageRows + len(p.Apps) }

// Near are the pages that the page links to: the first, the last and those beside it; 0 stands
// for a gap.
func (p listPage) Near() []int {
	var all []int
	for n := 1; n <= p.Pages; n++ {
		switch {
		case n == 1, n == p.Pages, n >= p.Page-1 && n <= p.Page+1:
			all = append(all, n)
		case all[len(all)-1] != 0:
			all = append(all, 0)
		}
	}
	return all
}

// compare orders rows. Those without a value of the column come last, whichever way it is sorted.
func (p listPage) compare(a, b appRow) int {
	column, down := p.column(), p.Sort != p.column()
	by := func(x, y int) int {
		if down {
			return y - x
		}
		return x - y
	}
	known := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	name := natural(strings.ToLower(a.Name), strings.ToLower(b.Name))
	order := 0
	switch column {
	case "name":
		return by(name, 0)
	case "cpu":
		order = cmp.Or(known(a.Measured, b.Measured), by(cmp.Compare(a.CPU, b.CPU), 0))
	case "ram":
		order = cmp.Or(known(a.Measured, b.Measured), by(cmp.Compare(a.Used, b.Used), 0))
	case "restarts":
		order = by(a.Starts, b.Starts)
	case "uptime": // who began last has run for the shortest time
		order = cmp.Or(known(a.Up(), b.Up()), by(b.StartedAt.Compare(a.StartedAt), 0))
	case "address":
		order = cmp.Or(known(a.URL() != "", b.URL() != ""), by(strings.Compare(a.URL(), b.URL()), 0))
	default:
		order = by(a.rank(), b.rank())
	}
	return cmp.Or(order, name, strings.Compare(string(a.ID), string(b.ID)))
}

// natural compares names as people do: "bot 9" comes before "bot 10".
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := number(a), number(b)
		if len(x) > 0 && len(y) > 0 {
			m, n := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if order := cmp.Or(len(m)-len(n), strings.Compare(m, n)); order != 0 {
				return order
			}
			a, b = a[len(x):], b[len(y):]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// number are the digits that a name begins with.
func number(s string) string {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return s[:n]
}

// Up reports whether it is known since when the application runs.
func (r appRow) Up() bool { return r.Running && !r.StartedAt.IsZero() }

// URL is where a site is visited, "" for nowhere.
func (r appRow) URL() string {
	if len(r.Address.URLs) == 0 {
		return ""
	}
	return r.Address.URLs[0]
}

// measure measures the programs that run and may be seen, or takes what was kept of it if that is much. One
// that cannot be measured has no usage.
func (p *appPages) measure(ctx context.Context, rows []appRow) {
	var running []*appRow
	for i := range rows {
		if r := &rows[i]; r.Running && !r.Code.Static() && r.Can.Has(app.StatusApp) {
			running = append(running, r)
		}
	}
	if len(running) > measuredRows {
		now := time.Now()
		for _, r := range running {
			p.recall(r, now)
		}
		return
	}
	var work sync.WaitGroup
	turns := make(chan struct{}, measurers)
	for _, r := range running {
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			if st, err := p.apps.Status(ctx, r.Account, r.ID); err == nil {
				r.measured(st)
			}
		})
	}
	work.Wait()
}

// recall takes for what an application uses now what was kept of it last.
func (p *appPages) recall(r *appRow, now time.Time) {
	points, err := p.charts.metrics(r.ID, now, now.Add(-keptFor), now, time.Minute)
	if err != nil || len(points) == 0 || points[len(points)-1].Ran <= 0 {
		return
	}
	last := points[len(points)-1]
	r.measured(app.Status{Snapshot: r.Snapshot, Usage: app.Usage{
		CPUPercent: last.CPU, MemoryBytes: int64(last.Memory), LimitBytes: int64(last.Limit),
	}})
}

// shownOf names the applications of a page in the address of its stream, in a few bytes each: the
// figures of others are not sent.
func shownOf(rows []appRow) string {
	var all []uint32
	for _, r := range rows {
		all = append(all, nameOf(r.ID))
	}
	slices.Sort(all) // so that another order is no other address
	var b []byte
	for _, n := range all {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// nameOf is the short name of an application. Two can have the same, which costs nothing.
func nameOf(id app.ID) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	return h.Sum32()
}

// parseShown reads what shownOf wrote.
func parseShown(s string) (func(app.ID) bool, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b)%4 != 0 || len(b) > 4*pageRows {
		return nil, app.Errorf(app.Invalid, "method not allowed")
	}
	known := make(map[uint32]bool, len(b)/4)
	for part := range slices.Chunk(b, 4) {
		known[binary.BigEndian.Uint32(part)] = true
	}
	return func(id app.ID) bool { return known[nameOf(id)] }, nil
}
