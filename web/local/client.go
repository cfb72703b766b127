package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// HostPath is where a daemon says which it is.
const HostPath = "/host"

// Daemon is what a daemon says of itself. Fields are only ever added.
type Daemon struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	DataDir string `json:"dataDir"`
	// Listen is the address of the API, and of the panel if it is served: HOST:PORT, as the
	// daemon listens.
	Listen  string `json:"listen"`
	Panel   bool   `json:"panel"`   // it is served
	BaseURL string `json:"baseUrl"` // the setting; "" when it is not set
	// Sites are the addresses at which sites are served, HOST:PORT; empty for none.
	Sites []string `json:"sites"`
	// Held says why the host holds its programs, in English; "" when it does not.
	Held string `json:"held"`
	// Engine is where programs run: "machine" or "kubernetes".
	Engine string `json:"engine"`
}

// Errors of a client.
var (
	// ErrNobody means that no daemon listens: none runs, or it has another runtime directory.
	ErrNobody = errors.New("no berth serves here")
	// ErrImpostor means that the socket is another user's.
	ErrImpostor = errors.New("another user listens on the socket")
)

// askTime bounds Ask: a daemon that starts, or restarts, answers a moment later.
const askTime = 10 * time.Second

// NewClient returns a client whose requests all go to the socket in dir, and whose errors
// include ErrNobody, ErrImpostor, and fs.ErrPermission for those who are not root. It
// bounds nothing: give requests a context that ends.
func NewClient(dir string) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, Path(dir)) },
			IdleConnTimeout: time.Minute,
		},
	}
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: %w", ErrNobody, err)
	}
	if err != nil {
		return nil, err
	}
	peer, err := credentials(c.(*net.UnixConn))
	if err == nil && peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		err = fmt.Errorf("%w %s: the user with the id %d", ErrImpostor, path, peer.Uid)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Ask asks the daemon whose runtime directory is dir which it is, and waits 10 seconds for
// the answer. Its errors are those of NewClient.
func Ask(ctx context.Context, dir string) (d Daemon, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+HostPath, http.NoBody)
	if err != nil {
		return d, err
	}
	client := NewClient(dir)
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		return d, fmt.Errorf("cannot ask the daemon at %s: %w", Path(dir), err)
	}
	defer resp.Body.Close()
	err = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&d)
	if err == nil && (resp.StatusCode != http.StatusOK || d.DataDir == "") {
		err = errors.New("it does not answer as berth does")
	}
	if err != nil {
		return d, fmt.Errorf("cannot ask the daemon at %s: %w", Path(dir), err)
	}
	return d, nil
}
