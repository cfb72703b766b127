package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"berth/app"
	"berth/app/text"
)

// TestEveryMessageHasALocale plays every scene for an account of another locale:
// the message is another, and whatever programs read is the same. What the fakes
// refuse with is in no catalogue.
func TestEveryMessageHasALocale(t *testing.T) {
	for _, locale := range app.Locales[1:] {
		t.Run(locale, func(t *testing.T) { everyMessage(t, locale) })
	}
}

func everyMessage(t *testing.T, locale string) {
	t.Helper()
	language := text.In(locale)
	for _, s := range scenes() {
		english, own := lastEvent(playIn(t, s, "en-US")), lastEvent(playIn(t, s, locale))
		if english.Status != own.Status || !reflect.DeepEqual(english.Headers, own.Headers) || english.Text != own.Text {
			t.Errorf("%s: %d %v, in English %d %v", s.name, own.Status, own.Headers, english.Status, english.Headers)
		}
		var one, two map[string]any
		if json.Unmarshal(english.Body, &one) != nil || json.Unmarshal(own.Body, &two) != nil {
			continue // no object
		}
		said, _ := one["message"].(string)
		known := one["status"] == "ok" || language.SayPhrase(app.Words(said)) != said
		if said == two["message"] && said != "" && known && s.op != "/v2/locale/{locale}" { // which sets another
			t.Errorf("%s: still %q", s.name, said)
		}
		for _, body := range []map[string]any{one, two} {
			delete(body, "message")
			if site, is := body["site"].(map[string]any); is {
				delete(site, "message")
			}
			if user, is := body["user"].(map[string]any); is {
				delete(user, "locale")
				delete(user, "language")
			}
			if strings.HasPrefix(s.name, "app_console_ok_") || strings.Contains(s.name, "_right_size_ok") {
				delete(body, "apps") // where lines of berth's own are for people too
			}
		}
		if !reflect.DeepEqual(one, two) {
			t.Errorf("%s: more than the message differs:\n%s\n%s", s.name, english.Body, own.Body)
		}
	}
}

// lastEvent takes the answer at the end of a narration for the body.
func lastEvent(g golden) golden {
	const last = "event: done\ndata: "
	if before, data, narrated := strings.Cut(g.Text, last); narrated {
		g.Text, g.Body = before+last, json.RawMessage(data)
	}
	return g
}

// TestMessagesInPortuguese is what a Brazilian account reads.
func TestMessagesInPortuguese(t *testing.T) {
	refuse := func(call string, err error) func(*world) { return func(w *world) { w.fail[call] = err } }
	full := app.Errorf(app.NoSpace, "cannot %s: %s", app.Words("keep the upload"), app.Words(app.DiskFull))
	for _, tt := range []struct {
		method, path, body string
		arrange            func(w *world)
		status             int
		want               string
	}{
		{"GET", "/v2/user", "", nil, 200, "As informações da sua conta foram carregadas."},
		{"GET", "/v2/app/bot-one", "", func(w *world) { w.apps = []app.Snapshot{killed("bot-one")} }, 200, "Sua aplicação foi encerrada por precisar de mais de 100 MB de RAM. Aumente a RAM dela e inicie-a de novo."},
		{"PUT", "/v2/app/bot-one/start", "", func(w *world) { w.apps = []app.Snapshot{crashed("bot-one")} }, 200, "Sua aplicação foi iniciada, mas ela caiu com o código 1. Ela reinicia em 4s (tentativa 2)."},
		{"PUT", "/v2/app/bot-one/restart", "", nil, 200, "Sua aplicação foi reiniciada."},
		{"PUT", "/v2/app/all/stop", "", func(w *world) {
			w.apps = []app.Snapshot{bot("aa"), bot("bb"), bot("cc"), bot("dd")}
			w.fail["Stop bb"] = app.Errorf(app.Already, "the application is already offline")
			w.fail["Stop cc"] = app.Errorf(app.Conflict, "the application is %s; try again in a moment", app.Words("being deployed"))
			w.fail["Stop dd"] = full
		}, 200, "1 aplicação foi parada, 1 já estava offline, 1 estava ocupada com outra operação. dd falhou: não foi possível guardar o upload: o disco do servidor está cheio; o dono do servidor precisa liberar espaço."},
		{"PUT", "/v2/app/bot-one/ram", `{"ramMB":512}`, nil, 200, "A RAM da sua aplicação foi definida para 512 MB."},
		{"PUT", "/v2/app/bot-one/ram", `{"ramMB":"x"}`, nil, 400, "O campo ramMB deve ser um número inteiro."},
		{"PUT", "/v2/app/bot-one/ram", `{"ramMB":9000}`, refuse("SetRAM", app.Errorf(app.Exhausted, "the account has %d MB, %d MB are assigned; %d MB more do not fit", 1024, 100, 8900)), 200, "a conta tem 1024 MB, 100 MB estão atribuídos; mais 8900 MB não cabem"},
		{"PUT", "/v2/app/bot-one/env", `{"env":{"A":"1","B":null,"C":null}}`, nil, 200, "1 variável de ambiente da sua aplicação foi definida, e 2 foram removidas. Vale a partir do próximo início."},
		{"PUT", "/v2/app/bot-one/stop", "", refuse("Stop", full), 503, "não foi possível guardar o upload: o disco do servidor está cheio; o dono do servidor precisa liberar espaço"},
		{"PUT", "/v2/app/bot-one/stop", "", refuse("Stop", errors.New("disk on fire")), 500, "erro interno"},
		{"PUT", "/v2/app/bot-one/stop", "", refuse("Stop", app.Errorf(app.Unusable, "%s: RAM=%d: %v", app.Textf("discloud.config line %d", 3), 10, app.Errorf(app.Unusable, "an application needs at least %d MB of RAM; %d MB are too few", 32, 10))), 422, "discloud.config linha 3: RAM=10: uma aplicação precisa de pelo menos 32 MB de RAM; 10 MB são poucos"},
		{"PUT", "/v2/app/bot-one/console", `{"command":"x"}`, saying(app.Shell{Cut: app.Textf("it took longer than %s, the most it may", "30s"), Exit: app.Exit{Code: 137, Signal: 9}}), 200, "O comando foi encerrado, com tudo o que tinha iniciado: demorou mais de 30s, o máximo permitido."},
		{"GET", "/v2/app/UPPER", "", nil, 404, "Você não tem uma aplicação com esse ID."},
		{"PUT", "/v2/locale/en-US", "", nil, 200, "Your locale was set to en-US."}, // in the new one
		{"GET", "/v2/nothing", "", nil, 404, "There is nothing at this address. The API is described at /v2/openapi.json."},
	} {
		w := newWorld(t)
		w.account.Locale = "pt-BR"
		if tt.arrange != nil {
			tt.arrange(w)
		}
		rec := do(t, w.handler(), newRequest(tt.method, tt.path, tt.body))
		var body struct{ Message string }
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || rec.Code != tt.status || body.Message != tt.want {
			t.Errorf("%s %s: %d %q, want %d %q", tt.method, tt.path, rec.Code, body.Message, tt.status, tt.want)
		}
	}
}

// TestSpanishAccount: clients that know the two locales of the service alone, and fail on
// any other, can read an account that reads Spanish.
func TestSpanishAccount(t *testing.T) {
	w := newWorld(t)
	w.account.Locale = "es"
	for path, method := range map[string]string{"/v2/locale/es": "PUT", "/v2/user": "GET", "/v2/vscode": "GET"} {
		var body struct {
			Message, Locale string
			User            struct{ Locale, Language string }
		}
		rec := do(t, w.handler(), newRequest(method, path, ""))
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || rec.Code != 200 {
			t.Errorf("%s: %d %v", path, rec.Code, err)
		}
		if method == "PUT" && (body.Locale != "es" || body.Message != "Tu idioma se cambió a es.") {
			t.Errorf("%s: %+v", path, body)
		}
		if method == "GET" && (body.User.Locale != "en-US" || body.User.Language != "es") {
			t.Errorf("%s: %+v", path, body)
		}
	}
}

// TestLanguageOfTheClient: a known account's locale goes first, and before there is
// one what the client accepts.
func TestLanguageOfTheClient(t *testing.T) {
	const english, portuguese = "There is nothing at this address. The API is described at /v2/openapi.json.", "Não há nada neste endereço. A API está descrita em /v2/openapi.json."
	for _, tt := range []struct{ path, token, accepts, locale, want string }{
		{"/v2/nothing", goodToken, "", "pt-BR", english},
		{"/v2/nothing", goodToken, "pt-BR,pt;q=0.9", "en-US", portuguese},
		{"/d/x/y.zip", "", "pt", "en-US", "Este link não é válido ou expirou."},
		{"/v2/user", "", "", "pt-BR", "Send your API token in the api-token header."},
		{"/v2/user", "", "pt", "en-US", "Envie seu token da API no cabeçalho api-token."},
		{"/v2/user", "wrong", "de, pt;q=0.5", "en-US", "O token da API não é válido."},
		{"/v2/user", "wrong", "es-419, en;q=0.5", "en-US", "El token de la API no es válido."},
		{"/v2/user", goodToken, "en", "es", "Se cargó la información de tu cuenta."},
		{"/v2/user", goodToken, "pt-BR", "en-US", "The information of your account has been loaded."},
		{"/v2/user", goodToken, "en", "pt-BR", "As informações da sua conta foram carregadas."},
		{"/v2/user", goodToken, "", "", "The information of your account has been loaded."},
	} {
		w := newWorld(t)
		w.account.Locale = tt.locale
		r := newRequest("GET", tt.path, "")
		r.Header.Set(tokenHeader, tt.token)
		r.Header.Set("Accept-Language", tt.accepts)
		var body struct{ Message string }
		if err := json.Unmarshal(do(t, w.handler(), r).Body.Bytes(), &body); err != nil || body.Message != tt.want {
			t.Errorf("%+v: %q", tt, body.Message)
		}
	}
}

// TestRecordsAreEnglish: whoever keeps the host reads the log and the audit log.
func TestRecordsAreEnglish(t *testing.T) {
	w, b := audited(t)
	var log bytes.Buffer
	w.config.Log = slog.New(slog.NewJSONHandler(&log, nil))
	w.account.Locale = "pt-BR"
	w.fail["Stop"] = &app.Error{Kind: app.NoSpace, Message: app.Textf("cannot %s: %s", app.Words("keep the upload"), app.Words(app.DiskFull)), Logs: "npm ERR!", Err: app.Errorf(app.Internal, "internal error")}
	h := w.handler()
	rec := do(t, h, newRequest("PUT", "/v2/app/bot-one/stop", ""))
	if !strings.Contains(rec.Body.String(), "não foi possível guardar o upload") {
		t.Fatalf("the answer is %s", rec.Body)
	}
	do(t, h, newRequest("PUT", "/v2/app/all/stop", ""))
	wrong := newRequest("PUT", "/v2/app/all/stop", "")
	wrong.Header.Set(tokenHeader, "wrong")
	wrong.Header.Set("Accept-Language", "pt")
	do(t, h, wrong)
	w.fail["Stop"] = context.Canceled
	do(t, h, newRequest("PUT", "/v2/app/bot-one/stop", ""))
	all := strings.Join(b.lines(), "\n")
	for _, want := range []string{`503 "cannot keep the upload: the host's disk is full; its owner must make room\nnpm ERR!"`, `401 "The API token is not valid."`, cancelledMessage} {
		if !strings.Contains(all, want) {
			t.Errorf("the audit log lacks %s:\n%s", want, all)
		}
	}
	if !strings.Contains(log.String(), `"cause":"internal error"`) {
		t.Errorf("the log lacks the cause:\n%s", &log)
	}
	if said := all + log.String(); strings.Contains(said, "ã") || strings.Contains(said, "erro") && !strings.Contains(said, "error") {
		t.Errorf("not all is English:\n%s", said)
	}
}

// TestSocketSpeaksTheLocale: frames while it goes on, the last one, and a refusal
// that no account is known for.
func TestSocketSpeaksTheLocale(t *testing.T) {
	w, b := audited(t)
	w.account.Locale = "pt-BR"
	w.fail["Upload"] = app.Errorf(app.Unusable, "cannot prepare the application: %s", app.Textf("the command in BUILD failed; its output tells why."))
	x := talk(t, w, "/v2/ws/upload", nil)
	x.send(framesOf([]byte("the file"), 8)...)
	const want = "não foi possível preparar a aplicação: o comando em BUILD falhou; a saída dele diz por quê."
	if last := x.listen().last(); last.StatusCode != 422 || last.Message == nil || *last.Message != want {
		t.Errorf("the last frame is %+v", last)
	}
	stranger := http.Header{"Accept-Language": {"pt"}}
	stranger.Set(tokenHeader, "wrong")
	x = talk(t, w, "/v2/ws/upload", stranger)
	if last := x.listen().last(); last.Message == nil || *last.Message != "O token da API não é válido." {
		t.Errorf("a stranger reads %+v", last)
	}
	waitFor(t, func() bool { // it is recorded after the last frame
		return strings.Contains(strings.Join(b.lines(), "\n"), `422 "cannot prepare the application: the command in BUILD failed`)
	})
}
