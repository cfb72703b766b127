// Package provider proves with Discord, or with any OpenID provider, who somebody at a browser
// is. It opens nothing: what an identity may do is the decision of its caller.
//
// Providers.Begin leads a browser to a provider, and Providers.Finish takes what the provider
// sends back, by the authorization code flow with PKCE (RFC 9700). What the provider answers is
// hostile until it is checked: bodies and times are bounded, redirects stay on their host, an id
// token counts only with a signature by a key of the issuer, this client as its audience and
// the nonce of this sign-in. No token of a provider outlives Finish.
package provider
