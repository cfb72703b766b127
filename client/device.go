package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Device is a code that a person types in the panel, so that this program gets a token
// (RFC 8628). The code and the page are others' bytes.
type Device struct {
	Code     string // that the person types
	Page     string // of the panel, where they type it
	Lasts    time.Duration
	secret   string
	interval time.Duration
}

// DeviceToken is the token that a person has allowed.
type DeviceToken struct {
	Token   string
	ID      int64     // its number; 0 if the server did not say
	Expires time.Time // zero if it never does
}

const (
	deviceClient   = "berth"
	deviceInterval = 5 * time.Second // where the server names none (RFC 8628, 3.2)
)

// AskDevice asks for a code for a token that works for lifetime, as long as the server
// likes for 0. machine is the name of this one, or "". It needs no token.
func (c *Client) AskDevice(ctx context.Context, machine string, lifetime time.Duration) (Device, error) {
	form := url.Values{"client_id": {deviceClient}}
	if machine != "" {
		form.Set("machine", machine)
	}
	if lifetime > 0 {
		form.Set("lifetime", strconv.FormatInt(int64(lifetime/time.Second), 10))
	}
	var answer struct {
		Secret   string `json:"device_code"`
		Code     string `json:"user_code"`
		Page     string `json:"verification_uri"`
		Expires  int64  `json:"expires_in"`
		Interval int64  `json:"interval"`
	}
	if err := c.postForm(ctx, "/v2/device/authorize", form, &answer); err != nil {
		return Device{}, err
	}
	if answer.Secret == "" || answer.Code == "" || answer.Page == "" {
		return Device{}, failed(ErrNotBerth, nil, "cannot use %s: its answer has no code", c.origin())
	}
	d := Device{Code: answer.Code, Page: answer.Page, Lasts: seconds(answer.Expires), secret: answer.Secret, interval: deviceInterval}
	if answer.Interval > 0 {
		d.interval = seconds(answer.Interval)
	}
	return d, nil
}

// seconds is a number of seconds of a server's, within a day.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), 24*60*60)) * time.Second
}

// AwaitToken blocks until a person has decided on the code, or it has ended, and returns
// the token. The error is an *Error where it was denied or has ended. A connection that
// is lost meanwhile is no error.
func (c *Client) AwaitToken(ctx context.Context, d Device) (DeviceToken, error) {
	form := url.Values{
		"grant_type":  {"urn:ietf:params:oauth:grant-type:device_code"},
		"client_id":   {deviceClient},
		"device_code": {d.secret},
	}
	interval, waited, lostBefore := d.interval, time.Duration(0), false
	for {
		pause := interval
		if stopped := c.Wait(ctx, pause); stopped != nil {
			return DeviceToken{}, stopped
		}
		waited += pause
		var answer struct {
			Token   string `json:"access_token"`
			ID      int64  `json:"token_id"`
			Expires int64  `json:"expires_in"`
		}
		err := c.postForm(ctx, "/v2/device/token", form, &answer)
		if err == nil {
			t := DeviceToken{Token: answer.Token, ID: answer.ID}
			if answer.Expires > 0 {
				t.Expires = time.Now().Add(time.Duration(min(answer.Expires, 1<<32)) * time.Second)
			}
			if t.Token == "" {
				return t, failed(ErrNotBerth, nil, "cannot use %s: its answer has no token", c.origin())
			}
			return t, nil
		}
		refused, is := errors.AsType[*Error](err)
		switch {
		case waited > d.Lasts+interval: // a server that never says so
			return DeviceToken{}, err
		case is && refused.Word == "authorization_pending":
			lostBefore = false
		case is && refused.Word == "slow_down":
			interval = max(interval+deviceInterval, min(refused.Wait, longestWait))
		case is && busy(refused):
			interval = max(interval, refused.Wait)
		case !is && errors.Is(err, ErrNoServer):
			if !lostBefore {
				c.notice("%s Trying again until the code ends.", sentence(err.Error()))
			}
			lostBefore = true
		default:
			return DeviceToken{}, err
		}
	}
}

// postForm sends a form, and decodes the answer.
func (c *Client) postForm(ctx context.Context, path string, form url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text := form.Encode()
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	resp, err := c.do(ctx, http.MethodPost, path, header, strings.NewReader(text), int64(len(text)))
	if err != nil {
		return err
	}
	return c.read(resp, into)
}
