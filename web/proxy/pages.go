package proxy

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// page is what berth says in place of a site.
type page struct {
	status int
	title  string
	text   string
	retry  time.Duration // 0: trying again is of no use, unless the site says so
}

var (
	pageNone      = page{http.StatusNotFound, "No such site", "There is no site at this address.", 0}
	pageMissing   = page{http.StatusNotFound, "No such page", "There is no page at this address.", 0}
	pageStarting  = page{http.StatusServiceUnavailable, "Starting", "This site is starting. The page loads again by itself.", 3 * time.Second}
	pageDeploy    = page{http.StatusServiceUnavailable, "Deploying", "New code of this site is being prepared. The page loads again by itself.", 5 * time.Second}
	pageOffline   = page{http.StatusServiceUnavailable, "Offline", "This site is not running.", 0}
	pageStopped   = page{http.StatusServiceUnavailable, "Stopped", "This site was stopped by its owner.", 0}
	pageSuspended = page{http.StatusServiceUnavailable, "Suspended", "This site is not available: the account of its owner is suspended.", 0}
	pageEnded     = page{http.StatusServiceUnavailable, "Ended", "The program of this site has ended by itself.", 0}
	pageBusy      = page{http.StatusServiceUnavailable, "Busy", "This site has more visitors at once than it may have.", 10 * time.Second}
	pageCrashed   = page{http.StatusBadGateway, "Crashed", "The program of this site has ended with an error.", 0}
	pageMemory    = page{http.StatusBadGateway, "Out of memory", "The program of this site was ended because it needed more RAM than it has.", 0}
	pageSilent    = page{http.StatusBadGateway, "Not listening", "The program of this site runs, but does not listen on its port.", 5 * time.Second}
	pageBroken    = page{http.StatusBadGateway, "No answer", "The program of this site gave no answer.", 5 * time.Second}
	pageLate      = page{http.StatusRequestTimeout, "Not sent", "The request was given up, because what it was to send did not come.", 0}
	pageSlow      = page{http.StatusGatewayTimeout, "Too slow", "The program of this site took too long to answer.", 0}
)

var pageOf = map[State]page{
	Up: pageBroken, Starting: pageStarting, Deploying: pageDeploy, Offline: pageOffline, Stopped: pageStopped, Suspended: pageSuspended,
	Ended: pageEnded, Crashed: pageCrashed, OutOfMemory: pageMemory, Silent: pageSilent,
}

const style = "body{font:1.1em/1.5 system-ui,sans-serif;max-width:32em;margin:20vh auto 0;padding:0 1em;color:#222;background:#fff}" +
	"@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}}"

// policy lets a page have its own style and nothing else.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; frame-ancestors 'none'"
}()

// longestRetry is what a page tells at most.
const longestRetry = 5 * time.Minute

// again is what a page adds when the site is started again by itself.
const again = " It starts again by itself, and the page loads again then."

// show answers with a page. retry, if it is not 0, is when the site is started
// again.
func show(w http.ResponseWriter, r *http.Request, p page, retry time.Duration) {
	switch {
	case retry == 0:
		retry = p.retry
	case p.retry == 0:
		p.text += again
	}
	h, refresh := w.Header(), ""
	if retry > 0 {
		seconds := strconv.Itoa(int(math.Ceil(min(retry, longestRetry).Seconds())))
		h.Set("Retry-After", seconds)
		refresh = `<meta http-equiv="refresh" content="` + seconds + `">`
	}
	text := fmt.Sprintf("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">%s<title>%s</title><style>%s</style></head>\n<body><h1>%s</h1><p>%s</p></body></html>\n",
		refresh, p.title, style, p.title, p.text)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(text))
	}
}
