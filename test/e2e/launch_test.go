package e2e

import (
	"testing"

	"berth/test/harness"
)

// What every engine promises of a program (host.Launch, host.Instance), as its owner sees it: the same table holds for
// programs on this machine and on a cluster (test/cluster).
func TestLaunchContract(t *testing.T) {
	t.Parallel()
	owner := launch(t, "--apps-stop-timeout", "2s").account("ana", 4096)
	idle := "exec sleep 1000\n"
	nothing := func(*client, string) {}
	stop := func(c *client, id string) { c.Put("/app/"+id+"/stop", "").Want(200) }
	starts := func(c *client, id string) { harness.Write(c.T, c.d.Path(id, "go"), "") }
	for _, tt := range []struct {
		name   string
		script string
		then   func(c *client, id string)
		log    string // that it has in the end
		want   []any  // that is so in the end
	}{
		{"it begins in its home, which is its own", `[ "$PWD" = "$HOME" ] && echo x >new && echo "in $(cat new)"; ` + idle, nothing, "in x", []any{"apps.online", true}},
		{"it has a place for what does not last", `echo y >"$TMPDIR/new" && cat "$TMPDIR/new"; ` + idle, nothing, "y\n", []any{"apps.online", true}},
		{"nothing else can be written", `touch /etc/new /usr/new /bin/new 2>/dev/null || echo refused; ` + idle, nothing, "refused", []any{"apps.online", true}},
		{"it is nobody's administrator", `[ "$(id -u)" -gt 1000 ] && echo a user; ` + idle, nothing, "a user", []any{"apps.online", true}},
		{"it knows its port", `[ "$PORT" -gt 1023 ] && echo a port; ` + idle, nothing, "a port", []any{"apps.online", true}},
		{"it knows which application it is", `[ -n "$BERTH_APP_ID" ] && echo known; ` + idle, nothing, "known", []any{"apps.online", true}},
		{"its input is empty", `read -r line || echo empty; ` + idle, nothing, "empty", []any{"apps.online", true}},
		{"all is kept of one that ends at once", `n=0; while [ $n -lt 500 ]; do n=$((n+1)); echo "line $n"; done; exit 3`, nothing, "line 500\n", []any{"apps.online", false, "apps.exitCode", 3}},
		{"it is asked to stop", `trap 'echo last words; exit 7' TERM; echo up; while :; do sleep 0.1; done`, stop, "last words", []any{"apps.online", false, "apps.exitCode", 7}},
		{"it is ended when it does not", `trap '' TERM; echo up; while :; do sleep 0.1; done`, stop, "up", []any{"apps.online", false, "apps.exitCode", 137, "apps.ramKilled", false}},
		{"it is killed when it needs too much", `while [ ! -e go ]; do sleep 0.1; done; exec tail /dev/zero`, starts, "killed: needed more than 64 MB", []any{"apps.online", false, "apps.exitCode", 137, "apps.ramKilled", true}},
		{"its RAM changes while it runs", `echo $$; ` + idle, func(c *client, id string) { c.Put("/app/"+id+"/ram", `{"ramMB": 100}`).Want(200) }, "", []any{"apps.online", true, "apps.ram", 100}},
		{"a command runs beside it", `echo from the program >note; echo up; ` + idle, func(c *client, id string) {
			c.UntilLog(id, "up")
			c.console(id, "cat note").Want(200).Says("apps.shell.stdout", "from the program")
		}, "", []any{"apps.online", true}},
		{"it starts anew with the files that it left", `echo more >>all; echo "has $(wc -l <all)"; ` + idle, func(c *client, id string) {
			c.UntilLog(id, "has 1")
			c.Put("/app/"+id+"/restart", "").Want(200)
		}, "has 2", []any{"apps.online", true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			id := c.Upload(harness.ShellBot(tt.script+"\n", "RAM=64"))
			tt.then(c, id)
			if tt.log != "" {
				c.UntilLog(id, tt.log)
			}
			c.Until(id, tt.want...)
		})
	}
}
