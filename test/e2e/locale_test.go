package e2e

import (
	"strings"
	"testing"
)

// TestMessagesInTheLocale: sentences of every layer come in the account's locale,
// through the daemon, and an account beside it goes on reading English.
func TestMessagesInTheLocale(t *testing.T) {
	d := launch(t, "--apps-ok-delay", "500ms")
	english, c := d.account("eve", 300), d.account("ana", 300)
	c.put("/locale/pt-BR", "").want(200, "locale", "pt-BR", "message", "Seu idioma foi definido para pt-BR.")
	id := c.upload(shellBot(idleShell))
	c.get("/app/"+id).want(200, "message", "As informações da sua aplicação foram carregadas.")
	c.put("/app/"+id+"/start", "").want(200, "status", "error", "message", "a aplicação já está online")
	c.put("/app/"+id+"/ram", `{"ramMB":9999}`).want(200, "status", "error").says("message", "mais 9999 MB não cabem")
	c.put("/app/"+id+"/env", `{"env":{"PORT":"1"}}`).want(400, "message", "PORT é definida pelo berth, com o que vale para o programa: não pode ser alterada")
	c.post([]byte("hello")).want(422, "message", "não foi possível descompactar o ZIP: o arquivo não é um ZIP")
	c.post(files{"discloud.config": "MAIN=x\nRAM=abc\n"}.zip()).want(422).says("message", `discloud.config linha 2: RAM="abc": deve ser um número inteiro de MB`)
	c.post(files{"discloud.config": "MAIN=x.js\nRAM=1\n", "index.js": "x"}.zip()).want(422, "message", "discloud.config linha 2: RAM=1: uma aplicação precisa de pelo menos 32 MB de RAM; 1 MB são poucos")
	c.post(files{"discloud.config": "MAIN=x.js\n", "index.js": "x"}.zip()).want(422).says("message", "não foi possível encontrar MAIN=\"x.js\" no ZIP; existe index.js: você quis dizer MAIN=index.js?")
	c.commit(id, shellBot("exit 9")).want(422).says("message", "não foi possível iniciar o código novo (saiu com o código 9 após ", "; o código anterior ao commit está de volta")
	c.commit(id, shellBot(idleShell, "BUILD=exit 3")).want(422, "message", "não foi possível preparar a aplicação: o comando em BUILD falhou; a saída dele diz por quê.")
	c.console(id, "exit 3").want(200, "message", "O comando terminou com o código de saída 3.")
	c.ask("POST", "/subdomain/-a", "").want(400).says("message", `"-a" não pode ser um subdomínio: use de 2 a`)
	c.team("POST", id, "999", "logs_app").want(404, "message", "não existe a conta 999")
	c.put("/app/all/stop", "").want(200, "message", "1 aplicação foi parada.")
	if log := c.log(id); strings.Contains(log, "código") || strings.Contains(log, "encerrado") {
		t.Errorf("berth's own lines in the log are not English:\n%s", log)
	}
	english.get("/user").want(200, "message", "The information of your account has been loaded.")
	english.post([]byte("hello")).want(422, "message", "cannot unpack the ZIP: the file is not a ZIP")
}
