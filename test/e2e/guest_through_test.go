//go:build guest

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"berth/test/harness"
)

// answersThrough asks all the time while something happens: each request is
// answered, late perhaps.
func (s *service) answersThrough(happens func()) {
	s.T.Helper()
	done, problems := make(chan struct{}), make(chan error, 1)
	go func() {
		network := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: harness.Patience}
		owner := &http.Client{Transport: overSocket("/run/berth/berth.sock"), Timeout: harness.Patience}
		for n := 0; ; n++ {
			client, base := network, s.Base
			if n%2 == 1 {
				client, base = owner, "http://localhost"
			}
			began := time.Now()
			resp, err := client.Get(base + "/v2/openapi.json")
			if err == nil {
				err = resp.Body.Close()
			}
			if err == nil && resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
			if err != nil {
				err = fmt.Errorf("request %d, asked at %s: %w", n, began.UTC().Format("15:04:05.000"), err)
			}
			select {
			case <-done:
				problems <- err
				return
			default:
			}
			if err != nil {
				problems <- err
				return
			}
			time.Sleep(harness.Pause)
		}
	}()
	happens()
	close(done)
	if err := <-problems; err != nil {
		s.T.Errorf("a request while the daemon was started again: %v", err)
	}
}
