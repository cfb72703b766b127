package settings

import (
	"errors"
	"strings"
)

// leastScrapeToken is how many characters a scrape token has at least.
const leastScrapeToken = 20

// MetricsToken returns what the file holds that metrics.token names, "" without one. It fails
// where others may read the file, or the token could be guessed.
func (s Settings) MetricsToken() (string, error) {
	if s.Metrics.Token == "" {
		return "", nil
	}
	text, err := readSecret("metrics.token", s.Metrics.Token)
	if err != nil {
		return "", err
	}
	if len(text) < leastScrapeToken || strings.ContainsAny(text, " \t\r\n") {
		return "", errors.New("cannot use metrics.token: the token must be one line of 20 characters or more; openssl rand -hex 32 makes one")
	}
	return text, nil
}
