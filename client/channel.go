package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Channel is where an account hears what goes wrong.
type Channel struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"` // its owner's words
	Service   string    `json:"service"`
	Target    string    `json:"target"`    // masked
	Recipient string    `json:"recipient"` // the chat, of telegram
	Apps      []string  `json:"apps"`      // the applications that are meant; null: all, the account and the host
	Kinds     []string  `json:"kinds"`     // the kinds that are meant; null: all but those that must be chosen
	Least     string    `json:"least"`     // info, warning or failure
	Lang      string    `json:"lang"`
	On        bool      `json:"on"`
	Confirmed bool      `json:"confirmed"` // false: an address whose owner has not followed the link
	Stopped   *string   `json:"stopped"`   // why berth sends nothing there any more; null: it does
	Secrets   int       `json:"secrets"`   // how many sign the messages of a webhook
	CreatedAt time.Time `json:"createdAt"`
	Secret    string    `json:"secret,omitempty"` // that was just made
}

// ChannelFields are what is sent of a channel that is made or changed; nil leaves a field as
// it is, and an empty list means all.
type ChannelFields struct {
	Service   string    `json:"service,omitempty"` // of a new one
	Name      *string   `json:"name,omitempty"`
	Target    *string   `json:"target,omitempty"`
	Recipient *string   `json:"recipient,omitempty"`
	Token     *string   `json:"token,omitempty"` // an access token, of ntfy
	Apps      *[]string `json:"apps,omitempty"`
	Kinds     *[]string `json:"kinds,omitempty"`
	Least     *string   `json:"least,omitempty"`
	Lang      *string   `json:"lang,omitempty"`
	On        *bool     `json:"on,omitempty"`
}

// Delivery is a message on its way to a channel.
type Delivery struct {
	ID        int64      `json:"id"`
	MessageID string     `json:"messageID"` // the same at each try
	At        time.Time  `json:"at"`
	Kind      string     `json:"kind"`
	Severity  string     `json:"severity"`
	App       *string    `json:"app"` // null: about the account, the host or several applications
	Title     string     `json:"title"`
	Lines     []string   `json:"lines"`
	Count     int        `json:"count"` // how many notices are in it
	State     string     `json:"state"` // waiting, sent or failed
	Tries     int        `json:"tries"`
	Status    *int       `json:"status"` // that the last try was answered with; null: there was no answer
	Why       *string    `json:"why"`    // the last try failed
	NextAt    *time.Time `json:"nextAt"` // of the next try; null: there will be none
	UpdatedAt time.Time  `json:"updatedAt"`
}

type channelAnswer struct {
	Channel Channel
	Message string
}

func channelPath(id int64, operation string) string {
	return "/v2/channel/" + strconv.FormatInt(id, 10) + operation
}

// Channels lists the channels of the account, oldest first.
func (c *Client) Channels(ctx context.Context) ([]Channel, error) {
	var answer struct{ Channels []Channel }
	err := c.Call(ctx, http.MethodGet, "/v2/channel", nil, &answer)
	return answer.Channels, err
}

// AddChannel makes a channel. Its Secret, which a webhook has, is nowhere else. The message is
// for people.
func (c *Client) AddChannel(ctx context.Context, f ChannelFields) (made Channel, message string, err error) {
	var answer channelAnswer
	err = c.Call(ctx, http.MethodPost, "/v2/channel", f, &answer)
	return answer.Channel, answer.Message, err
}

// SetChannel changes a channel.
func (c *Client) SetChannel(ctx context.Context, id int64, f ChannelFields) (changed Channel, message string, err error) {
	var answer channelAnswer
	err = c.Call(ctx, http.MethodPut, channelPath(id, ""), f, &answer)
	return answer.Channel, answer.Message, err
}

// RemoveChannel removes a channel.
func (c *Client) RemoveChannel(ctx context.Context, id int64) (Outcome, error) {
	return c.outcome(ctx, http.MethodDelete, channelPath(id, ""), nil)
}

// TestChannel sends a message, and blocks until it has arrived or the error says why not.
func (c *Client) TestChannel(ctx context.Context, id int64) (Outcome, error) {
	return c.outcome(ctx, http.MethodPost, channelPath(id, "/test"), nil)
}

// TurnSecret makes a new secret beside the newest one of a webhook.
func (c *Client) TurnSecret(ctx context.Context, id int64) (turned Channel, message string, err error) {
	var answer channelAnswer
	err = c.Call(ctx, http.MethodPost, channelPath(id, "/secret"), nil, &answer)
	return answer.Channel, answer.Message, err
}

// EndSecret ends the old secret of a webhook that has two.
func (c *Client) EndSecret(ctx context.Context, id int64) (Outcome, error) {
	return c.outcome(ctx, http.MethodDelete, channelPath(id, "/secret"), nil)
}

// Deliveries lists the last messages of a channel, newest first.
func (c *Client) Deliveries(ctx context.Context, id int64) ([]Delivery, error) {
	var answer struct{ Deliveries []Delivery }
	err := c.Call(ctx, http.MethodGet, channelPath(id, "/deliveries"), nil, &answer)
	return answer.Deliveries, err
}

// SendAgain sends a message again, with the same MessageID.
func (c *Client) SendAgain(ctx context.Context, delivery int64) (Outcome, error) {
	return c.outcome(ctx, http.MethodPost, "/v2/delivery/"+strconv.FormatInt(delivery, 10)+"/again", nil)
}
