package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"berth/app"
)

// The keys of the settings that app.BackupPolicy is made of.
const (
	backupsAt       = "backups.at"
	backupsDaily    = "backups.keep_daily"
	backupsWeekly   = "backups.keep_weekly"
	backupsMonthly  = "backups.keep_monthly"
	backupsRehearse = "backups.rehearse"
)

// backupKeyName is the file of the backup key, in the directory of the managed file.
const backupKeyName = "backup.key"

// BackupPolicy returns when the host is backed up, and what is kept.
func (s Settings) BackupPolicy() app.BackupPolicy {
	b := s.Backups
	return app.BackupPolicy{At: b.At, Daily: b.Daily, Weekly: b.Weekly, Monthly: b.Monthly, Rehearse: b.Rehearse}
}

// ManageBackups sets a policy in the managed file of the settings file at path, and returns it as
// it holds then. It refuses what Manage refuses.
func ManageBackups(path string, p app.BackupPolicy) (app.BackupPolicy, error) {
	_, err := Manage(path, map[string]string{
		backupsAt: p.At, backupsDaily: strconv.Itoa(p.Daily), backupsWeekly: strconv.Itoa(p.Weekly), backupsMonthly: strconv.Itoa(p.Monthly),
		backupsRehearse: p.Rehearse.String(),
	})
	return p, err
}

// FixedBackups returns which keys of the policy the settings file at path decides, so that the
// managed file cannot.
func FixedBackups(path string) ([]string, error) {
	file, err := readFile(path, false)
	if err != nil {
		return nil, err
	}
	var fixed []string
	for _, key := range []string{backupsAt, backupsDaily, backupsWeekly, backupsMonthly, backupsRehearse} {
		if _, ok := file[key]; ok {
			fixed = append(fixed, key)
		}
	}
	return fixed, nil
}

// backupKeyFile is where the backup key is. config is the path of the settings file.
func backupKeyFile(s Settings, config string) string {
	if s.Backups.KeyFile != "" {
		return s.Backups.KeyFile
	}
	if info, err := os.Stat(config); config != "" && (err != nil || info.Mode().IsRegular()) {
		return filepath.Join(filepath.Dir(ManagedFile(config)), backupKeyName)
	}
	return s.DataDir + "." + backupKeyName
}

// environmentName is how an environment variable for restic is called.
var environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// BackupEnvironment returns what the file holds that backups.environment names: NAME=VALUE each. It
// fails where others may read the file. Its errors hold no value.
func (s Settings) BackupEnvironment() (env []string, err error) {
	if s.Backups.Environment == "" {
		return nil, nil
	}
	text, err := readPrivate("backups.environment", s.Backups.Environment)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok || !environmentName.MatchString(name) {
			return nil, fmt.Errorf("cannot use backups.environment: line %d of %s must be NAME=VALUE", n, s.Backups.Environment)
		}
		if quoted := len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0]; quoted {
			value = value[1 : len(value)-1]
		}
		env = append(env, name+"="+value)
	}
	if len(env) == 0 {
		return nil, errors.New("cannot use backups.environment: the file holds no variable")
	}
	return env, nil
}

// repositoryPlace is empty or where backups go.
func repositoryPlace(to *string) kind {
	return checked(to, `a repository of restic such as "s3:https://s3.example.org/backups", "sftp:berth@nas:/backups" or "/mnt/backups", or "archives:/mnt/backups"`,
		func(text string) bool {
			path, archives := strings.CutPrefix(text, "archives:")
			switch {
			case text == "":
				return true
			case strings.ContainsAny(text, "\x00\r\n"):
				return false
			case archives:
				return filepath.IsAbs(path)
			}
			return filepath.IsAbs(text) || remotePlace.MatchString(text)
		})
}

// remotePlace matches a repository of restic that is no path.
var remotePlace = regexp.MustCompile(`^(s3|sftp|rest|rclone|b2|azure|gs|swift|local):.`)

// timeOfDay is HH:MM.
func timeOfDay(to *string) kind {
	return checked(to, `a time of the day such as "03:15"`, func(text string) bool {
		_, err := time.Parse("15:04", text)
		return err == nil && len(text) == len("03:15")
	})
}
