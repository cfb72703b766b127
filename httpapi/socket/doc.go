// Package socket is the wire format of uploads over WebSocket: the ZIP comes in
// text frames, each a JSON object with an array of numbers. Chunks reads the file
// from them as they come and holds 32 KB of it. httpapi opens the connection,
// answers and closes it.
package socket
