// A program that uses memory in one of several ways.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const mb = 1 << 20

var began = time.Now()

type member struct {
	ID    int
	Name  string
	Roles []int
}

func newMember(id int) *member {
	return &member{id, "member " + strconv.Itoa(id), []int{id, id + 1}}
}

func stepOf(work string, ram float64) func() {
	var all [][]byte
	fill := func(share, each float64) {
		for range int(share * ram * mb / each) {
			all = append(all, make([]byte, int(each)))
		}
	}
	switch work {
	case "bot": // members and the last messages of channels, and a message now and then
		members, channels := map[int]*member{}, make([][]any, 20)
		for id := range 20000 {
			members[id] = newMember(id)
		}
		message := map[string]any{"content": strings.Repeat("x", 1000), "author": newMember(1), "embeds": []string{strings.Repeat("x", 500)}}
		return func() {
			text, _ := json.Marshal(message)
			var got any
			_ = json.Unmarshal(text, &got)
			i, id := rand.IntN(20), rand.IntN(20000)
			if channels[i] = append(channels[i], got); len(channels[i]) > 200 {
				channels[i] = channels[i][1:]
			}
			members[id] = newMember(id)
		}
	case "cache": // entries that are replaced
		fill(0.42, 10240)
		return func() { all[rand.IntN(len(all))] = make([]byte, 10240) }
	case "garbage": // what nobody keeps
		return func() {
			rows := make([][]byte, 100)
			for i := range rows {
				rows[i] = make([]byte, 1000)
			}
		}
	case "buffers":
		fill(0.3, 65536)
		return func() { all[rand.IntN(len(all))] = make([]byte, 65536) }
	case "leak": // a third of the RAM in a second
		return func() {
			if float64(len(all))*10240 < time.Since(began).Seconds()*ram/3*mb {
				b := make([]byte, 10240)
				for i := range b {
					b[i] = 1
				}
				all = append(all, b)
			}
		}
	}
	go func() {
		_ = http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			rows := make([]map[string]any, 200)
			for i := range rows {
				rows[i] = map[string]any{"i": i, "value": strings.Repeat("x", 100)}
			}
			_ = json.NewEncoder(w).Encode(rows)
		}))
	}()
	return nil
}

func main() {
	ram, _ := strconv.ParseFloat(os.Args[2], 64)
	seconds, _ := strconv.ParseFloat(os.Args[3], 64)
	step, operations := stepOf(os.Args[1], ram), 0
	for time.Since(began).Seconds() < seconds {
		if step == nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		step()
		operations++
	}
	fmt.Println("operations", operations)
}
