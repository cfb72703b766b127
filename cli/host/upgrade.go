package host

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"berth/app/build"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/release"
	"berth/daemon/settings"
	"berth/db"
	"berth/systemd"
)

// upgrader puts a newer release in the place of the berth that is installed. Until it replaces
// the binary it may be called off at any moment; from then on it comes to an end, which is the new
// berth or the old one.
type upgrader struct {
	ctx      context.Context
	out      io.Writer
	settings settings.Settings // of the service
	source   *release.Source
	own      release.Version // of this binary
	exe      string          // the binary that runs
	root     string          // before every path; "" for this machine
	binary   string          // that the service starts
	deb      bool            // dpkg has put it there
	serves   bool            // the service is not stopped; it may have failed, and a new release be the remedy
	comeUp   time.Duration   // what a daemon that systemd has started may take until its API answers
}

// upgrade is the command.
func upgrade(c *caller) *cobra.Command {
	cmd := command.New("upgrade [--check] [--from URL] [--key KEY]", "upgrade the service to the newest release, and go back if that does not start; programs run on", 0, 0)
	u := &upgrader{out: c.Stdout, exe: "/proc/self/exe", comeUp: 30 * time.Second}
	check := command.Toggle(cmd, "check", "only say whether there is a newer release, with exit status 6 if so")
	from := command.Word(cmd, "from", "`URL` of releases, in place of the setting upgrade.base")
	key := command.Word(cmd, "key", "public `KEY` of minisign that signs them, in place of the setting upgrade.key")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if u.settings, err = settings.Load(func(string) string { return "" }); err != nil { // as the service reads them
			return err
		}
		what := map[bool]string{true: "check for a newer release", false: "upgrade"}[*check]
		base, by := u.settings.Releases()
		if err := u.open(cmp.Or(*from, base), cmp.Or(*key, by)); err != nil {
			return cannot(what, err)
		}
		defer u.source.Close()
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		u.ctx = ctx
		if *check {
			return cannot(what, u.check())
		}
		if err := mustBeRoot("upgrade", "", "upgrade"); err != nil {
			return err
		}
		return cannot(what, u.upgrade())
	}
	return cmd
}

// cannot says what fails, and keeps exit code and hint.
func cannot(what string, err error) error {
	p, is := errors.AsType[*exit.Problem](err)
	switch {
	case err == nil:
		return nil
	case is && p.Code == exit.Outdated:
		return err
	case is:
		return exit.NewProblem(p.Code, fmt.Errorf("cannot %s: %w", what, err), p.Hint)
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}

// refusal is an error with what to do about it.
func refusal(hint, format string, args ...any) error {
	return exit.NewProblem(exit.Failure, fmt.Errorf(format, args...), "Hint: "+hint)
}

// open refuses a berth that has no release before it, and one that knows no releases.
func (u *upgrader) open(base, key string) (err error) {
	var ok bool
	if u.own, ok = release.ParseVersion(build.Version()); !ok {
		return refusal("./do build && sudo ./berth install --now upgrades it from a checkout; install.sh of a release replaces it.",
			"this berth is a development build (%s), and no release is newer or older", build.Version())
	}
	const hint = "set upgrade.base and upgrade.key in " + settings.DefaultFile + ", or use --from and --key."
	switch {
	case base == "":
		return refusal(hint, "this berth was built without an address of releases")
	case key == "":
		return refusal(hint, "this berth was built without the key that signs releases")
	}
	u.source, err = release.Open(base, key)
	return err
}

// newest returns the newest release; newer is false if it is this one. It refuses an older one.
func (u *upgrader) newest() (r release.Release, newer bool, err error) {
	if r, err = u.source.Latest(u.ctx); err != nil {
		return r, false, err
	}
	switch r.Version.Compare(u.own) {
	case -1:
		return r, false, fmt.Errorf("berth %s is installed, and %s has only %s, which is older", u.own, u.source.Base(), r.Version)
	case 0:
		u.printf("berth %s is the newest release at %s", u.own, u.source.Base())
		return r, false, nil
	}
	return r, true, nil
}

// check is all that --check does.
func (u *upgrader) check() error {
	r, newer, err := u.newest()
	if err != nil || !newer {
		return err
	}
	return exit.NewProblem(exit.Outdated, fmt.Errorf("release %s is at %s, and %s is installed", r.Version, u.source.Base(), u.own), "Hint: sudo berth upgrade")
}

func (u *upgrader) upgrade() error {
	if err := u.find(); err != nil {
		return err
	}
	unlock, err := u.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, newer, err := u.newest()
	if err != nil || !newer {
		return err
	}
	dir, err := u.workplace()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what stays, the next one removes
	if err := u.replace(r, dir); err != nil {
		return err
	}
	if !u.serves {
		u.printf("berth %s is installed in the place of %s. The service is stopped, as it was: systemctl start berth", r.Version, u.own)
		return nil
	}
	u.printf("berth %s serves in the place of %s; programs ran on", r.Version, u.own)
	return nil
}

// find looks for the berth that is installed, and for who has installed it.
func (u *upgrader) find() error {
	for _, dir := range []string{unitDir, systemd.VendorDir} {
		u.binary = cmp.Or(u.binary, started(u.root+dir+"/"+systemd.DaemonUnit))
	}
	if u.binary == "" {
		return refusal("sudo berth install --now makes it one. Else replace the file from which berth serve was started, and send the daemon a SIGHUP.",
			"berth is not a service of this machine")
	}
	at := u.root + u.binary
	is, err := os.Stat(at)
	own, errOwn := os.Stat(u.exe)
	switch {
	case err != nil:
		return fmt.Errorf("the service starts %s: %w", u.binary, err)
	case errOwn == nil && !os.SameFile(is, own):
		return refusal("sudo "+u.binary+" upgrade", "this is not the berth that the service starts, which is %s", u.binary)
	}
	owner, err := exec.CommandContext(u.ctx, "dpkg-query", "--search", u.binary).Output()
	u.deb = err == nil && strings.HasPrefix(string(owner), "berth:")
	if !u.deb && (err == nil || !strings.HasSuffix(u.binary, "/bin/berth") || strings.HasPrefix(u.binary, "/usr/bin/")) {
		return refusal("upgrade it as it was installed.", "neither berth install nor the package berth has installed %s", u.binary)
	}
	state, _ := exec.CommandContext(u.ctx, "systemctl", "is-active", systemd.DaemonUnit).Output() // it fails unless active
	u.serves = slices.Contains([]string{"active", "reloading", "activating", "failed"}, strings.TrimSpace(string(state)))
	return nil
}

// lock keeps other upgrades out, those of install.sh too.
func (u *upgrader) lock() (unlock func(), err error) {
	f, err := os.OpenFile(u.root+"/run/berth-upgrade.lock", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, errors.New("another installation or upgrade of berth is under way")
	}
	return func() { _ = f.Close() }, nil
}

// workplace makes an empty directory beside the binary: programs can be executed there, and files
// be renamed. It removes those of upgrades that were killed.
func (u *upgrader) workplace() (string, error) {
	const name = ".berth-upgrade-"
	dir := filepath.Dir(u.root + u.binary)
	left, _ := filepath.Glob(filepath.Join(dir, name+"*")) // the pattern is well-formed
	for _, old := range left {
		if err := os.RemoveAll(old); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(dir, name)
}

// replace brings the release and lets it follow. When it fails, the old berth is there.
func (u *upgrader) replace(r release.Release, dir string) error {
	name, how := r.Archive(), "berth install"
	if u.deb {
		name, how = r.Package(), "apt-get install"
	}
	u.printf("upgrade  %s, from %s to %s", u.binary, u.own, r.Version)
	u.printf("download %s/%s", u.source.Base(), name)
	file := filepath.Join(dir, name)
	next, err := u.bring(r, file)
	if err != nil {
		return err
	}
	if err := u.prove(next, r); err != nil {
		return err
	}
	old := u.root + u.binary + ".old"
	is, err := u.keep(old, dir)
	if err != nil {
		return err
	}
	u.ctx = context.WithoutCancel(u.ctx)
	u.printf("call     %s; the old binary is kept as %s", how, u.binary+".old")
	if u.deb { // --reinstall: dpkg may believe that it has it, after berth went back
		err = u.run(u.out, "apt-get", "-q", "install", "-y", "--no-install-recommends", "--reinstall", "-o", "APT::Sandbox::User=root", "-o", "Dpkg::Use-Pty=0", file)
	} else {
		err = u.run(u.out, next, u.install(u.serves)...)
	}
	if err == nil && u.serves {
		err = u.answers(r.Version)
	}
	if err == nil && u.deb {
		_ = os.Remove(old) // the package has no such file
	}
	if err != nil {
		err = u.goBack(r, dir, is, err)
	}
	return err
}

// install are the arguments of the command by which a binary installs itself where the service
// finds it.
func (u *upgrader) install(now bool) []string {
	args := []string{"install", "--prefix", strings.TrimSuffix(u.binary, "/bin/berth")}
	if now {
		args = append(args, "--now")
	}
	return args
}

// bring downloads a file of a release, and returns the path of the binary in it.
func (u *upgrader) bring(r release.Release, file string) (next string, err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := u.source.Download(u.ctx, r, filepath.Base(file), f); err != nil {
		return "", err
	}
	dir := filepath.Dir(file)
	if u.deb {
		return filepath.Join(dir, "deb/usr/bin/berth"), u.run(io.Discard, "dpkg-deb", "--extract", file, filepath.Join(dir, "deb"))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	next = filepath.Join(dir, "berth")
	if err := unpack(f, next); err != nil {
		return "", fmt.Errorf("cannot unpack %s: %w", filepath.Base(file), err)
	}
	return next, nil
}

// maxBinary bounds what is unpacked.
const maxBinary = 512 << 20

// unpack writes the berth of an archive, which lies at its top or one directory below.
func unpack(archive io.Reader, to string) error {
	packed, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	for files := tar.NewReader(packed); ; {
		h, err := files.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("there is no berth in it")
			}
			return err
		}
		name := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || path.Base(name) != "berth" || strings.Count(name, "/") > 1 {
			continue
		}
		if h.Size > maxBinary {
			return fmt.Errorf("its berth has %d MB", h.Size>>20)
		}
		f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, files)
		return errors.Join(err, f.Close())
	}
}

// prove lets the new binary check that it can serve here, before anything is changed.
func (u *upgrader) prove(next string, r release.Release) error {
	ctx, cancel := context.WithTimeout(u.ctx, time.Minute)
	defer cancel()
	var says, problems bytes.Buffer
	cmd := program(ctx, next, "check", "--json")
	cmd.Stdout, cmd.Stderr = &says, &problems
	if err := cmd.Run(); err != nil {
		err = lastWords(problems.String(), err)
		if ctx.Err() != nil {
			err = errors.New("its check took more than a minute")
		}
		return fmt.Errorf("berth %s could not serve here: %w", r.Version, err)
	}
	var proof struct{ Version string }
	if err := json.Unmarshal(says.Bytes(), &proof); err != nil {
		return fmt.Errorf("%s does not answer as berth does", filepath.Base(next))
	}
	if is, ok := release.ParseVersion(proof.Version); !ok || is != r.Version {
		return fmt.Errorf("the release %s has a berth that calls itself %s", r.Version, proof.Version)
	}
	return nil
}

// keep gives the binary a second name, and returns which file it is.
func (u *upgrader) keep(old, dir string) (os.FileInfo, error) {
	is, err := os.Lstat(u.root + u.binary)
	if err == nil {
		err = linkTo(u.root+u.binary, old, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot keep the binary: %w", err)
	}
	return is, nil
}

// linkTo gives a file another name, in the place of what has it; all or nothing. It works in dir.
func linkTo(file, name, dir string) error {
	temp := filepath.Join(dir, "link")
	if err := os.Link(file, temp); err != nil {
		return err
	}
	return os.Rename(temp, name)
}

// goBack puts the binary from before back, and what belongs to it, when another release has not
// come up, and returns what happened. It does not across a change of the schema: the old berth could
// not open the database.
func (u *upgrader) goBack(r release.Release, dir string, is os.FileInfo, why error) error {
	old := u.root + u.binary + ".old"
	if now, err := os.Lstat(u.root + u.binary); err == nil && os.SameFile(is, now) {
		_ = os.Remove(old)
		return why // it has not begun
	}
	if r.Schema != db.Schema() {
		before := filepath.Join(u.settings.DataDir, fmt.Sprintf("%s.schema-%d", daemon.DatabaseName, db.Schema()))
		kept := "the database is as it was"
		if !missing(u.root + before) {
			kept = "the database from before is " + before
		}
		return refusal("mend it and run systemctl restart berth, or go back by hand as docs/operations.md says (Upgrade).",
			"berth %s is installed and did not come up: %w; it has another schema of the database, so berth does not go back by itself: the old binary is %s.old, and %s",
			r.Version, why, u.binary, kept)
	}
	u.printf("back     to berth %s, for %s did not come up", u.own, r.Version)
	if err := u.restore(old, dir); err != nil {
		return fmt.Errorf("berth %s did not come up: %w; and berth %s, which is to be back, did not either: %w", r.Version, why, u.own, err)
	}
	return refusal("journalctl -u berth", "berth %s did not come up: %w; berth %s is back", r.Version, why, u.own)
}

// restore lets the old binary serve again, with the units that it knows.
func (u *upgrader) restore(old, dir string) error {
	err := linkTo(old, u.root+u.binary, dir)
	switch {
	case err != nil:
	case u.deb:
		err = u.configure()
	default:
		err = u.run(io.Discard, u.root+u.binary, u.install(false)...)
	}
	if err != nil {
		return err
	}
	_ = os.Remove(old) // it has its own name again
	if !u.serves {
		return nil
	}
	if is, err := readService(u.ctx); err == nil && is.active == "active" && is.runs(u.root+u.binary) {
		return nil // it has not let the new one follow
	}
	if err := systemctl(u.ctx, "restart", systemd.DaemonUnit); err != nil {
		return err
	}
	return u.answers(u.own)
}

// configure ends what dpkg has begun with the package, as the old binary can. A package that is
// half configured would fail each later call of apt, and apt would not bring a release of the
// same version again.
func (u *upgrader) configure() error {
	state, err := program(u.ctx, "dpkg-query", "--show", "--showformat=${db:Status-Status}", "berth").Output()
	if err != nil || strings.TrimSpace(string(state)) == "installed" {
		return err
	}
	return u.run(io.Discard, "dpkg", "--configure", "berth")
}

// answers waits until the API is that of a version.
func (u *upgrader) answers(version release.Version) error {
	address := "http://" + reachable(u.settings.Listen) + "/v2/openapi.json"
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	said := ""
	for deadline := time.Now().Add(u.comeUp); ; {
		resp, err := client.Get(address) //nolint:noctx // it is bounded, and nothing calls it off any more
		if err == nil {
			_ = resp.Body.Close()
			said = resp.Header.Get("berth-version")
			if is, ok := release.ParseVersion(said); ok && is == version {
				return nil
			}
		}
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if why, _ := whyNot(u.ctx); why != "" {
		return errors.New(why)
	}
	return fmt.Errorf("the API at %s does not answer as berth %s (%q)", u.settings.Listen, version, said)
}

// reachable is the address at which this machine reaches one that it listens on.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// run calls a program that comes to its end whatever the terminal does. Its error is what the
// program said.
func (u *upgrader) run(out io.Writer, name string, args ...string) error {
	cmd := program(u.ctx, name, args...)
	var said bytes.Buffer
	both := io.MultiWriter(out, &said)
	cmd.Stdout, cmd.Stderr = both, both // which is one pipe
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), lastWords(said.String(), err))
	}
	return nil
}

// program is a program in a process group of its own, without the variables of this one.
func program(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// lastWords is the error of a program that printed text: berth's in it, or else its last line; err
// if there is neither.
func lastWords(text string, err error) error {
	for line := range strings.Lines(text) {
		said, own := strings.CutPrefix(strings.TrimSpace(line), "berth: ")
		if own {
			return errors.New(said)
		}
		if said != "" && !strings.HasPrefix(said, "Hint: ") {
			err = errors.New(said)
		}
	}
	return err
}

func (u *upgrader) printf(format string, args ...any) {
	fmt.Fprintln(u.out, screen.Escape(fmt.Sprintf(format, args...), false)) // the release's words are the publisher's
}
