package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"berth/app"
)

// Where a daemon is asked about an account, by its number, and told by PUT that it was
// changed in the database, or by DELETE to remove it with everything that it has.
const (
	AccountPath = HostPath + "/accounts/:account"
	ChangedPath = AccountPath + "/changed"
)

// accountTime bounds a request about an account: programs that have to stop take their time.
const accountTime = 2 * time.Minute

// DiskUse is what an account has on the disk.
type DiskUse struct {
	Files       map[app.ID]int64 `json:"files"` // bytes of each application's
	Backups     int              `json:"backups"`
	BackupBytes int64            `json:"backupBytes"`
}

// Changed tells the daemon whose runtime directory is dir that it is to look at an account
// again, and waits until what runs is as the account may have it. Its errors are those of
// NewClient, and the daemon's own.
func Changed(ctx context.Context, dir string, id app.AccountID) error {
	return ofAccount(ctx, dir, http.MethodPut, id, "/changed", nil)
}

// Delete lets the daemon remove an account with everything that it has, as Changed.
func Delete(ctx context.Context, dir string, id app.AccountID) error {
	return ofAccount(ctx, dir, http.MethodDelete, id, "", nil)
}

// DiskUseOf asks the daemon what an account has on the disk, as Changed.
func DiskUseOf(ctx context.Context, dir string, id app.AccountID) (use DiskUse, err error) {
	return use, ofAccount(ctx, dir, http.MethodGet, id, "", &use)
}

func ofAccount(ctx context.Context, dir, method string, id app.AccountID, path string, into any) error {
	return call(ctx, dir, method, fmt.Sprintf("%s/accounts/%d%s", HostPath, id, path), into)
}

// call asks the daemon for something of its own, or for an account, and decodes the answer into into, unless
// that is nil.
func call(ctx context.Context, dir, method, path string, into any, account ...string) error {
	ctx, cancel := context.WithTimeout(ctx, accountTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, http.NoBody)
	if err != nil {
		return err
	}
	for _, name := range account {
		r.Header.Set(AccountHeader, name)
	}
	client := NewClient(dir)
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("cannot tell the daemon at %s: %w", Path(dir), err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode == http.StatusOK && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil || resp.StatusCode == http.StatusOK {
		return err
	}
	var refusal struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &refusal) != nil || refusal.Message == "" {
		refusal.Message = resp.Status
	}
	return errors.New(refusal.Message)
}

// Online asks the daemon whether the program of an application runs. Its errors are those of Changed.
func Online(ctx context.Context, dir string, id app.AccountID, of app.ID) (bool, error) {
	var answer struct {
		Apps struct {
			Online bool `json:"online"`
		} `json:"apps"`
	}
	err := call(ctx, dir, http.MethodGet, "/v2/app/"+string(of), &answer, strconv.FormatInt(int64(id), 10))
	return answer.Apps.Online, err
}

// Restart lets the daemon end and start the program of an application, or start it, if verb is "start". It waits until
// that has come well or ill. Its errors are those of Changed.
func Restart(ctx context.Context, dir string, id app.AccountID, of app.ID, verb string) error {
	return call(ctx, dir, http.MethodPut, "/v2/app/"+string(of)+"/"+verb, nil, strconv.FormatInt(int64(id), 10))
}
