package repository

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
)

// maxSaid is how much of what restic says is kept: the end.
const maxSaid = 16 << 10

// tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	sync.Mutex
	text  []byte
	until *regexp.Regexp // if it is there, found is called; nil for nothing
	found func()
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.Lock()
	defer t.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - maxSaid; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	if t.until != nil && t.until.Match(t.text) {
		t.until = nil
		t.found()
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.Lock()
	defer t.Unlock()
	return string(t.text)
}

// signs are how restic says what is wrong: its exit status since 0.17, and its words, which are all
// that 0.14 has. They are in order: what is not there is also not whole.
var signs = []struct {
	err  error
	exit int
	text *regexp.Regexp
}{
	{ErrPassword, 12, regexp.MustCompile(`wrong password or no key found`)},
	{ErrLocked, 11, regexp.MustCompile(`repository is already locked|unable to create lock in backend: .*locked`)},
	{ErrNone, 10, regexp.MustCompile(`unable to open config file: .*(` + absent + `)|repository does not exist`)},
	{ErrClock, -1, clock},
	{ErrFull, -1, regexp.MustCompile(`(?i)no space left on device|quota.?exceeded|storage.?full|insufficient storage|` + sftpFull)},
	{ErrDamaged, -1, damage},
}

// sftpFull is how OpenSSH says that it cannot write: the protocol has no word for a full disk.
const sftpFull = `Write: sftp: "Failure"`

// absent is how servers say that something is not there. That a user does not exist is another thing.
const absent = `no such file or directory|(file|<config/>|specified (key|bucket|blob|container)) does not exist|object doesn't exist|(?i:object not found)`

// clock is how servers of S3 refuse a request that is not of now: by up to 15 minutes.
var clock = regexp.MustCompile(`RequestTimeTooSkewed|(?i)difference between the request time and .* is too large`)

// damage is how restic says that something is not what was saved, or is gone; trouble is why it says that
// too of what it could not fetch.
var (
	damage = regexp.MustCompile(`ciphertext verification failed|invalid data returned|(wrong|invalid) hash|hash (mismatch|does not match)|` +
		`repository contains (errors|damaged)|could not load snapshot|not found in (the )?(repository|index)|` +
		`(blob|pack|tree) \S+ (was )?(not found|does not exist)|unexpected pack size|decompress\w* .*failed|invalid header|header length`)
	trouble = regexp.MustCompile(`(?i)connection (refused|reset|timed out|closed)|i/o timeout|no such host|unreachable|broken pipe|` +
		`access denied|forbidden|unauthorized|signature|credential|too many requests|unavailable|bad gateway|internal server error`)
)

// problem is the error of restic that ended with exit and said something.
func (r *restic) problem(exit error, said string) error {
	code := -1
	if status := (*exec.ExitError)(nil); errors.As(exit, &status) {
		code = status.ExitCode()
	}
	for _, s := range signs {
		line := s.text.FindStringIndex(said)
		switch {
		case line != nil && errors.Is(s.err, ErrDamaged) && trouble.MatchString(said): // nothing is known of it
		case line != nil:
			return fmt.Errorf("%w: restic says: %s", s.err, r.line(lineAt(said, line[0])))
		case code > 0 && code == s.exit:
			return fmt.Errorf("%w: restic says: %s", s.err, r.line(lastLine(said)))
		}
	}
	if said = lastLine(said); said == "" {
		return fmt.Errorf("restic failed: %w", exit)
	}
	return fmt.Errorf("restic says: %s", r.line(said))
}

// again is a line of restic that tries once more. unopened are two, one after the other, about the configuration:
// one may be an accident of the network. missing is one because there is no configuration, and reason is what
// stands before the words of the server.
var (
	again    = regexp.MustCompile(`(?m)^.*returned error, retrying after .*$`)
	unopened = regexp.MustCompile(`(?m)(^Stat\(<config/>\) returned error, retrying after .*\n){2}`)
	missing  = regexp.MustCompile(`^Stat\(<config/>\) returned error, retrying after .*: .*(` + absent + `)`)
	reason   = regexp.MustCompile(`^Stat\(<config/>\) returned error, retrying after \S+: `)
)

// errUnopened is why restic is ended that cannot read the configuration of the repository.
var errUnopened = errors.New("it cannot read the configuration of the repository")

// unfinished is the error of restic that was not waited for. Why it tried again is why it took
// so long: a server that does not answer.
func (r *restic) unfinished(err error, said *tail) error {
	text := said.String()
	line := lastLine(text)
	if tries := again.FindAllString(text, -1); len(tries) > 0 {
		line = tries[len(tries)-1]
	}
	ended := fmt.Errorf("restic was ended (%w); it says: %s", err, r.line(line))
	if errors.Is(err, errUnopened) {
		ended = fmt.Errorf("restic says: %s", r.line(reason.ReplaceAllString(line, "")))
	}
	switch {
	case clock.MatchString(line):
		return fmt.Errorf("%w: %w", ErrClock, ended)
	case missing.MatchString(line):
		return fmt.Errorf("%w: %w", ErrNone, ended)
	case line != "":
		return ended
	}
	return fmt.Errorf("restic was ended: %w", err)
}

// lineAt returns the line of a text with a position in it.
func lineAt(text string, at int) string {
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := strings.Cut(text[begin:], "\n")
	return line
}

// lastLine returns the last line that says that restic gave up, or else the last one.
func lastLine(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], "Fatal:") {
			return lines[i]
		}
	}
	return lines[len(lines)-1]
}

// line is a line as somebody may read it: without passwords, control characters and the frame
// that newer versions put around it.
func (r *restic) line(said string) string {
	var framed struct {
		Message string `json:"message"`
	}
	if json.Unmarshal([]byte(said), &framed) == nil && framed.Message != "" {
		said = framed.Message
	}
	for _, secret := range r.secrets {
		said = strings.ReplaceAll(said, secret, "***")
	}
	said = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, said)
	if at := strings.LastIndex(said, "Fatal: "); at >= 0 { // what is before it is another message, without an end of its line
		said = said[at+len("Fatal: "):]
	}
	said = strings.TrimSpace(said)
	if len(said) > 400 {
		said = strings.ToValidUTF8(said[:400], "") + "..."
	}
	return said
}

// secret are the names of variables whose values are shown to nobody.
var secret = regexp.MustCompile(`(?i)key|secret|pass|token|credential|auth`)

// secretsOf returns what is kept out of errors.
func secretsOf(o Options) []string {
	_, password := splitPassword(o.Place)
	secrets := []string{o.Key, password}
	for _, e := range o.Env {
		if name, value, _ := strings.Cut(e, "="); secret.MatchString(name) {
			secrets = append(secrets, value)
		}
	}
	var shown []string
	for _, s := range secrets {
		if len(s) > 2 { // a shorter one is in every word
			shown = append(shown, s)
		}
	}
	return shown
}
