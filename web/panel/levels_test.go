package panel

import (
	"strings"
	"testing"
)

func TestLevels(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]level{
		// pino, bunyan, winston, zap, slog, zerolog, python-json-logger, Monolog
		`{"level":30,"time":1764150000000,"pid":7,"hostname":"x","msg":"ready"}`:         infoLevel,
		`{"level":50,"time":1764150000000,"err":{"type":"Error","level":10},"msg":"no"}`: errorLevel,
		`{"name":"app","hostname":"x","pid":7,"level":40,"msg":"slow","v":0}`:            warnLevel,
		`{"level":20,"msg":"x"}`:                                               debugLevel,
		`{"level":60,"msg":"x"}`:                                               errorLevel,
		`{"level":99,"msg":"x"}`:                                               noLevel,
		`{"level":"info","message":"ready"}`:                                   infoLevel,
		`{"message":"ready","level":"error"}`:                                  errorLevel,
		`{"message":"he said \"level\":\"error\"","level":"debug"}`:            debugLevel,
		`{"level":"warn","ts":1764150000.1,"caller":"main.go:7","msg":"slow"}`: warnLevel,
		`{"time":"2026-11-26T10:00:00Z","level":"ERROR","msg":"no"}`:           errorLevel,
		`{"time":"2026-11-26T10:00:00Z","level":"INFO+2","msg":"no"}`:          infoLevel,
		`{"severity":"CRITICAL","message":"no"}`:                               errorLevel,
		`{"message":"x","context":{},"level":400,"level_name":"ERROR"}`:        noLevel,
		`{"request":{"level":"error"},"msg":"x"}`:                              noLevel,
		`{"level":{"value":"error"},"msg":"x"}`:                                noLevel,
		`{"list":["level","error"]}`:                                           noLevel,
		`{"msg":"level","error":1}`:                                            noLevel,
		`{"level":"error`:                                                      noLevel,
		`{"level":"error","msg":"it was cu…`:                                   errorLevel,
		`{`:                                                                    noLevel,
		`{ level: 'error' }`:                                                   noLevel,
		`time=2026-11-26T10:00:00.000Z level=WARN msg="slow"`:                  warnLevel,
		`time="2026-11-26T10:00:00Z" level=error msg="no"`:                     errorLevel,
		`level=info ts=2026-11-26 msg=ready`:                                   infoLevel,
		`time=1 msg="level=error"`:                                             noLevel,
		`time="1`:                                                              noLevel,
		// Python's logging, in its usual formats
		`ERROR:root:it failed`:                                                      errorLevel,
		`WARNING:discord.client:PyNaCl is not installed`:                            warnLevel,
		`2026-11-26 10:00:00,123 - bot - ERROR - it failed`:                         errorLevel,
		`2026-11-26 10:00:00,123 ERROR it failed`:                                   errorLevel,
		`2026-11-26 10:00:00 INFO     discord.client logging in using static token`: infoLevel,
		`[2026-11-26 10:00:00,123] ERROR in app: Exception on / [GET]`:              errorLevel,
		`[2026-11-26 10:00:00 +0000] [7] [INFO] Starting gunicorn 23.0.0`:           infoLevel,
		`2026-11-26 10:00:00.123 | WARNING  | __main__:main:7 - slow`:               warnLevel,
		`INFO:     Started server process [7]`:                                      infoLevel,
		// log4j, Logback, Spring
		`2026-11-26 10:00:00,123 ERROR [main] com.example.App - it failed`:                 errorLevel,
		`10:00:00.123 [main] WARN  com.example.App -- slow`:                                warnLevel,
		`2026-11-26T10:00:00.123Z  INFO 7 --- [           main] com.example.App : Started`: infoLevel,
		`[10:00:00] [Server thread/INFO]: Done (3.2s)!`:                                    infoLevel,
		`[10:00:00 WARN]: Can't keep up!`:                                                  warnLevel,
		// zap's console, winston's simple, npm, PHP
		"2026-11-26T10:00:00.000Z\tERROR\tmain.go:7\tno": errorLevel,
		`error: it failed`:                         errorLevel,
		`info: ready {"port":8080}`:                infoLevel,
		`2026-11-26T10:00:00.000Z error it failed`: errorLevel,
		`[ERROR] it failed`:                        errorLevel,
		`[error] it failed`:                        errorLevel,
		`[2026-11-26T10:00:00] [warn] slow`:        warnLevel,
		`ERROR it failed`:                          errorLevel,
		`  WARN  slow`:                             warnLevel,
		`npm ERR! missing script: start`:           errorLevel,
		`npm warn deprecated inflight@1.0.6`:       warnLevel,
		`npm notice`:                               infoLevel,
		`npm start`:                                noLevel,
		`PHP Fatal error:  Uncaught Error`:         errorLevel,
		`[26-Nov-2026 10:00:00 UTC] PHP Warning:  Undefined variable $x`: warnLevel,
		// What has none
		`Error: Cannot find module 'discord.js'`: noLevel,
		`Errors are human`:                       noLevel,
		`information for everybody`:              noLevel,
		`no error: all is well`:                  noLevel,
		`error handling is on`:                   noLevel,
		`debug`:                                  noLevel,
		`[errors] none`:                          noLevel,
		`INFOrmation`:                            noLevel,
		`10 ERROR`:                               noLevel,
		`GET /?level=error 200`:                  noLevel,
		`[berth] killed`:                         noLevel,
		``:                                       noLevel,
		`[`:                                      noLevel,
		`[[[[[[[[[[[[[[ERROR]`:                   noLevel,
	} {
		if got := levelOf(line); got != want {
			t.Errorf("%q has %q, want %q", line, got, want)
		}
	}
}

func FuzzLevels(f *testing.F) {
	for _, s := range []string{`{"level":"`, "[ERROR", "time=\"", "2026-11-26 10:00:00 - ", "npm ", "PHP ", `{"a\`, "<", "("} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if l := levelOf(s); l != noLevel && len(l.Letter()) != 1 {
			t.Errorf("%q has %q", s, l)
		}
	})
}

func BenchmarkLevels(b *testing.B) {
	for name, line := range map[string]string{
		"none": "tick 17 and nothing that a program says of it", "json": `{"time":"2026-11-26T10:00:00Z","msg":"` + strings.Repeat("x", 100) + `","level":"INFO"}`,
		"words": "2026-11-26 10:00:00,123 - bot - ERROR - it failed",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				levelOf(line)
			}
		})
	}
}
