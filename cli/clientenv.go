package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/client"
)

// publicClients are the public clients of the API that people have beside this one. Tests in
// test/clients start those that have a tested version with what is said here.
var publicClients = []publicClient{
	{
		name: "discloud-cli", what: "command line, for Node.js 18.18 or later", tested: []string{"1.18.0"}, by: "environment",
		address: "NODE_OPTIONS lets Node.js load a few lines before it, which change the address.",
		token:   "discloud login asks for the token and keeps it in ~/.discloud/.cli; --with-token writes that file. Version 2 also takes DISCLOUD_TOKEN.",
		node:    true, file: cliFile,
	},
	{
		name: "discloud.app", what: "SDK for Node.js 18.18 or later", tested: []string{"1.0.7"}, by: "environment",
		address: "NODE_OPTIONS lets Node.js load a few lines before it, which change the address; or pass {rest: {api: \"@BASE@\"}} to the constructor.",
		token:   "DISCLOUD_TOKEN, or login(token) in the program.",
		node:    true,
	},
	{
		name: "discloud-python", what: "discloud, the library for Python", by: "program",
		address: "After the imports of your program, set discloud.http.Route.BASE_V2 = \"@BASE@/v2\".",
		token:   "Client(token) in the program, which may read DISCLOUD_TOKEN.",
	},
	{
		name: "discloud-rs", what: "library for Rust", by: "source",
		address: "No setting changes its address: in a copy of it, which [patch] in Cargo.toml names, make default_url in src/util.rs begin with @BASE@/v2/.",
		token:   "Discloud::new(token) in the program, which may read DISCLOUD_TOKEN.",
	},
	{
		name: "discloud-dart", what: "command line in Dart", by: "source",
		address: "No setting changes its address: build it with the host of @BASE@ as _apiHost in lib/services/discloud/api_client.dart. berth is a command line for every system.",
		token:   "DISCLOUD_TOKEN, or discloud login.",
	},
	{
		name: "deploy-action", what: "deploy action of GitHub", by: "source",
		address: "No setting changes its address: use berth deploy in its place, as examples/ci does.",
		token:   "its input token, from a secret.",
	},
	{
		name: "vscode", what: "extension of VS Code", by: "source",
		address: "No setting changes its address: build it with @BASE@/v2 as RouteBases.api of @discloudapp/api-types.",
		token:   "The extension asks for the token when you log in.",
	},
}

// tokenVariable is what the clients call the variable that some of them take the token from.
const tokenVariable = "DISCLOUD_TOKEN"

// publicClient is one of them. In its sentences, @BASE@ is the server's address.
type publicClient struct {
	name, what, address, token string

	tested []string // versions that test/clients runs
	by     string   // what changes the address: environment, program or source
	node   bool     // it is of Node.js, and takes its address from packages that a hook can reach
	file   func(token string) *clientFile
}

// clientEnv is what makes a public client of the API work with a server.
type clientEnv struct {
	Name    string            `json:"name"`           // of the client
	What    string            `json:"what"`           // it is
	Tested  []string          `json:"tested"`         // versions that berth's tests run
	By      string            `json:"by"`             // what changes its address: environment, program (a line in yours) or source (of the client)
	Address string            `json:"address"`        // how it gets the address of the server, in a sentence
	Token   string            `json:"token"`          // how it gets the token, in a sentence
	Env     map[string]string `json:"env"`            // variables to set; with --with-token the token's too
	File    *clientFile       `json:"file,omitempty"` // to write, with --with-token, where the client takes the token from a file
}

// clientFile is a file that a client reads.
type clientFile struct {
	Path string `json:"path"` // below the home directory; its mode is 0600
	Text string `json:"text"`
}

// clientEnv is "berth client-env".
func (c *caller) clientEnv() *cobra.Command {
	cmd := command.New("client-env [CLIENT] [--with-token] [--json]",
		"print what makes other clients of the API work with this server; eval \"$(berth client-env CLIENT)\" sets it in a shell", 0, 1)
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return clientNames(), cobra.ShellCompDirectiveNoFileComp
	}
	withToken := command.Toggle(cmd, "with-token", "print the token too; a client that keeps it in a file gets that file, in place of the one that is there")
	asJSON := jsonFlag[[]clientEnv](cmd)
	return c.remote(cmd, func(_ context.Context, w *way, args []string) error {
		list := publicClients
		if len(args) == 1 {
			i := slices.IndexFunc(list, func(p publicClient) bool { return p.name == args[0] })
			if i < 0 {
				return exit.NewProblem(exit.NotFound, fmt.Errorf("there is no client %q%s", args[0], exit.DidYouMean(args[0], clientNames(), "%q")),
					"Hint: berth client-env lists the clients.")
			}
			list = list[i : i+1]
		}
		if *withToken && w.token == "" {
			return exit.NewProblem(exit.Usage, errors.New("cannot print a token: on the host, berth needs none"),
				"Hint: berth token create makes one; with it, set BERTH_URL and BERTH_TOKEN.")
		}
		token := ""
		if *withToken {
			token = w.token
		}
		if strings.HasPrefix(w.url, "http:") && !client.Loopback(w.url) {
			c.Tell("%s is plain HTTP: everybody on the way can read the token that a client sends there.", w.url)
		}
		all := make([]clientEnv, len(list))
		for i, p := range list {
			all[i] = p.env(w.url, token, c.Getenv("NODE_OPTIONS"))
		}
		if len(args) == 1 && !*asJSON {
			_, err := io.WriteString(c.Stdout, all[0].shell())
			return err
		}
		return c.Print(*asJSON, all, func(out io.Writer) {
			fmt.Fprintln(out, "CLIENT\tWHAT\tTESTED\tADDRESS BY")
			for _, e := range all {
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", e.Name, e.What, cmp.Or(strings.Join(e.Tested, ", "), "-"), e.By)
			}
		})
	})
}

func clientNames() []string {
	names := make([]string, len(publicClients))
	for i, p := range publicClients {
		names[i] = p.name
	}
	return names
}

// PublicClients are the rows of the documentation's table of clients for the server at base: name,
// what the client is, how it gets the address and how the token.
func PublicClients(base string) [][4]string {
	rows := make([][4]string, len(publicClients))
	for i, p := range publicClients {
		e := p.env(base, "", "")
		rows[i] = [4]string{e.Name, e.What, e.Address, e.Token}
	}
	return rows
}

// env is what makes p work with the server at base; token is "" if it is not to be shown, and
// options what NODE_OPTIONS is already.
func (p publicClient) env(base, token, options string) clientEnv {
	e := clientEnv{
		Name: p.name, What: p.what, Tested: append([]string{}, p.tested...), By: p.by,
		Address: strings.ReplaceAll(p.address, "@BASE@", base), Token: p.token, Env: map[string]string{},
	}
	if p.node {
		e.Env["NODE_OPTIONS"] = nodeOptions(options, base)
	}
	if token != "" && p.file != nil {
		e.File = p.file(token)
	}
	if token != "" && strings.Contains(p.token, tokenVariable) {
		e.Env[tokenVariable] = token
	}
	return e
}

// cliFile is where discloud-cli 1 keeps its token.
func cliFile(token string) *clientFile {
	text, _ := json.Marshal(map[string]string{"token": token}) // a map of strings always works
	return &clientFile{Path: ".discloud/.cli", Text: base64.StdEncoding.EncodeToString(text)}
}

// nodeHook changes the address where the packages of Node.js keep it. It finds them by their
// names, those of imports too, which are paths.
const nodeHook = `import Module from "node:module";
const load = Module._load;
Module._load = function (name) {
  const loaded = load.apply(this, arguments);
  if (/@discloudapp[\\/]api-types[\\/]v2/.test(name) && loaded.RouteBases) loaded.RouteBases.api = BASE + "/v2";
  if (/@discloudapp[\\/]rest/.test(name) && loaded.DefaultRestOptions) loaded.DefaultRestOptions.api = BASE;
  return loaded;
};
`

// nodeWord begins the word of NODE_OPTIONS that is ours. Its parameter is of no meaning to Node.js.
const nodeWord = "--import=data:text/javascript;name=berth,"

// nodeOptions is NODE_OPTIONS with the hook, in the place of an earlier one. The hook is in the
// word itself, so that there is no file to write, to find and to remove.
func nodeOptions(options, base string) string {
	quoted, _ := json.Marshal(base) // a string always works
	words := slices.DeleteFunc(strings.Split(options, " "), func(word string) bool { return word == "" || strings.HasPrefix(word, nodeWord) })
	return strings.Join(append(words, nodeWord+url.PathEscape("const BASE = "+string(quoted)+";\n"+nodeHook)), " ")
}

// shell is what a POSIX shell evaluates: comments, variables and the file.
func (e clientEnv) shell() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n# Address: %s\n# Token: %s\n", e.Name, e.What, e.Address, e.Token)
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		fmt.Fprintf(&b, "export %s=%s\n", name, quoted(e.Env[name]))
	}
	if e.File != nil {
		dir, _ := path.Split(e.File.Path)
		fmt.Fprintf(&b, "(umask 077 && mkdir -p ~/%s && rm -f ~/%s && printf %%s %s >~/%s)\n", dir, e.File.Path, quoted(e.File.Text), e.File.Path)
	}
	return b.String()
}

// quoted is a text as one word of a POSIX shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
