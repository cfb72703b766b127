package services

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
)

// limit is how many messages a service takes at once, and how soon it takes another: as their documents say, or
// for Discord, whose do not, as its headers did.
type limit struct {
	burst float64
	every time.Duration
}

var limits = map[string]limit{
	"discord":  {5, 400 * time.Millisecond},
	"slack":    {1, time.Second},
	"telegram": {20, 3 * time.Second}, // of a group
	"ntfy":     {60, 5 * time.Second},
}

// bucket is what is left of a limit.
type bucket struct {
	left float64
	at   time.Time
}

// limited reports how long until a service takes another message, zero for now.
func (s *Server) limited(service string) time.Duration {
	of, has := limits[service]
	if s.Limits == nil || !has {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Limits()
	b, known := s.buckets[service]
	if !known {
		b = &bucket{of.burst, now}
		s.buckets[service] = b
	}
	b.left, b.at = min(of.burst, b.left+float64(now.Sub(b.at))/float64(of.every)), now
	if b.left < 1 {
		return time.Duration((1 - b.left) * float64(of.every))
	}
	b.left--
	return 0
}

// tooMany answers as a service does to those who do not wait.
func tooMany(w http.ResponseWriter, service string, after time.Duration) {
	seconds := int(math.Ceil(after.Seconds()))
	var body any
	switch service {
	case "discord":
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		body = map[string]any{"message": "You are being rate limited.", "retry_after": after.Seconds(), "global": false}
	case "slack":
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "rate_limited")
		return
	case "telegram":
		body = map[string]any{
			"ok": false, "error_code": 429, "description": "Too Many Requests: retry after " + strconv.Itoa(seconds),
			"parameters": map[string]any{"retry_after": seconds},
		}
	case "ntfy":
		body = map[string]any{"code": 42901, "http": 429, "error": "limit reached: too many requests"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_ = json.NewEncoder(w).Encode(body)
}
