// Package terminal is a session in an application over a WebSocket: what is typed goes to
// a command, and what the command prints comes back while it runs.
//
// It knows nothing of tokens and passwords: an edge authenticates, accepts the handshake,
// and gives a Session the connection and a function that asks again whether the person may
// still be there.
//
// # Frames
//
// Binary frames are bytes, of any length, both ways. Without a terminal the first byte of
// a frame to the client names the stream: 1 is standard output, 2 standard error. Text
// frames are JSON. The client sends {"resize":{"cols":80,"rows":24}}, and {"eof":true} for
// the end of its input without a terminal. The last frame to the client is
// {"exit":{"code":0,"signal":0,"reason":""}}; the reason is there if berth ended the
// command, or its memory. A session that is refused has one frame alone, which says why
// (Refuse). A client ignores what it does not know: {} keeps the connection open.
//
// # Bounds
//
// A session holds one buffer of 32 KB for each stream and one for the input. Who reads
// slowly holds up the command, not the daemon, and who takes nothing for web.Patience has
// gone. A session ends after Idle without a byte either way, after Longest in any case, and
// within web.StreamCheck after its person may not be there any more.
package terminal
