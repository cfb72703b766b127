package panel

import (
	"strconv"
	"strings"
	"time"

	"berth/app"
)

const (
	// sparkSpan and sparkStep are of the small curves in the table of applications.
	sparkSpan = 24 * time.Hour
	sparkStep = 30 * time.Minute
	// sparkWidth and sparkHeight are those of the box that they are drawn in.
	sparkWidth, sparkHeight = 96, 20
	// sparkRoom is left free at the top and the bottom, for the line is as wide as that.
	sparkRoom = 1
)

// sparks are the small curves of an application, as the attribute d of a path; "" for none.
type sparks struct{ CPU, RAM string }

// sparks draws what is kept of an application. One that cannot be read, or may not be seen, has none.
func (p chartPages) sparks(r appRow) (s sparks) {
	if !r.Can.Has(app.StatusApp) || r.Code.Static() {
		return s
	}
	now := time.Now()
	points, err := p.metrics(r.ID, now, now.Add(-sparkSpan), now, sparkStep)
	if err != nil {
		return s
	}
	first := now.Add(-sparkSpan)
	s.CPU = sparkOf(points, first, func(of app.Point) (value, most float64) { return of.CPU, 100 }, true)
	s.RAM = sparkOf(points, first, func(of app.Point) (value, most float64) { return of.Memory, of.Limit }, false)
	return s
}

// sparkOf is a line through the points in which a program ran. It is as high as what value calls
// the most, or, if it grows, as the highest value, which is at least a tenth of that.
func sparkOf(points []app.Point, first time.Time, value func(app.Point) (value, most float64), grows bool) string {
	top := 0.0
	for _, of := range points {
		v, most := value(of)
		if grows {
			most /= 10
		}
		top = max(top, v, most)
	}
	if top <= 0 {
		return ""
	}
	var b strings.Builder
	drawn, last := 0, time.Time{}
	for _, of := range points {
		if of.Ran <= 0 {
			continue
		}
		v, _ := value(of)
		x := int(of.At.Sub(first) * sparkWidth / sparkSpan)
		y := sparkHeight - sparkRoom - int(v/top*(sparkHeight-2*sparkRoom)+0.5)
		if of.At.Sub(last) > of.Step*3/2 { // it did not run between them
			b.WriteByte('M')
		} else {
			b.WriteByte('L')
		}
		b.WriteString(strconv.Itoa(min(max(x, 0), sparkWidth)))
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(min(max(y, sparkRoom), sparkHeight-sparkRoom)))
		last = of.At
		drawn++
	}
	if drawn < 2 {
		return ""
	}
	return b.String()
}
