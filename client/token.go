package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Token is a token of the API, without its text.
type Token struct {
	ID        int64      `json:"id"`
	Label     string     `json:"label"` // its owner's words
	CreatedAt time.Time  `json:"createdAt"`
	LastUsed  *time.Time `json:"lastUsed"`  // at most a minute old; null: never
	Unused    bool       `json:"unused"`    // nobody has used it for 90 days, or since it was made
	ExpiresAt *time.Time `json:"expiresAt"` // null: never
	Apps      []string   `json:"apps"`      // the applications that it may use; null: all of its account
	May       []string   `json:"may"`       // what it may do with them; null: everything
}

// NewToken is a token that is asked for. Without Apps and May it may do everything.
type NewToken struct {
	Label string   `json:"label,omitempty"`
	Days  int64    `json:"days,omitempty"` // that it works; 0: for ever
	Apps  []string `json:"apps,omitempty"`
	May   []string `json:"may,omitempty"`
}

// Tokens lists the tokens of the account.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	var answer struct{ Tokens []Token }
	err := c.Call(ctx, http.MethodGet, "/v2/token", nil, &answer)
	return answer.Tokens, err
}

// CreateToken makes a token and returns its text, which nobody can read again.
func (c *Client) CreateToken(ctx context.Context, wanted NewToken) (text string, made Token, err error) {
	var answer struct {
		Token struct {
			Token
			Text string `json:"token"`
		}
	}
	err = c.Call(ctx, http.MethodPost, "/v2/token", wanted, &answer)
	if err == nil && answer.Token.Text == "" {
		err = failed(ErrNotBerth, nil, "cannot use %s: its answer holds no token", c.origin())
	}
	return answer.Token.Text, answer.Token.Token, err
}

// RevokeToken ends a token of the account at once.
func (c *Client) RevokeToken(ctx context.Context, id int64) error {
	return c.Call(ctx, http.MethodDelete, "/v2/token/"+strconv.FormatInt(id, 10), nil, nil)
}
