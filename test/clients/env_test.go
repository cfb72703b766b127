package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/test/harness"
)

// clientEnv is the environment of a shell that has evaluated what berth client-env prints for a
// client, in a home directory: with a token, "" for none that it prints.
func (d *daemon) clientEnv(t *testing.T, home, client, token string) []string {
	t.Helper()
	line := `eval "$(berth client-env ` + client + `)"`
	if token != "" {
		line = `eval "$(berth client-env ` + client + ` --with-token)"`
	} else {
		token = "none"
	}
	cmd := exec.Command("sh", "-euc", line+"; unset BERTH_URL BERTH_TOKEN; exec env -0")
	cmd.Env = append(harness.CleanEnv(), "PATH="+filepath.Dir(berth)+":"+os.Getenv("PATH"), "HOME="+home, "BERTH_URL="+d.Base, "BERTH_TOKEN="+token)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("berth client-env %s: %v", client, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// What client-env says of the tested versions is what these tests run.
func TestClientEnvNamesTheTestedVersions(t *testing.T) {
	d := launch(t)
	cmd := exec.Command(berth, "client-env", "--json")
	cmd.Env = append(harness.CleanEnv(), "BERTH_URL="+d.Base, "BERTH_TOKEN="+d.token)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Name   string
		Tested []string
	}
	var lock struct{ Dependencies map[string]string }
	text, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		version, runs := lock.Dependencies[c.Name]
		if runs != (len(c.Tested) > 0) || runs && !slices.Equal(c.Tested, []string{version}) {
			t.Errorf("%s is tested in %q, and package.json has %q", c.Name, c.Tested, version)
		}
		delete(lock.Dependencies, c.Name)
	}
	if len(lock.Dependencies) > 0 {
		t.Errorf("client-env does not know %v", lock.Dependencies)
	}
	if strings.Contains(string(out), d.token) {
		t.Error("it prints the token, which nobody asked for")
	}
}

// A program with the SDK needs no change: it has address and token from the environment, as a
// CommonJS program and as a module, which imports the packages by their paths. It can also name the address itself.
func TestClientEnvOfTheSDK(t *testing.T) {
	d := launch(t)
	env := d.clientEnv(t, t.TempDir(), "discloud.app", d.token)
	startSDK(t, env, "sdk.cjs").call("user.fetch").want("id", d.id)
	own := startSDK(t, os.Environ(), "sdk.cjs", d.Base)
	own.call("login", d.token)
	own.call("user.fetch").want("id", d.id)

	dir := folder(t, map[string]string{"main.mjs": `import { RouteBases } from "@discloudapp/api-types/v2";
import { DiscloudApp } from "discloud.app";
const user = await new DiscloudApp().user.fetch();
console.log(user.id, RouteBases.api);
process.exit();
`})
	if err := os.Symlink(filepath.Join(clients, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", filepath.Join(dir, "main.mjs"))
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != d.id+" "+d.Base+"/v2" {
		t.Errorf("the module said %s, %v", out, err)
	}
}
