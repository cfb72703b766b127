package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// askPatience bounds one question for a program's health.
const askPatience = 5 * time.Second

// Healthy asks the program of a site, at a port of loopback, for a path as a
// visitor would. It is well when the answer is 2xx or 3xx, which is not
// followed; else the error says why not.
func (p *Proxy) Healthy(ctx context.Context, id string, port int, path string) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	at, err := url.ParseRequestURI(path)
	if err != nil {
		return fmt.Errorf("cannot ask for %.200q: it is no path", path)
	}
	at.Scheme, at.Host = "http", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return fmt.Errorf("cannot ask for %.200q: it is no path", path)
	}
	r.Host = strings.TrimSuffix(id+"."+p.Domain, ".")
	r.Header.Set("User-Agent", "berth-health")
	r.Header.Set("X-Forwarded-Proto", "https")
	r.Header.Set("X-Forwarded-Host", r.Host)
	t := newTransport()
	t.DisableKeepAlives = true
	defer t.CloseIdleConnections()
	answer, err := t.RoundTrip(r)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return fmt.Errorf("GET %s gave no answer within %s", path, askPatience)
	case err != nil:
		return fmt.Errorf("GET %s gave no answer", path)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // what it says is of no interest
	_ = answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 399 {
		return fmt.Errorf("GET %s answered %d", path, answer.StatusCode)
	}
	return nil
}
