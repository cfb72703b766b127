package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/coder/websocket"
)

// The channels of a command's stream: the first byte of each message (v5.channel.k8s.io).
const (
	channelIn     = 0
	channelOut    = 1
	channelErr    = 2
	channelStatus = 3
	channelSize   = 4
	channelClose  = 255 // and the number of a channel that ends
)

// maxMessage bounds one message of a command's stream, in bytes.
const maxMessage = 1 << 20

// Command is what is run in a container beside its program.
type Command struct {
	Argv []string
	TTY  bool
	In   io.Reader // may be nil; the caller ends it once Exec has returned
	Out  io.Writer // nil for none
	Err  io.Writer // nil with TTY
	// Sizes are those of the terminal, in columns and rows; may be nil.
	Sizes <-chan [2]uint16
}

// Attach sends what in has to the input of a container's program, and returns once that was taken over: the program may not
// have read it yet. It blocks while that reads nothing and its pipes are full. The end of ctx cuts the stream; what was sent may come
// to the program later. The errors are those of Exec. The container MUST have been made with Stdin.
func (c *Client) Attach(ctx context.Context, pod, container string, in io.Reader) error {
	_, err := c.stream(ctx, pod, "attach", url.Values{"container": {container}}, Command{In: in})
	return err
}

// Exec runs a command, and returns its exit code once it has ended. The end of ctx cuts the stream and does not end the
// command: the caller MUST give it a shell that ends with its input. The errors are ErrAway, a refusal, and that of ctx.
func (c *Client) Exec(ctx context.Context, pod, container string, cmd Command) (code int, err error) {
	return c.stream(ctx, pod, "exec", url.Values{"container": {container}, "command": cmd.Argv, "tty": {strconv.FormatBool(cmd.TTY)}}, cmd)
}

// stream opens the streams that cmd has to what is asked for below a pod, and returns once that has ended.
func (c *Client) stream(ctx context.Context, pod, what string, query url.Values, cmd Command) (code int, err error) {
	if cmd.Out != nil {
		query.Set("stdout", "true")
	}
	if cmd.In != nil {
		query.Set("stdin", "true")
	}
	if cmd.Err != nil {
		query.Set("stderr", "true")
	}
	header := http.Header{}
	if err := c.authorize(header); err != nil {
		return 0, err
	}
	//nolint:bodyclose // the library closes the body of a refusal, and the connection has that of a success
	conn, resp, err := websocket.Dial(ctx, c.server+c.pods(pod, what)+"?"+query.Encode(), &websocket.DialOptions{
		HTTPClient: c.upgrades, HTTPHeader: header, Subprotocols: []string{"v5.channel.k8s.io"},
	})
	if err != nil {
		if resp != nil && resp.StatusCode >= 300 {
			return 0, refusal(resp)
		}
		return 0, broken(ctx, err)
	}
	conn.SetReadLimit(maxMessage)
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer func() { _ = conn.CloseNow() }() // both sides have said what they had to
	defer cancel()
	if cmd.In != nil {
		go input(ctx, conn, cmd.In) // it may wait for somebody who types, so nobody waits for it
	}
	if cmd.Sizes != nil {
		work.Go(func() { sizes(ctx, conn, cmd.Sizes) })
	}
	return output(ctx, conn, cmd)
}

// input sends what there is to read. It ends with the connection at the latest, if the reader does.
func input(ctx context.Context, conn *websocket.Conn, from io.Reader) {
	buffer := make([]byte, 1+32<<10)
	buffer[0] = channelIn
	for {
		n, err := from.Read(buffer[1:])
		if n > 0 && conn.Write(ctx, websocket.MessageBinary, buffer[:1+n]) != nil {
			return
		}
		if err != nil {
			_ = conn.Write(ctx, websocket.MessageBinary, []byte{channelClose, channelIn}) // or it is over anyway
			return
		}
	}
}

func sizes(ctx context.Context, conn *websocket.Conn, from <-chan [2]uint16) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, more := <-from:
			if !more {
				return
			}
			text := fmt.Appendf([]byte{channelSize}, `{"Width":%d,"Height":%d}`, size[0], size[1])
			if conn.Write(ctx, websocket.MessageBinary, text) != nil {
				return
			}
		}
	}
}

// output hands on what a command prints, until its status comes.
func output(ctx context.Context, conn *websocket.Conn, cmd Command) (code int, err error) {
	for {
		_, message, err := conn.Read(ctx)
		if err != nil {
			return 0, broken(ctx, err)
		}
		if len(message) < 2 { // the server says that the stream is open (k8s.io/apiserver, wsstream)
			continue
		}
		switch message[0] {
		case channelOut:
			if cmd.Out != nil {
				_, err = cmd.Out.Write(message[1:])
			}
		case channelErr:
			if cmd.Err != nil {
				_, err = cmd.Err.Write(message[1:])
			}
		case channelStatus:
			return exitCode(message[1:])
		}
		if err != nil {
			return 0, err
		}
	}
}

// exitCode reads the status of a command that has ended.
func exitCode(text []byte) (int, error) {
	var status struct {
		Status, Reason, Message string
		Details                 struct {
			Causes []struct{ Reason, Message string }
		}
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return 0, fmt.Errorf("cannot read how the command ended: %w", err)
	}
	if status.Status == "Success" {
		return 0, nil
	}
	for _, cause := range status.Details.Causes {
		if cause.Reason == "ExitCode" {
			return strconv.Atoi(cause.Message)
		}
	}
	return 0, errors.New("the cluster could not run the command: " + status.Message)
}
