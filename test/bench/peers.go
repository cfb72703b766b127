package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// homes makes a directory with the program for each in the plan.
func (b *bench) homes(dir string, p plan) ([]string, error) {
	var dirs []string
	for i := range p.count {
		home := filepath.Join(dir, fmt.Sprintf("app-%d", i))
		if err := errors.Join(os.Mkdir(home, 0o755), b.install(home, p.program)); err != nil {
			return nil, err
		}
		dirs = append(dirs, home)
	}
	return dirs, nil
}

// pm2 is the process manager for Node.js, used for any program.
type pm2 struct{ fleet }

func (b *bench) newPM2(_ context.Context, p plan) (manager, error) {
	dir, err := b.fresh("pm2")
	if err != nil {
		return nil, err
	}
	m := &pm2{fleet{plan: p, name: "PM2", dir: dir, log: filepath.Join(dir, "pm2.log"), printed: filepath.Join(dir, "logs", "app-0-out*.log")}}
	if m.dirs, err = b.homes(dir, p); err != nil {
		return nil, err
	}
	type entry struct {
		Name        string `json:"name"`
		Script      string `json:"script"`
		Dir         string `json:"cwd"`
		Interpreter string `json:"interpreter"`
		Restart     bool   `json:"autorestart"`
	}
	apps := []entry{}
	for i, home := range m.dirs {
		apps = append(apps, entry{"app-" + strconv.Itoa(i), "./" + p.program, home, "none", p.restart})
	}
	text, err := json.Marshal(map[string]any{"apps": apps})
	return m, errors.Join(err, os.WriteFile(m.ecosystem(), text, 0o644))
}

func (m *pm2) ecosystem() string { return filepath.Join(m.dir, "ecosystem.json") }

func (m *pm2) pm2(ctx context.Context, args ...string) (string, error) {
	return command(ctx, m.dir, []string{"PM2_HOME=" + m.dir, "HOME=" + m.dir}, append([]string{"pm2"}, args...)...)
}

// boot is startAll: whoever first needs PM2's daemon starts it.
func (m *pm2) boot(ctx context.Context) error {
	if m.count > 0 {
		return m.startAll(ctx)
	}
	_, err := m.pm2(ctx, "ping")
	return errors.Join(err, m.findDaemon())
}

func (m *pm2) startAll(ctx context.Context) error {
	_, err := m.pm2(ctx, "start", m.ecosystem())
	return errors.Join(err, m.findDaemon())
}

func (m *pm2) findDaemon() error {
	text, err := os.ReadFile(filepath.Join(m.dir, "pm2.pid"))
	if err != nil {
		return err
	}
	m.pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return err
}

func (m *pm2) stopAll(ctx context.Context) error {
	_, err := m.pm2(ctx, "delete", "all")
	return err
}

// down also ends a daemon that PM2's own command cannot end.
func (m *pm2) down(ctx context.Context) error {
	if err := m.findDaemon(); errors.Is(err, fs.ErrNotExist) {
		return nil // it never ran
	}
	_, err := m.pm2(ctx, "kill")
	gone := until(ctx, "PM2's daemon has ended", func() (bool, error) {
		return errors.Is(syscall.Kill(m.pid, 0), syscall.ESRCH), nil
	})
	if gone != nil {
		gone = errors.Join(gone, syscall.Kill(m.pid, syscall.SIGKILL))
	}
	return errors.Join(err, gone)
}

// supervisord is Debian's.
type supervisord struct {
	fleet
	server *server
}

func (b *bench) newSupervisord(_ context.Context, p plan) (manager, error) {
	dir, err := b.fresh("supervisord")
	if err != nil {
		return nil, err
	}
	s := &supervisord{fleet: fleet{plan: p, name: "supervisord", dir: dir, log: filepath.Join(dir, "supervisord.log"), printed: filepath.Join(dir, "app-0.log*")}}
	if s.dirs, err = b.homes(dir, p); err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, `[supervisord]
logfile=%[1]s/supervisord.log
pidfile=%[1]s/supervisord.pid
childlogdir=%[1]s
user=root
[unix_http_server]
file=%[1]s/socket
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://%[1]s/socket
`, dir)
	for i, home := range s.dirs {
		fmt.Fprintf(&text, "[program:app-%d]\ncommand=%s\ndirectory=%s\nautorestart=%t\nstdout_logfile=%s\n",
			i, filepath.Join(home, p.program), home, p.restart, filepath.Join(dir, fmt.Sprintf("app-%d.log", i)))
	}
	return s, os.WriteFile(s.config(), []byte(text.String()), 0o644)
}

func (s *supervisord) config() string { return filepath.Join(s.dir, "supervisord.conf") }

func (s *supervisord) socket() string { return filepath.Join(s.dir, "socket") }

func (s *supervisord) boot(ctx context.Context) error {
	var err error
	s.server, err = serve(s.dir, filepath.Join(s.dir, "output"), "supervisord", "--nodaemon", "--configuration", s.config())
	if err != nil {
		return err
	}
	s.pid = s.server.cmd.Process.Pid
	return until(ctx, "supervisord answers", func() (bool, error) {
		_, err := os.Stat(s.socket())
		return err == nil, s.server.hasEnded()
	})
}

func (s *supervisord) ctl(ctx context.Context, args ...string) (string, error) {
	return command(ctx, s.dir, nil, append([]string{"supervisorctl", "--configuration", s.config()}, args...)...)
}

func (s *supervisord) startAll(ctx context.Context) error {
	_, err := s.ctl(ctx, "start", "all")
	return err
}

func (s *supervisord) stopAll(ctx context.Context) error {
	_, err := s.ctl(ctx, "stop", "all")
	return err
}

func (s *supervisord) down(context.Context) error {
	server := s.server
	s.server = nil
	return server.end()
}
