// Package client is the API of a berth from outside: version 2 first, and berth's own
// operations where the server has them. It is pure Go and runs on every system.
//
//	c := client.New(client.Config{URL: "https://berth.example.org", Token: token})
//	apps, err := c.Apps(ctx)
//	var down *client.Error
//	switch {
//	case errors.As(err, &down): // the server refused, in its own words: down.Status, down.Message
//	case errors.Is(err, client.ErrNoServer), errors.Is(err, client.ErrCertificate), errors.Is(err, client.ErrNotBerth):
//	}
//
// Call is one operation with JSON both ways; every operation with a name is made of it.
// Send is for bodies that are no JSON, such as uploads, and for answers that are large.
// Stream reads server-sent events, and Follow goes on with them after a lost connection.
//
// # Tokens
//
// The token goes to the address of the Config alone. A redirect is an error, and is not
// followed. Plain HTTP carries a token only to loopback, unless the Config allows more.
//
// # Waiting
//
// A 429, and a 503 that says when it will be over, is waited for as told, three times at
// most and a minute each. Only a GET is sent again after its connection was lost: berth
// may have done what anything else asked for.
package client
