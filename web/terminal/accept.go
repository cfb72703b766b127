package terminal

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/coder/websocket"

	"berth/app"
	"berth/web"
)

// DefaultTerm names a terminal that does not say what it is.
const DefaultTerm = "xterm-256color"

// DefaultSize is that of a terminal that does not say how large it is.
var DefaultSize = app.Size{Cols: 80, Rows: 24}

// SizeOf reads how large a terminal is from the parameters cols and rows of an address.
func SizeOf(query url.Values) (app.Size, error) {
	size := DefaultSize
	for name, to := range map[string]*uint16{"cols": &size.Cols, "rows": &size.Rows} {
		if !query.Has(name) {
			continue
		}
		n, err := strconv.ParseUint(query.Get(name), 10, 16)
		if err != nil || n == 0 {
			return size, app.Errorf(app.Invalid, "The parameters cols and rows are numbers of characters, from 1 to 65535.")
		}
		*to = uint16(n)
	}
	return size, nil
}

// Accept answers the handshake of a browser, in which somebody is signed in by a cookie. Any page can make
// a browser send that, so the caller MUST have found that the Origin is its own: web.SameOrigin.
// When it fails, the answer is written. The caller closes the connection.
func Accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	return websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
}

// Refuse sends why there is no session, in the person's words, and closes: the script of a page cannot read the
// answer to a handshake.
func Refuse(ctx context.Context, conn *websocket.Conn, status int, message string) {
	ctx, cancel := context.WithTimeout(ctx, web.Patience)
	defer cancel()
	text, err := json.Marshal(Refusal{"error", status, message})
	if err == nil && conn.Write(ctx, websocket.MessageText, text) == nil {
		_ = conn.Close(websocket.StatusPolicyViolation, "")
	}
}

// Refusal is the only frame of a session that was refused.
type Refusal struct {
	Status     string `json:"status"` // error
	StatusCode int    `json:"statusCode"`
	Message    string `json:"message"`
}
