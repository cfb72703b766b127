package e2e

import (
	"strings"
	"testing"

	"berth/test/harness"
)

// TestMessagesInTheLocale: sentences of every layer come in the account's locale,
// through the daemon, and an account beside it goes on reading English.
func TestMessagesInTheLocale(t *testing.T) {
	d := launch(t, "--apps-ok-delay", "500ms")
	english, c := d.account("eve", 300), d.account("ana", 300)
	c.Put("/locale/pt-BR", "").Want(200, "locale", "pt-BR", "message", "Seu idioma foi definido para pt-BR.")
	id := c.Upload(harness.ShellBot(harness.IdleShell))
	c.Get("/app/"+id).Want(200, "message", "As informações da sua aplicação foram carregadas.")
	c.Put("/app/"+id+"/start", "").Want(200, "status", "error", "message", "a aplicação já está online")
	c.Put("/app/"+id+"/ram", `{"ramMB":9999}`).Want(200, "status", "error").Says("message", "mais 9999 MB não cabem")
	c.Put("/app/"+id+"/env", `{"env":{"PORT":"1"}}`).Want(400, "message", "PORT é definida pelo berth, com o que vale para o programa: não pode ser alterada")
	c.Post([]byte("hello")).Want(422, "message", "não foi possível descompactar o ZIP: o arquivo não é um ZIP: coloque os arquivos da aplicação em um")
	c.Post(harness.Files{"discloud.config": "MAIN=x\nRAM=abc\n"}.Zip()).Want(422).Says("message", `discloud.config linha 2: RAM="abc": deve ser uma quantidade como 512, 512MB ou 1.5GB`)
	c.Post(harness.Files{"discloud.config": "MAIN=x.js\nRAM=1\n", "index.js": "x"}.Zip()).Want(422, "message", "discloud.config linha 2: RAM=1: uma aplicação precisa de pelo menos 32 MB de RAM; 1 MB são poucos")
	c.Post(harness.Files{"discloud.config": "MAIN=x.js\n", "index.js": "x"}.Zip()).Want(422).Says("message", "não foi possível encontrar MAIN=\"x.js\" no ZIP; existe index.js: você quis dizer MAIN=index.js?")
	c.Commit(id, harness.ShellBot("exit 9")).Want(422).Says("message", "não foi possível iniciar o código novo (saiu com o código 9 após ", "; o código anterior ao commit está de volta")
	c.Commit(id, harness.ShellBot(harness.IdleShell, "BUILD=exit 3")).Want(422, "message", "não foi possível preparar a aplicação: o comando em BUILD falhou; a saída dele diz por quê.")
	c.console(id, "exit 3").Want(200, "message", "O comando terminou com o código de saída 3.")
	c.ask("POST", "/subdomain/-a", "").Want(400).Says("message", `"-a" não pode ser um subdomínio: use de 2 a`)
	c.team("POST", id, "999", "logs_app").Want(404, "message", "não existe a conta 999")
	c.Put("/app/all/stop", "").Want(200, "message", "1 aplicação foi parada.")
	if log := c.Log(id); strings.Contains(log, "código") || strings.Contains(log, "encerrado") {
		t.Errorf("berth's own lines in the log are not English:\n%s", log)
	}
	english.Get("/user").Want(200, "message", "The information of your account has been loaded.")
	english.Post([]byte("hello")).Want(422, "message", "cannot unpack the ZIP: the file is not a ZIP: put the files of the application into one")
}
